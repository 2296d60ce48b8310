"""A key that holds something else is found before anything is written."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

import penstock
from penstock.errors import StoreError
from penstock.store.keys import KEY_TYPES
from penstock.store.kinds import KINDS
from tests.conftest import EVERY_VERSION
from tests.kinds import QUEUE, SAMPLES, each_kind, each_sample
from tests.servers import RedisServer
from tests.stored import Stored, part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.store.command import Command
    from penstock.store.keys import NamespaceKeys

pytestmark = pytest.mark.stores(*EVERY_VERSION)

STRINGS = ("memory", "staging")

SNAPSHOT = """
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  found[#found + 1] = key
  found[#found + 1] = redis.call('DUMP', key)
end
return found
"""

EVERY_KEY = [
    pytest.param(kind, name, position, id=f"{kind}-{name}-{key.name}")
    for kind, samples in SAMPLES.items()
    for name, script in samples.scripts.items()
    for position, key in enumerate(script.keys)
    if key.type != "any"
]


@pytest.mark.parametrize(("kind", "name", "position"), EVERY_KEY)
def test_a_key_of_the_wrong_type_is_reported_and_nothing_is_changed(
    ps: penstock.Penstock,
    names: NamespaceKeys,
    stored: Stored,
    kind: str,
    name: str,
    position: int,
) -> None:
    samples = SAMPLES[kind]
    command = samples.commands(names, samples.fill(ps.store, names))[name]
    key = command.keys[position]
    plant = "RPUSH" if part_of(key) in STRINGS else "SET"
    ps.store.call(key, "DEL", key)
    ps.store.call(key, plant, key, "something else")
    before = stored.everything()

    with pytest.raises(StoreError, match="holds a value of another type"):
        ps.store.run(command)

    assert stored.everything() == before


def test_finishing_nothing_and_starting_more_checks_what_is_running_too(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    samples = SAMPLES["tasks"]
    command = samples.commands(names, samples.fill(ps.store, names))["finish nothing and start"]
    running = names.queue(QUEUE).running("w1")
    ps.store.call(running, "DEL", running)
    ps.store.call(running, "SET", running, "something else")
    before = stored.everything()

    with pytest.raises(StoreError, match="holds a value of another type"):
        ps.store.run(command)

    assert stored.everything() == before


@pytest.fixture(scope="module")
def bare_server() -> Iterator[RedisServer]:
    """A server with nothing else on it, so that all its keys can be looked at again and again."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        yield server
        server.kill()


class SpoiltQueue:
    """A queue of which one key at a time holds something else."""

    def __init__(self, ps: penstock.Penstock, server: RedisServer, kind: str, name: str) -> None:
        self._client: Any = server.client
        self._pattern = ps.keys.pattern
        samples = SAMPLES[kind]
        processes = samples.fill(ps.store, ps.keys)
        self.command: Command[Any] = samples.commands(ps.keys, processes)[name]
        self._values = self._dump()
        self._now = self._values

    def every_key(self) -> set[str]:
        """What there is before or after the command, and what it is given."""
        self._run()
        after = self._dump()
        self._mend(after)
        return {*self._values, *after, *self.command.keys}

    def outcome(self, key: str) -> str:
        """What the command does if this key holds something else."""
        plant = self._client.rpush if part_of(key) in STRINGS else self._client.set
        self._client.delete(key)
        plant(key, "something else")
        before = self._now | {key: self._client.dump(key)}
        try:
            self._run()
            outcome = "fine"
        except redis.ResponseError as error:
            outcome = "refused" if "WRONGTYPE" in str(error) else str(error)
        after = self._dump()
        self._mend(after)
        return f"{outcome}, but changed" if outcome != "fine" and after != before else outcome

    def _run(self) -> None:
        """Once: a client would repeat it, and find what the first one left behind."""
        command = self.command
        text, keys = command.script.text(), command.keys
        self._client.eval(text, len(keys), *keys, *command.arguments)

    def _dump(self) -> dict[str, bytes]:
        """Key -> value; the same value twice may look different, but not if nothing touched it."""
        found = self._client.eval(SNAPSHOT, 0, self._pattern)
        return {key.decode(): value for key, value in zip(found[::2], found[1::2], strict=True)}

    def _mend(self, after: dict[str, bytes]) -> None:
        pipeline = self._client.pipeline()
        for key in {key for key, _ in self._now.items() ^ after.items()}:
            pipeline.delete(key)
            if key in self._values:
                pipeline.restore(key, 0, self._values[key])
        pipeline.execute()
        self._now = self._dump()


@each_sample(lambda kind, samples: [*samples.scripts, *samples.more])
def test_whichever_key_has_the_wrong_type_a_script_is_done_whole_or_not_at_all(
    bare_server: RedisServer, namespace: str, kind: str, name: str
) -> None:
    """Every key of a queue with everything in it is spoilt in turn, and every key that the script
    adds to it. The script then either says so and has changed nothing, or has no business with it.
    """
    bare_server.command("FLUSHALL")
    with penstock.connect(bare_server.url, namespace=namespace) as ps:
        queue = SpoiltQueue(ps, bare_server, kind, name)

        outcomes = {key: queue.outcome(key) for key in queue.every_key()}

    assert {key: how for key, how in outcomes.items() if how not in ("fine", "refused")} == {}
    passed = zip(queue.command.keys, queue.command.script.keys, strict=False)
    asked = {key for key, parameter in passed if parameter.type != "any"}
    assert {key: outcomes[key] for key in asked} == dict.fromkeys(asked, "refused")


@each_kind
def test_a_request_that_met_one_leaves_its_lane_to_the_next(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored, kind: str
) -> None:
    """Or there would be a memory for each request that follows one which was refused."""
    send: dict[str, Callable[[str], object]] = {
        "tasks": lambda queue: ps.queue(queue).enqueue(b"task"),
        "jobs": lambda queue: ps.jobs(queue).add("email"),
        "logs": lambda queue: ps.log(queue).append(b"message"),
    }
    ps.store.call(names.queue("broken").meta, "SET", names.queue("broken").meta, "something else")
    for _ in range(3):
        with pytest.raises(StoreError, match="holds a value of another type"):
            send[kind]("broken")
        send[kind](QUEUE)

    memories = [key for key in stored.types() if f":{QUEUE}}}:memory:" in key]
    assert len(memories) == 1


@each_kind
def test_every_key_of_a_queue_has_the_type_that_is_declared(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored, kind: str
) -> None:
    SAMPLES[kind].fill(ps.store, names)

    tag = names.queue(QUEUE).tag.removesuffix("}")
    types = {part_of(key): type_ for key, type_ in stored.types().items() if key.startswith(tag)}
    assert types == KINDS[kind].key_types


def test_every_key_that_crosses_queues_has_the_type_that_is_declared(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    SAMPLES["tasks"].fill(ps.store, names)

    tag = f"{names.tag}:"
    types = {part_of(key): type_ for key, type_ in stored.types().items() if key.startswith(tag)}
    assert types == KEY_TYPES
