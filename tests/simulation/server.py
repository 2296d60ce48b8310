"""The Redis of a simulation: one connection, its clock, and its scripts."""

from __future__ import annotations

import hashlib
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.connection.wire import ReplyError, new_reader, pack
from penstock.store.keys import SIMULATED_CLOCK, NamespaceKeys
from penstock.store.script import SIMULATED, Script

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.store.command import Argument, Command

NAMESPACE = "simulation"
QUEUES = ("mail", "video")
EPOCH_MS = 1_700_000_000_000


# Whom the server picks must be the seed's choice too, or a seed could not be replayed.
_PICK = f"""
local function picked(set)
  local now = redis.call('GET', '{SIMULATED_CLOCK}:{NAMESPACE}')
  local members = redis.call('SMEMBERS', set)
  table.sort(members)
  return members[1 + (now or 0) % math.max(#members, 1)] or false
end
local function popped(set)
  local member = picked(set)
  if member then redis.call('SREM', set, member) end
  return member
end
local function sorted(set)
  local members = redis.call('SMEMBERS', set)
  table.sort(members)
  return members
end
"""
_CHANCES = {
    "redis.call('SPOP', idle)": "popped(idle)",
    "redis.call('SRANDMEMBER', keys.idle)": "picked(keys.idle)",
    "redis.call('SRANDMEMBER', keys.idle, 50)": "sorted(keys.idle)",
    "redis.call('SRANDMEMBER', keys.unhandled_types, 16)": "sorted(keys.unhandled_types)",
    "redis.call('SRANDMEMBER', keys.unhandled_types, limit)": "sorted(keys.unhandled_types)",
}


def leave_nothing_to_chance(text: str) -> str:
    """The same script, with what the server would pick at random picked by the clock."""
    for chance, choice in _CHANCES.items():
        text = text.replace(chance, choice)
    assert "RANDMEMBER" not in text and "SPOP" not in text
    return _PICK + text


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
            text = self.change(text) if self.change else text
            self._texts[script] = leave_nothing_to_chance(text)
        return self._texts[script]

    def digest(self, script: Script) -> str:
        if script not in self._digests:
            text = self.text(script).encode()
            self._digests[script] = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        return self._digests[script]


class Server:
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
        self._clock_set = 0

    def reset(self) -> None:
        """Forget everything: the next seed begins."""
        self.ask([("FLUSHALL",)])
        self.workers = []
        self.now_ms = EPOCH_MS
        self._clock_set = 0

    def close(self) -> None:
        self._socket.close()

    def expire(self, queue: str, stage: str) -> None:
        """A stage has not been decided in time."""
        self.ask([("DEL", self.keys.queue(queue).stage(stage))])

    def forget_scripts(self) -> None:
        self.ask([("SCRIPT", "FLUSH")])

    def ask(self, commands: Sequence[tuple[Argument, ...] | bytes]) -> list[Any]:
        """Send plain commands, packed or not, and return all their replies, errors included."""
        if not commands:
            return []
        self._socket.sendall(b"".join([c if isinstance(c, bytes) else pack(*c) for c in commands]))
        replies: list[Any] = []
        while len(replies) < len(commands):
            reply = self._reader.gets()
            if reply is False:
                self._reader.feed(self._socket.recv(65536))
            else:
                replies.append(reply)
        return replies

    def _run(
        self,
        command: Command[Any],
        readings: tuple[Script, ...],
        questions: Sequence[tuple[Argument, ...] | bytes],
    ) -> tuple[list[Any], list[Any]]:
        """Run a command, and ask questions right after it, some of which the scripts
        `readings` answer; returns the reply to the command, and those to the questions.
        """
        first = [self._clock()] if self._clock_set != self.now_ms else []
        self._clock_set = self.now_ms
        replies = self.ask([*first, self._evalsha(command), *questions])[len(first) :]
        if _is_unknown(replies[0]) or any(map(_is_unknown, replies[1:])):
            for reading in readings:
                self._load(reading)
            if _is_unknown(replies[0]):
                self._load(command.script)
                replies = self.ask([self._evalsha(command), *questions])
            else:
                replies[1:] = self.ask(questions)
        reply = replies[0]
        if not isinstance(reply, list):
            raise Violated(f"script {command.script.name!r} answered {reply!r}")
        return reply, replies[1:]

    def _clock(self) -> tuple[Argument, ...]:
        return ("SET", self.keys.simulated_clock, str(self.now_ms))

    def _evalsha(self, command: Command[Any]) -> tuple[Argument, ...]:
        digest = self.scripts.digest(command.script)
        return ("EVALSHA", digest, len(command.keys), *command.keys, *command.arguments)

    def _load(self, script: Script) -> None:
        (digest,) = self.ask([("SCRIPT", "LOAD", self.scripts.text(script))])
        if isinstance(digest, ReplyError):
            raise Violated(f"script {script.name!r} does not compile: {digest}")


def _is_unknown(reply: Any) -> bool:
    return isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT")
