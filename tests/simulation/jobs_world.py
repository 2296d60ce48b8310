"""The server of a simulation of jobs, and what is in it after every command."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.store.keys import JOB_KEY_TYPES, KEY_TYPES, QUEUE_KEY_TYPES
from penstock.store.script import Script
from tests.simulation.batches_look import READ_STAGING, StagingReader
from tests.simulation.hearing import LISTENERS, with_hearing
from tests.simulation.jobs_look import Look, Parts, QueueLook, open_value, queue_look
from tests.simulation.server import QUEUES, Scripts, Server, Violated

if TYPE_CHECKING:
    from penstock.store.command import Argument, Command
    from penstock.store.keys import KeyName
    from tests.simulation.batches_look import Staging

LOOK = Script("look", Path(__file__).with_name("look.lua").read_text(encoding="utf-8"))
_READINGS = (LOOK, READ_STAGING)
_KEY_TYPES = KEY_TYPES | QUEUE_KEY_TYPES | JOB_KEY_TYPES
_PASSING = ("memory", "stage", "staging")
_TYPES = tuple(word for pair in _KEY_TYPES.items() for word in pair)


class JobWorld(Server):
    """Reads everything after every command, and takes apart what has changed."""

    def __init__(self, path: Path, scripts: Scripts | None = None) -> None:
        self.is_heard = False
        """whether workers hear when they are called; otherwise everybody is woken"""
        self._listeners: frozenset[str] = frozenset()
        super().__init__(path, scripts)
        self._opened: dict[bytes, tuple[Any, Any]] = {}
        self._queues: dict[str, tuple[dict[bytes, Any], QueueLook]] = {}
        self._staging = StagingReader()
        self._name = lru_cache(maxsize=100_000)(self._identify)

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
        reply, answers = self._run(command, _READINGS, self._questions())
        return reply, self._look(*answers)

    def look(self) -> Look:
        """Everything that is stored, at this moment."""
        for reading in _READINGS:
            self._load(reading)
        return self._look(*self.ask(self._questions()))

    def stored_keys(self) -> set[str]:
        """Every key but those that go by themselves: what lanes remember, and what was staged."""
        (keys,) = self.ask([("KEYS", "{*")])
        lives = self.ask([("PTTL", key) for key in keys])
        return {
            key.decode()
            for key, life in zip(keys, lives, strict=True)
            if life < 0 or self._name(key).kind not in _PASSING
        }

    def _questions(self) -> list[tuple[Argument, ...]]:
        everything: tuple[Argument, ...] = ("EVALSHA", self.scripts.digest(LOOK), 0, *_TYPES)
        return [everything, self._staging.question(self)]

    def _look(self, found: Any, staged: Any) -> Look:
        if not isinstance(found, list) or not isinstance(staged, list):
            raise Violated(f"what is stored cannot be read: {found!r}, {staged!r}")
        staging = self._staging.open(staged)
        parts: dict[str, Parts] = {name: {} for name in ("", *QUEUES)}
        changed = set()
        keys: dict[str, dict[bytes, Any]] = {name: {} for name in ("", *QUEUES)}
        for key, value in found:
            queue, kind, owner = self._name(key)
            known = self._opened.get(key)
            if known is None or known[0] != value:
                opened = open_value(kind, value)
                if known is None or known[1] != opened:
                    changed.add(queue)
                    known = (value, opened)
                else:
                    known = (value, known[1])  # a set in another order, say
                self._opened[key] = known
            parts[queue].setdefault(kind, {})[owner] = known[1]
            keys[queue][key] = None
        space = {kind: owners.get("", {}) for kind, owners in parts[""].items()}
        return Look(
            queues={
                name: self._queue(name, keys[name], parts[name], name in changed, staging[name])
                for name in QUEUES
            },
            registry=space.get("queues", frozenset()),
            leases=space.get("workers", {}),
            condemned=space.get("condemned", frozenset()),
            work=parts[""].get("work", {}),
            info=space.get("info", frozenset()),
        )

    def _queue(
        self,
        name: str,
        keys: dict[bytes, Any],
        parts: Parts,
        is_changed: bool,
        staging: Staging,
    ) -> QueueLook:
        """The same object as long as nothing in the queue changes, so that it is checked once."""
        known = self._queues.get(name)
        is_changed = is_changed or known is None or known[1].staging is not staging
        if known is not None and not is_changed and known[0] == keys:
            return known[1]
        look = queue_look(name, parts, staging)
        for key in known[0].keys() - keys.keys() if known else ():
            del self._opened[key]
        self._queues[name] = (keys, look)
        return look

    def _identify(self, key: bytes) -> KeyName:
        name = self.keys.identify(key.decode())
        if name is None or (name.queue and name.queue not in QUEUES):
            raise Violated(f"key {key!r} is none of ours")
        return name
