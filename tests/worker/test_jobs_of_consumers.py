"""Jobs that consumers send: a message that comes again sends nothing twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.worker.handlers import collect_handlers
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.running_worker import RunningWorker
    from tests.servers import RedisServer

COUNT = 20


@penstock.job(queue="mail")
def email(number: str) -> str:
    return number


@pytest.fixture
def numbers(ps: penstock.Penstock) -> list[str]:
    """The messages of one partition."""
    numbers = [str(number) for number in range(COUNT)]
    log = ps.log("clicks", partitions=1)
    log.append_many([penstock.NewMessage(number.encode()) for number in numbers])
    return numbers


@pytest.fixture
def consume(start_worker: Callable[..., RunningWorker]) -> Callable[..., RunningWorker]:
    """Start a worker with these functions and one slot."""

    def start(*functions: Any) -> RunningWorker:
        return start_worker(collect_handlers(functions), concurrency=1)

    return start


def sent(ps: penstock.Penstock, state: Any = "ready") -> list[str]:
    """What was sent for each message, in its order."""
    page = ps.jobs("mail").page(state, limit=1000)
    found = [email.signature.open(job.data)[0] for job in page.jobs]
    return sorted((number for (number,) in found), key=int)


def test_a_message_that_fails_and_comes_again_sends_its_jobs_once(
    ps: penstock.Penstock, numbers: list[str], consume: Callable[..., RunningWorker]
) -> None:
    tried: list[str] = []

    @penstock.consumer("clicks", "g", attempts=3, backoff=0.01)
    def read(message: penstock.Message) -> None:
        number = message.body.decode()
        email.on(ps).send(number)
        tried.append(number)
        if tried.count(number) < 3:
            raise ValueError("not yet")

    consume(read)

    wait_for(lambda: tried[-1:] == numbers[-1:] and len(tried) == 3 * COUNT)
    assert sent(ps) == numbers


def test_a_coroutine_sends_its_jobs_once_too(
    ps: penstock.Penstock,
    server: RedisServer,
    namespace: str,
    numbers: list[str],
    consume: Callable[..., RunningWorker],
) -> None:
    tried: list[str] = []

    @penstock.consumer("clicks", "g", attempts=2, backoff=0.01)
    async def read(message: penstock.Message) -> None:
        number = message.body.decode()
        async with await penstock.aconnect(server.url, namespace=namespace) as client:
            await email.on(client).send(number)
        tried.append(number)
        if tried.count(number) < 2:
            raise ValueError("not yet")

    consume(read)

    wait_for(lambda: len(tried) == 2 * COUNT)
    assert sent(ps) == numbers


def test_a_batch_that_comes_again_message_by_message_sends_jobs_once_if_it_names_the_message(
    ps: penstock.Penstock, numbers: list[str], consume: Callable[..., RunningWorker]
) -> None:
    alone: list[str] = []

    @penstock.consumer("clicks", "g", batch=8, attempts=2, backoff=0.01)
    def read(messages: list[penstock.Message]) -> None:
        def calls() -> Iterator[tuple[str]]:
            for message in messages:
                with penstock.sending_for(message):
                    yield (message.body.decode(),)

        email.on(ps).send_many(calls())
        if len(messages) > 1:
            raise ValueError("one at a time")
        alone.append(messages[0].body.decode())

    consume(read)

    wait_for(lambda: len(alone) == COUNT)
    assert sent(ps) == numbers


def test_a_group_that_is_sent_back_sends_nothing_again_while_records_are_kept(
    ps: penstock.Penstock, numbers: list[str], consume: Callable[..., RunningWorker]
) -> None:
    read: list[bytes] = []

    @penstock.consumer("clicks", "g", commit="each")
    def consumer(message: penstock.Message) -> None:
        email.on(ps).send(message.body.decode())
        read.append(message.body)

    consume(consumer, email)
    wait_for(lambda: ps.jobs("mail").counts()["done"] == COUNT)
    [one] = ps.jobs("mail").page("done", limit=1).jobs
    ps.job(one.id).remove()
    ps.log("clicks").group("g").seek(0.0)

    wait_for(lambda: len(read) == 2 * COUNT and ps.jobs("mail").counts()["done"] == COUNT)
    assert sent(ps, "done") == numbers
    assert len(ps.jobs("mail").history()) == COUNT + 1


def test_a_job_that_runs_where_a_consumer_ran_sends_as_often_as_it_likes(
    ps: penstock.Penstock, numbers: list[str], consume: Callable[..., RunningWorker]
) -> None:
    @penstock.job(queue="fan")
    def fan() -> None:
        email.on(ps).send("1")
        email.on(ps).send("1")

    @penstock.consumer("clicks", "g")
    def read(message: penstock.Message) -> None:
        if message.body == b"0":
            fan.on(ps).send()

    consume(read, fan)

    wait_for(lambda: ps.jobs("fan").counts()["done"] == 1)
    fan.on(ps).send().result(timeout=10)
    assert sent(ps) == ["1"] * 4
