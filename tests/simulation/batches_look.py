"""What was staged for the queues of a simulation, and what of it was decided to be in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.model.snapshot import BatchesSnapshot
from penstock.store.script import Script
from tests.simulation.server import QUEUES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.store.command import Argument
    from penstock.store.keys import NamespaceKeys
    from tests.simulation.server import Server

READ_STAGING = Script("staging", Path(__file__).with_name("staging.lua").read_text("utf-8"))
_GROUP = 5
"""how many strings come before the jobs of a group"""

Chunk = tuple[bytes, ...]
RowsOf = Callable[[Chunk], list[bytes]]


@dataclass(frozen=True)
class Staging:
    """Everything that is staged for one queue."""

    moving: tuple[tuple[str, int], ...] = ()
    """name and number of chunks of the decided stages, the next to be moved first"""
    stages: Mapping[str, Mapping[int, Chunk]] = field(default_factory=dict)
    expiring: frozenset[str] = frozenset()
    """stages that go by themselves"""
    batches: Mapping[str, int] = field(default_factory=dict)
    """name of a decided batch -> its version"""
    times: Mapping[str, int] = field(default_factory=dict)
    """name of a decided batch -> when it was decided (ms)"""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """bytes that were staged under the name of a batch"""
    staged: int = 0
    """rows that are still to be moved, as the queue counts them"""
    moved_at_ms: int = 0

    @property
    def decided(self) -> list[str]:
        return [name for name, _ in self.moving]

    @property
    def chunks(self) -> int:
        """How many chunks are to be moved."""
        return sum(len(self.stages.get(name, ())) for name in self.decided)

    @property
    def snapshot(self) -> BatchesSnapshot:
        """The same, as the invariants look at it."""
        return BatchesSnapshot(
            moving=tuple(self.decided),
            missing=tuple(name for name in self.decided if name not in self.stages),
            lasting=frozenset(self.stages) - self.expiring,
            rows=self.staged,
            moved_at_ms=self.moved_at_ms,
        )


class StagingReader:
    """Asks for the staging of all queues, and opens the answer."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Any, Staging]] = {}

    def question(self, server: Server) -> tuple[Argument, ...]:
        return ("EVALSHA", server.scripts.digest(READ_STAGING), 0, *_tags(server.keys))

    def open(self, replies: list[Any]) -> dict[str, Staging]:
        """The same objects as before, as long as nothing changes in their queues."""
        for name, reply in zip(QUEUES, replies, strict=True):
            raw, known = self._last.get(name, (None, None))
            if raw != reply:
                found = _open(reply)
                self._last[name] = (reply, known if known == found else found)
        return {name: staging for name, (_, staging) in self._last.items()}


def task_rows(chunk: Chunk) -> list[bytes]:
    """The tasks of a chunk of tasks."""
    return list(chunk)


def job_rows(chunk: Chunk) -> list[bytes]:
    """The data of the jobs in a chunk of jobs, which come in groups."""
    rows: list[bytes] = []
    at = 0
    while at < len(chunk):
        end = at + _GROUP + 2 * int(chunk[at + _GROUP - 1])
        rows += chunk[at + _GROUP + 1 : end : 2]
        at = end
    return rows


@cache
def _tags(keys: NamespaceKeys) -> tuple[str, ...]:
    return tuple(keys.queue(name).tag for name in QUEUES)


def _open(reply: list[Any]) -> Staging:
    moving, batches, times, staged, moved_at, stages, staging = reply
    entries = [entry.decode().split() for entry in moving]
    return Staging(
        moving=tuple((name, int(chunks)) for name, chunks in entries),
        stages={
            name.decode(): {int(index): tuple(chunk) for index, chunk in _pairs(flat)}
            for name, _, *flat in stages
        },
        expiring=frozenset(name.decode() for name, expires, *_ in stages if expires),
        batches={name.decode(): int(version) for name, version in _pairs(batches)},
        times={name.decode(): int(at_ms) for name, at_ms in _pairs(times)},
        sizes={name.decode(): int(size) for name, size in staging},
        staged=int(staged),
        moved_at_ms=int(moved_at),
    )


def _pairs(flat: Sequence[Any]) -> zip[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)
