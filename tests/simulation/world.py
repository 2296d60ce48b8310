"""The Redis of a simulation: its clock, its scripts, and what is in it."""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.client.wire import ReplyError, new_reader, pack
from penstock.model.snapshot import QueueSnapshot, Snapshot
from penstock.store.commands.checks import (
    READ_QUEUE,
    open_registration,
    pairs,
    queue_snapshot,
)
from penstock.store.keys import SIMULATED_CLOCK, NamespaceKeys
from penstock.store.script import SIMULATED, Script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.store.command import Argument, Command

NAMESPACE = "simulation"
QUEUES = ("mail", "video")
EPOCH_MS = 1_700_000_000_000
_EVERYTHING = 1_000_000


class Violated(AssertionError):
    """Something that must be true was not."""


@dataclass
class Scripts:
    """The scripts as the simulated server has them, possibly with a bug put in."""

    change: Callable[[str], str] | None = None
    _texts: dict[Script, str] = field(default_factory=dict)
    _digests: dict[Script, str] = field(default_factory=dict)

    def text(self, script: Script) -> str:
        if script not in self._texts:
            text = script.text(SIMULATED)
            self._texts[script] = self.change(text) if self.change else text
        return self._texts[script]

    def digest(self, script: Script) -> str:
        if script not in self._digests:
            text = self.text(script).encode()
            self._digests[script] = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        return self._digests[script]


class World:
    """One connection to a server that belongs to the simulation alone."""

    def __init__(self, path: Path, scripts: Scripts | None = None) -> None:
        self.keys = NamespaceKeys(NAMESPACE)
        self.scripts = scripts or Scripts()
        self.workers: list[str] = []
        """everyone who was ever registered, in the order of their registration"""
        self.now_ms = EPOCH_MS
        """the server's clock"""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(30)
        self._socket.connect(str(path))
        self._reader = new_reader()
        self._seen: dict[str, tuple[Any, Any]] = {}
        self._clock_set = 0
        self._last = Snapshot()

    def reset(self) -> None:
        """Forget everything: the next seed begins."""
        self.ask([("FLUSHALL",)])
        self.workers = []
        self.now_ms = EPOCH_MS
        self._clock_set = 0
        self._seen = {}
        self._last = Snapshot()

    def close(self) -> None:
        self._socket.close()

    def run(self, command: Command[Any]) -> tuple[list[Any], Snapshot]:
        """Run a command, and look at everything right after it."""
        names = self._concerned(command)
        questions = self._questions(names)
        first = [self._clock()] if self._clock_set != self.now_ms else []
        self._clock_set = self.now_ms
        replies = self.ask([*first, self._evalsha(command), *questions])[len(first) :]
        if _is_unknown(replies[0]) or any(map(_is_unknown, replies[1:])):
            self._load(READ_QUEUE)
            if _is_unknown(replies[0]):
                self._load(command.script)
                replies = self.ask([self._evalsha(command), *questions])
            else:
                replies[1:] = self.ask(questions)
        reply = replies[0]
        if not isinstance(reply, list):
            raise Violated(f"script {command.script.name!r} answered {reply!r}")
        return reply, self._snapshot(names, replies[1:])

    def look(self) -> Snapshot:
        """Everything that is stored, at this moment."""
        self._load(READ_QUEUE)
        return self._snapshot(self.workers, self.ask(self._questions(self.workers)))

    def forget_scripts(self) -> None:
        self.ask([("SCRIPT", "FLUSH")])

    def key_census(self) -> Snapshot:
        """What is wrong with the keys themselves."""
        (keys,) = self.ask([("KEYS", "*")])
        names = [key.decode() for key in keys if key.decode() != SIMULATED_CLOCK]
        ttls = self.ask([("PTTL", name) for name in names])
        known = {name: self.keys.identify(name) for name in names}
        memories = {name for name, key in known.items() if key and key.kind == "memory"}
        lives = dict(zip(names, ttls, strict=True))
        return Snapshot(
            unknown_keys=tuple(name for name, key in known.items() if key is None),
            expiring_keys=tuple(n for n in names if n not in memories and lives[n] >= 0),
            lasting_keys=tuple(n for n in memories if lives[n] < 0),
        )

    def ask(self, commands: list[tuple[Argument, ...]]) -> list[Any]:
        """Send plain commands and return all their replies, errors included."""
        if not commands:
            return []
        self._socket.sendall(b"".join(pack(*command) for command in commands))
        replies: list[Any] = []
        while len(replies) < len(commands):
            reply = self._reader.gets()
            if reply is False:
                self._reader.feed(self._socket.recv(65536))
            else:
                replies.append(reply)
        return replies

    def _clock(self) -> tuple[Argument, ...]:
        return ("SET", SIMULATED_CLOCK, str(self.now_ms))

    def _evalsha(self, command: Command[Any]) -> tuple[Argument, ...]:
        digest = self.scripts.digest(command.script)
        return ("EVALSHA", digest, len(command.keys), *command.keys, *command.args)

    def _load(self, script: Script) -> None:
        (digest,) = self.ask([("SCRIPT", "LOAD", self.scripts.text(script))])
        if isinstance(digest, ReplyError):
            raise Violated(f"script {script.name!r} does not compile: {digest}")

    def _concerned(self, command: Command[Any]) -> list[str]:
        """Who may have anything to do with what this command changes. Were tasks to appear
        elsewhere, they would be missing here, and conservation would say so.
        """
        last = self._last
        active = set(last.known_workers) | set(last.work) | set(command.args)
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

    def _snapshot(self, names: list[str], replies: list[Any]) -> Snapshot:
        registry, workers, condemned, info, *rest = replies
        queues, work = rest[: len(QUEUES)], rest[len(QUEUES) :]
        self._last = Snapshot(
            queues={n: self._queue(n, names, r) for n, r in zip(QUEUES, queues, strict=True)},
            registry={i.decode(): open_registration(entry) for i, entry in pairs(registry)},
            leases={w.decode(): int(score) for w, score in pairs(workers)},
            condemned={w.decode(): int(score) for w, score in pairs(condemned)},
            info=frozenset(worker.decode() for worker in info),
            work={
                worker: frozenset(queue.decode() for queue in served)
                for worker, served in zip(names, work, strict=True)
                if served
            },
        )
        return self._last

    def _queue(self, name: str, names: list[str], reply: Any) -> QueueSnapshot:
        """The same object as long as nothing in the queue changes, so that it is checked once."""
        raw, snapshot = self._seen.get(name, (None, None))
        if raw != (names, reply):
            new = queue_snapshot(name, names, reply)
            snapshot = snapshot if new == snapshot else new
            self._seen[name] = ((names, reply), snapshot)
        assert isinstance(snapshot, QueueSnapshot)
        return snapshot


def _is_unknown(reply: Any) -> bool:
    return isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT")
