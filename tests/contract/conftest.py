"""What the tests of the protocol share. They run on every kind of store, or on those they name."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.connection.subscription import Subscription
from penstock.store.command import Operation
from penstock.store.keys import NamespaceKeys
from penstock.worker.handlers import collect_handlers
from tests.conftest import EVERY_VERSION
from tests.contract.job_workers import Hand
from tests.running_worker import RunningWorker, stopped_in_the_end
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.client.functions import JobFunction
    from tests.servers import RedisCluster, RedisServer

_LAST_WORD = b"the last word"


class Ear:
    """Hears what is said on one channel."""

    def __init__(self, client: penstock.Penstock, channel: str) -> None:
        self._store = client.store
        self._channel = channel
        self._subscription = Subscription(client.store, channel, [channel])
        assert self._subscription.receive() == ("", b"")

    def hear_the_rest(self) -> list[bytes]:
        """Everything said since, without a wait: what is published last is heard last."""
        is_sharded = self._store.dialect.channels == "sharded_channels"
        publish = "SPUBLISH" if is_sharded else "PUBLISH"
        self._store.call(self._channel, publish, self._channel, _LAST_WORD)
        heard: list[bytes] = []
        while (message := self._subscription.receive()) is not None:
            if message[1] == _LAST_WORD:
                return heard
            heard.append(message[1])
        raise AssertionError("the last word was not heard")

    def close(self) -> None:
        self._subscription.close()


@pytest.fixture(autouse=True)
def _left_empty(servers: dict[str, RedisServer | RedisCluster]) -> Iterator[None]:
    """To look at a namespace is to go through all keys of a server: what thousands of tests had
    left there would make each slower than the one before.
    """
    yield
    for kind in EVERY_VERSION:
        if kind in servers:
            servers[kind].empty()


@pytest.fixture
def ps(any_store: RedisServer | RedisCluster, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(any_store.url, namespace=namespace) as client:
        yield client


@pytest.fixture
def names(namespace: str) -> NamespaceKeys:
    return NamespaceKeys(namespace)


@pytest.fixture
def stored(any_store: RedisServer | RedisCluster, namespace: str) -> Stored:
    return Stored(any_store, namespace)


@pytest.fixture
def worker(ps: penstock.Penstock) -> Iterator[penstock.WorkerSession]:
    """A worker that serves the queue; its lease outlasts any test."""
    with ps.worker("ant", lease_ms=60_000) as session:
        session.start_work("mail")
        yield session


@pytest.fixture
def operations() -> Iterator[Operation]:
    """Numbered requests of one lane."""
    return (Operation("lane", number) for number in count(1))


@pytest.fixture
def listen(ps: penstock.Penstock) -> Iterator[Callable[[str], Ear]]:
    """Subscribe to a channel, from now on."""
    ears: list[Ear] = []

    def begin(channel: str) -> Ear:
        ears.append(Ear(ps, channel))
        return ears[-1]

    yield begin
    for ear in ears:
        ear.close()


@pytest.fixture
def mail(ps: penstock.Penstock) -> penstock.Jobs:
    """The queue of jobs that most tests use."""
    return ps.jobs("mail")


@pytest.fixture
def hand(ps: penstock.Penstock) -> Hand:
    """A worker for jobs of all types, driven by the test."""
    return Hand(ps)


@pytest.fixture
def serve(ps: penstock.Penstock) -> Iterator[Callable[..., RunningWorker]]:
    """Start workers that run job functions; they are stopped when the test ends."""

    def start(
        *functions: JobFunction[..., Any],
        backoffs: dict[str, Callable[[int], float]] | None = None,
        **options: Any,
    ) -> RunningWorker:
        handlers = collect_handlers(functions)._replace(backoffs=backoffs or {})
        started.append(RunningWorker(ps.settings, handlers, **options))
        return started[-1].start()

    with stopped_in_the_end() as started:
        yield start
