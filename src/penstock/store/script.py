"""Lua scripts as values: text, digest, and what their header says."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from penstock.model.jobs import MOVES, STATE_CODES
from penstock.store.linking import link

_INCLUDE = re.compile(r"^-- include (.+)\n", re.MULTILINE)
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
    tells_others: bool = False
    """whether somebody is likely to wait for what it does, so that it is worth a little more of
    the sender's time to let them go first; with plain tasks it is not
    """

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
        return _text(self.source, dialect)

    def digest(self, dialect: Dialect = STANDALONE) -> str:
        """What EVALSHA calls it."""
        return hashlib.sha1(self.text(dialect).encode(), usedforsecurity=False).hexdigest()

    def _parameters(self, kind: str) -> list[Parameter]:
        found = [m for m in _PARAMETER.finditer(self.source) if m[1] == kind]
        return [Parameter(m[3], m[5], m[4] is not None) for m in found]


@cache
def load(name: str) -> Script:
    """The script `scripts/<name>.lua`."""
    source = _read(f"{name}.lua")
    included = _INCLUDE.search(source)
    can_tell = included is not None and "channels" in included[1].split()
    return Script(name, source, can_tell and name.startswith("jobs/"))


def script_names() -> list[str]:
    """Every script on queues, plain tasks and workers, as `load` takes them."""
    return sorted(
        entry.name.removesuffix(".lua")
        for entry in files("penstock.store").joinpath("scripts").iterdir()
        if entry.name.endswith(".lua")
    )


def job_script_names() -> list[str]:
    """Every script on jobs, as `load` takes them."""
    return sorted(
        f"jobs/{entry.name.removesuffix('.lua')}"
        for entry in files("penstock.store").joinpath("scripts", "jobs").iterdir()
        if entry.name.endswith(".lua")
    )


# All texts together are less than 1 MB, and every client of a process needs the same ones.
@cache
def _text(source: str, dialect: Dialect) -> str:
    included = _INCLUDE.search(source)
    if included is None:
        return source
    names = (getattr(dialect, name, name) for name in included[1].split())
    return link("".join(_fragment(name) for name in names), source[included.end() :])


def _fragment(name: str) -> str:
    return _moves() if name == "moves" else _read(f"fragments/{name}.lua")


@cache
def _moves() -> str:
    """The table of allowed moves, which is the model's, for scripts that ask before they move."""
    pairs = (
        f"{STATE_CODES[old]}{STATE_CODES[new]} = true"
        for old, allowed in MOVES.items()
        for new in allowed
    )
    return (
        f"jobs.MOVES = {{{', '.join(pairs)}}}\n"
        "function jobs.may_move(old, new) return jobs.MOVES[old .. new] ~= nil end\n"
    )


@cache
def _read(path: str) -> str:
    return files("penstock.store").joinpath("scripts", path).read_text(encoding="utf-8")
