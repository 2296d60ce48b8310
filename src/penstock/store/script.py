"""Lua scripts as values: text, digest, and what their header says."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from penstock.store.generated import GENERATED
from penstock.store.linking import link

SCRIPT_KINDS = ("tasks", "jobs", "logs", "queues", "workers", "batches")
"""The folders of `scripts/`: the kinds of queues, and what scripts are about that are for several.
"""

_INCLUDE = re.compile(r"^-- include (?:from (\w+): )?(.+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"^-- (KEYS|ARGV)\[(\d+)\] (\w+)(\.\.\.)? +(\w+)", re.MULTILINE)
_REPLY = re.compile(r"^-- (?:Returns| {7}) ?\{(?:refused, )?'(\w+)'", re.MULTILINE)


class Dialect(NamedTuple):
    """Which variants of the shared fragments a server needs."""

    channels: str = "channels"
    clock: str = "clock"


STANDALONE = Dialect()
CLUSTER = Dialect(channels="sharded_channels")
SIMULATED = Dialect(clock="simulated_clock")


class Parameter(NamedTuple):
    """One KEYS or ARGV entry of a header."""

    name: str
    type: str
    is_repeated: bool


@dataclass(frozen=True, eq=False, slots=True)
class Script:
    """One Lua file: one atomic operation."""

    name: str
    source: str
    kind: str = ""
    """the folder that it lies in"""
    included: tuple[str, ...] = ()
    """the fragments that it names, those of one kind with their folder"""

    @property
    def tells_others(self) -> bool:
        """Whether somebody is likely to wait for what it does, so that it is worth a little more of
        the sender's time to let them go first; with plain tasks it is not.
        """
        return self.kind == "jobs" and "channels" in self.included

    @property
    def keys(self) -> list[Parameter]:
        return self._parameters("KEYS")

    @property
    def arguments(self) -> list[Parameter]:
        return self._parameters("ARGV")

    @property
    def replies(self) -> list[str]:
        """The words a reply can begin with."""
        return _REPLY.findall(self.source)

    def text(self, dialect: Dialect = STANDALONE) -> str:
        """What is sent to the server: the file, with what it uses of its fragments."""
        return _text(self, dialect)

    def digest(self, dialect: Dialect = STANDALONE) -> str:
        """What EVALSHA calls it."""
        return hashlib.sha1(self.text(dialect).encode(), usedforsecurity=False).hexdigest()

    def _parameters(self, kind: str) -> list[Parameter]:
        found = [m for m in _PARAMETER.finditer(self.source) if m[1] == kind]
        return [Parameter(m[3], m[5], m[4] is not None) for m in found]


@cache
def load(path: str) -> Script:
    """The script `scripts/<path>.lua`; the path is its kind and its name."""
    kind, name = path.split("/")
    source = _read(f"{path}.lua")
    included = (
        f"{found[1]}/{fragment}" if found[1] else fragment
        for found in _INCLUDE.finditer(source)
        for fragment in found[2].split()
    )
    return Script(name, source, kind, tuple(included))


def scripts(*kinds: str) -> list[Script]:
    """Every script of these kinds, or of all."""
    folder = files("penstock.store").joinpath("scripts")
    return [
        load(f"{kind}/{name.removesuffix('.lua')}")
        for kind in kinds or SCRIPT_KINDS
        for name in sorted(entry.name for entry in folder.joinpath(kind).iterdir())
        if name.endswith(".lua")
    ]


# All texts together are less than 1 MB, and every client of a process needs the same ones.
@cache
def _text(script: Script, dialect: Dialect) -> str:
    variants = [getattr(dialect, name, name) for name in script.included]
    included = list(_INCLUDE.finditer(script.source))
    body = script.source[included[-1].end() :] if included else script.source
    return link({name: fragment_text(name) for name in variants}, body)


def fragment_text(name: str) -> str:
    """What `fragments/<name>.lua` has, or what is written in its place."""
    return GENERATED[name]() if name in GENERATED else _read(f"fragments/{name}.lua")


@cache
def _read(path: str) -> str:
    return files("penstock.store").joinpath("scripts", path).read_text(encoding="utf-8")
