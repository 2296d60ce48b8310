"""The server of a simulation of jobs, and what is in it after every command."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from penstock.connection.wire import ReplyError, pack
from penstock.store.keys import JOB_KEY_TYPES, KEY_TYPES, QUEUE_KEY_TYPES
from tests.simulation.batches_look import READ_STAGING, StagingReader
from tests.simulation.hearing import LISTENERS, with_hearing
from tests.simulation.jobs_look import Look, Parts, QueueLook, open_value, queue_look
from tests.simulation.server import QUEUES, Scripts, Server, Violated

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from penstock.store.command import Argument, Command
    from penstock.store.keys import KeyName
    from tests.simulation.batches_look import Staging

_KEY_TYPES = KEY_TYPES | QUEUE_KEY_TYPES | JOB_KEY_TYPES
_PASSING = ("memory", "stage", "staging")
_READ_ELSEWHERE = {*_PASSING, "moving", "batches", "batch_times"}
"""what lanes remember, which nobody reads, and what `StagingReader` reads"""
_LIST_KEYS = pack("KEYS", "{*")
_READINGS: dict[str, tuple[str, tuple[Argument, ...]]] = {
    "hash": ("HGETALL", ()),
    "zset": ("ZRANGE", (0, -1, "WITHSCORES")),
    "list": ("LRANGE", (0, -1)),
    "set": ("SMEMBERS", ()),
    "stream": ("XLEN", ()),
}
"""type of key -> the command that reads it, and what comes after the key"""


class JobWorld(Server):
    """Reads everything after every command, and takes apart what has changed."""

    def __init__(self, path: Path, scripts: Scripts | None = None) -> None:
        self.is_heard = False
        """whether workers hear when they are called; otherwise everybody is woken"""
        self._listeners: frozenset[str] = frozenset()
        super().__init__(path, scripts)
        self._opened: dict[bytes, tuple[Any, Any]] = {}
        """key -> what the server said of it, and the same taken apart"""
        self._space: Parts = {}
        self._queues: dict[str, QueueLook] = {}
        self._staging = StagingReader()
        self._name = lru_cache(maxsize=100_000)(self._identify)
        self._reading = lru_cache(maxsize=100_000)(self._pack_reading)

    @property
    def scripts(self) -> Scripts:
        return self._heard if self.is_heard else self._plain

    @scripts.setter
    def scripts(self, scripts: Scripts) -> None:
        change = scripts.change or (lambda text: text)
        self._plain = scripts
        self._heard = Scripts(lambda text: with_hearing(change(text)))

    def reset(self) -> None:
        super().reset()
        self._listeners = frozenset()
        self._opened = {}
        self._space = {}
        self._queues = {}
        self._staging = StagingReader()

    def listen(self, workers: frozenset[str]) -> None:
        """From now on, these workers hear when they are called."""
        if workers == self._listeners or not self.is_heard:
            return
        self._listeners = workers
        self.ask([("DEL", LISTENERS), *[("SADD", LISTENERS, worker) for worker in workers]])

    def run(self, command: Command[Any]) -> tuple[list[Any], Look]:
        """Run a command, and look at everything right after it."""
        keys = list(self._opened)
        reply, answers = self._run(command, (READ_STAGING,), self._questions(keys))
        return reply, self._look(keys, *answers)

    def look(self) -> Look:
        """Everything that is stored, at this moment."""
        self._load(READ_STAGING)
        keys = list(self._opened)
        return self._look(keys, *self.ask(self._questions(keys)))

    def stored_keys(self) -> set[str]:
        """Every key but those that go by themselves: what lanes remember, and what was staged."""
        (keys,) = self.ask([("KEYS", "{*")])
        lives = self.ask([("PTTL", key) for key in keys])
        return {
            key.decode()
            for key, life in zip(keys, lives, strict=True)
            if life < 0 or self._name(key).kind not in _PASSING
        }

    def _questions(self, keys: Iterable[bytes]) -> list[tuple[Argument, ...] | bytes]:
        """Those keys are read in the same breath; a second one is only for keys that are new."""
        return [self._staging.question(self), _LIST_KEYS, *map(self._reading, keys)]

    def _look(self, asked: list[bytes], staged: Any, listed: Any, *values: Any) -> Look:
        if not isinstance(staged, list) or not isinstance(listed, list):
            raise Violated(f"what is stored cannot be read: {staged!r}, {listed!r}")
        stored = set(listed)
        found = dict(zip(asked, values, strict=True))
        new = [key for key in stored.difference(found) if self._reading(key)]
        found.update(zip(new, self.ask([self._reading(key) for key in new]), strict=True))
        staging = self._staging.open(staged)
        changed = self._take_apart({key: found[key] for key in found if key in stored})
        changed |= {
            name
            for name in QUEUES
            if name not in self._queues or self._queues[name].staging is not staging[name]
        }
        self._put_together(changed, staging)
        space = {kind: owners.get("", {}) for kind, owners in self._space.items()}
        return Look(
            queues=dict(self._queues),
            registry=space.get("queues", frozenset()),
            leases=space.get("workers", {}),
            condemned=space.get("condemned", frozenset()),
            work=self._space.get("work", {}),
            info=space.get("info", frozenset()),
        )

    def _take_apart(self, found: dict[bytes, Any]) -> set[str]:
        """Take apart what is not what it was; returns the queues that have changed."""
        gone = self._opened.keys() - found.keys()
        changed = {self._name(key).queue for key in gone}
        for key in gone:
            del self._opened[key]
        for key, value in found.items():
            known = self._opened.get(key)
            if known is not None and known[0] == value:
                continue
            if isinstance(value, ReplyError):
                raise Violated(f"key {key!r} cannot be read: {value}")
            queue, kind, *_ = self._name(key)
            opened = open_value(kind, value)
            if known is not None and known[1] == opened:
                opened = known[1]  # a set in another order, say
            else:
                changed.add(queue)
            self._opened[key] = (value, opened)
        return changed

    def _put_together(self, changed: set[str], staging: dict[str, Staging]) -> None:
        """A queue stays the same object until something in it changes, so it is checked once."""
        parts: dict[str, Parts] = {name: {} for name in changed}
        for key, (_, opened) in self._opened.items() if changed else ():
            queue, kind, owner, _ = self._name(key)
            if queue in parts:
                parts[queue].setdefault(kind, {})[owner] = opened
        self._space = parts.get("", self._space)
        for name in QUEUES:
            if name in parts:
                self._queues[name] = queue_look(name, parts[name], staging[name])

    def _pack_reading(self, key: bytes) -> bytes:
        """The command that reads a key; empty if it is read elsewhere."""
        kind = self._name(key).kind
        if kind in _READ_ELSEWHERE:
            return b""
        command, rest = _READINGS[_KEY_TYPES[kind]]
        return pack(command, key, *rest)

    def _identify(self, key: bytes) -> KeyName:
        name = self.keys.identify(key.decode())
        if name is None or (name.queue and name.queue not in QUEUES):
            raise Violated(f"key {key!r} is none of ours")
        return name
