"""A key of a queue of jobs that holds something else is found before anything is written.

Every key of a queue with everything in it is spoilt in turn, and every key that a script adds to
it. The script then either says so and has changed nothing, or has no business with that key.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

import penstock
from penstock.store.keys import JOB_KEY_TYPES, QUEUE_KEY_TYPES, NamespaceKeys
from tests.job_samples import (
    HELD,
    QUEUE,
    SCRIPTS,
    more_job_commands,
    sample_job_commands,
    sample_job_world,
)
from tests.servers import RedisServer
from tests.stored import Stored, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.store.command import Command

MORE = list(more_job_commands(NamespaceKeys("ns"), dict.fromkeys(HELD, 0)))


SNAPSHOT = """
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  found[#found + 1] = key
  found[#found + 1] = redis.call('DUMP', key)
end
return found
"""


@pytest.fixture(scope="module")
def bare_server() -> Iterator[RedisServer]:
    """A server with nothing else on it, so that all its keys can be looked at again and again."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        yield server
        server.kill()


@pytest.fixture
def ps(bare_server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    bare_server.command("FLUSHALL")
    with penstock.connect(bare_server.url, namespace=namespace) as client:
        yield client


class SpoiltQueue:
    """A queue of which one key at a time holds something else."""

    def __init__(self, ps: penstock.Penstock, server: RedisServer, name: str) -> None:
        self._client: Any = server.client
        self._pattern = f"{ps.keys.queue(QUEUE).tag}:*"
        processes = sample_job_world(ps.store, ps.keys)
        samples = sample_job_commands(ps.keys, processes)
        self._command: Command[Any] = (samples | more_job_commands(ps.keys, processes))[name]
        self._values = self._dump()
        self._now = self._values

    def every_key(self) -> set[str]:
        """What the queue has before or after the command."""
        self._run()
        after = self._dump()
        self._mend(after)
        return set(self._values | after)

    def outcome(self, key: str) -> str:
        """What the command does if this key holds something else."""
        plant = self._client.rpush if part_of(key) in ("memory", "staging") else self._client.set
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
        command = self._command
        text, keys = command.script.text(), command.keys
        self._client.eval(text, len(keys), *keys, *command.args)

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


@pytest.mark.parametrize("name", [*SCRIPTS, *MORE])
def test_a_key_of_the_wrong_type_is_reported_and_nothing_is_changed(
    ps: penstock.Penstock, bare_server: RedisServer, name: str
) -> None:
    queue = SpoiltQueue(ps, bare_server, name)

    outcomes = {key.partition("}:")[2]: queue.outcome(key) for key in queue.every_key()}

    assert {key: how for key, how in outcomes.items() if how not in ("fine", "refused")} == {}
    assert outcomes["meta"] == "refused"


def test_every_key_has_the_type_that_is_written_down(
    ps: penstock.Penstock, bare_server: RedisServer, namespace: str
) -> None:
    types = QUEUE_KEY_TYPES | JOB_KEY_TYPES

    sample_job_world(ps.store, ps.keys)

    tag = ps.keys.queue(QUEUE).tag
    stored = Stored(bare_server, namespace).types()
    assert {part_of(key): kind for key, kind in stored.items() if key.startswith(tag)} == types
