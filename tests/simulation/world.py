"""What a simulation of plain tasks has stored, read after every command."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.model.snapshot import QueueSnapshot, Snapshot
from penstock.store.commands.checks import (
    READ_QUEUE,
    open_registration,
    pairs,
    queue_snapshot,
)
from penstock.store.commands.workers import open_served
from tests.simulation.batches_look import READ_STAGING, Staging, StagingReader
from tests.simulation.server import QUEUES, Scripts, Server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.store.command import Argument, Command

_EVERYTHING = 1_000_000
_READINGS = (READ_QUEUE, READ_STAGING)
_PASSING = ("memory", "staging")
"""what goes by itself"""


@dataclass(frozen=True)
class WorldSnapshot(Snapshot):
    """Everything that a simulation of plain tasks has stored."""

    staging: Mapping[str, Staging] = field(default_factory=dict)
    """what was staged for each queue"""


class World(Server):
    """The server of a simulation of plain tasks."""

    def __init__(self, path: Path, scripts: Scripts | None = None) -> None:
        super().__init__(path, scripts)
        self._seen: dict[str, tuple[Any, Any]] = {}
        self._staging = StagingReader()
        self._last = WorldSnapshot()

    def reset(self) -> None:
        super().reset()
        self._seen = {}
        self._staging = StagingReader()
        self._last = WorldSnapshot()

    def run(self, command: Command[Any]) -> tuple[list[Any], WorldSnapshot]:
        """Run a command, and look at everything right after it."""
        names = self._concerned(command)
        reply, answers = self._run(command, _READINGS, self._questions(names))
        return reply, self._snapshot(names, answers)

    def look(self) -> WorldSnapshot:
        """Everything that is stored, at this moment."""
        for reading in _READINGS:
            self._load(reading)
        return self._snapshot(self.workers, self.ask(self._questions(self.workers)))

    def key_scan(self) -> Snapshot:
        """What is wrong with the keys themselves."""
        (keys,) = self.ask([("KEYS", "*")])
        names = [key.decode() for key in keys if key.decode() != self.keys.simulated_clock]
        ttls = self.ask([("PTTL", name) for name in names])
        known = {name: self.keys.identify(name) for name in names}
        passing = {name for name, key in known.items() if key and key.kind in _PASSING}
        stages = {name for name, key in known.items() if key and key.kind == "stage"}
        lives = dict(zip(names, ttls, strict=True))
        return Snapshot(
            unknown_keys=tuple(name for name, key in known.items() if key is None),
            expiring_keys=tuple(n for n in names if n not in passing | stages and lives[n] >= 0),
            lasting_keys=tuple(n for n in passing if lives[n] < 0),
        )

    def _concerned(self, command: Command[Any]) -> list[str]:
        """Who may have anything to do with what this command changes. Were tasks to appear
        elsewhere, they would be missing here, and conservation would say so.
        """
        last = self._last
        active = set(last.known_workers) | set(last.work) | set(command.arguments)
        active |= {key.rpartition(":")[2] for key in command.keys}
        for queue in last.queues.values():
            active |= queue.members | queue.running.keys()
        return [worker for worker in self.workers if worker in active]

    def _questions(self, workers: list[str]) -> list[tuple[Argument, ...]]:
        keys = self.keys
        digest = self.scripts.digest(READ_QUEUE)
        questions: list[tuple[Argument, ...]] = [
            ("HGETALL", keys.queues),
            ("ZRANGE", keys.workers, 0, -1, "WITHSCORES"),
            ("ZRANGE", keys.condemned, 0, -1, "WITHSCORES"),
            ("HKEYS", keys.info),
            self._staging.question(self),
        ]
        for name in QUEUES:
            queue = keys.queue(name)
            names = (
                *(queue.meta, queue.ready, queue.dead, queue.members, queue.idle),
                *(queue.failures, queue.unique, queue.unique_tasks),
                *map(queue.running, workers),
            )
            questions.append(("EVALSHA", digest, len(names), *names, _EVERYTHING))
        questions += [("SMEMBERS", keys.work(worker)) for worker in workers]
        return questions

    def _snapshot(self, names: list[str], replies: list[Any]) -> WorldSnapshot:
        registry, workers, condemned, info, staging, *rest = replies
        queues, work = rest[: len(QUEUES)], rest[len(QUEUES) :]
        self._last = WorldSnapshot(
            queues={n: self._queue(n, names, r) for n, r in zip(QUEUES, queues, strict=True)},
            registry={i.decode(): open_registration(entry) for i, entry in pairs(registry)},
            leases={w.decode(): int(score) for w, score in pairs(workers)},
            condemned={w.decode(): int(score) for w, score in pairs(condemned)},
            info=frozenset(worker.decode() for worker in info),
            work={
                worker: frozenset(open_served(entry).queue for entry in served)
                for worker, served in zip(names, work, strict=True)
                if served
            },
            staging=self._staging.open(staging),
        )
        return self._last

    def _queue(self, name: str, names: list[str], reply: Any) -> QueueSnapshot:
        """The same object as long as nothing in the queue changes, so that it is checked once."""
        raw, snapshot = self._seen.get(name, (None, None))
        if raw != (names, reply):
            new = queue_snapshot(self.keys.queue(name), names, reply)
            snapshot = snapshot if new == snapshot else new
            self._seen[name] = ((names, reply), snapshot)
        assert isinstance(snapshot, QueueSnapshot)
        return snapshot
