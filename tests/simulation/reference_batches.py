"""What staging, deciding and dropping should do; `reference.py` has the rest."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from tests.simulation.batches_look import Staging

if TYPE_CHECKING:
    from tests.simulation.arguments import Arguments

_LENGTH = 4
"""bytes in which a length is written"""

Reply = list[Any]


@dataclass
class Batches:
    """Batches of one queue on their way in, as they should be."""

    moving: list[tuple[str, int]] = field(default_factory=list)
    stages: dict[str, dict[int, list[bytes]]] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    staged: int = 0
    moved_at_ms: int = 0

    @property
    def decided(self) -> set[str]:
        return {name for name, _ in self.moving}

    def stage(self, a: Arguments) -> Reply:
        """A chunk counts once, and adds nothing to what was decided."""
        name, batch = _owner(a["stage"]), _owner(a["staging"])
        if name in self.decided:
            return [b"decided"]
        chunks = self.stages.get(name, {})
        size = self.sizes.get(batch, 0)
        if a["index"] not in chunks:
            size += len(a["chunk"])
            if size > a["max_bytes"]:
                return [b"too_much", size]
            self.stages[name] = {**chunks, a["index"]: open_chunk(a["chunk"])}
        self.sizes[batch] = size
        return [b"ok", size]

    def drop(self, keys: list[str]) -> int:
        """What was not decided goes; returns how many stages did."""
        names = {_owner(key) for key in keys} & self.stages.keys() - self.decided
        for name in names:
            del self.stages[name]
        return len(names)

    def is_known(self, a: Arguments) -> bool:
        """Whether the batch was decided before, in this version or a later one."""
        return self.batches.get(a["batch"], -1) >= int(a["version"])

    def first_lost(self, a: Arguments) -> int | None:
        """The position of the first stage that is not whole."""
        for index, (key, chunks) in enumerate(zip(a["stage"], a["chunks"], strict=True)):
            if len(self.stages.get(_owner(key), ())) != chunks:
                return index
        return None

    def decide(self, a: Arguments, now_ms: int) -> None:
        names = map(_owner, a["stage"])
        self.moving += zip(names, a["chunks"], strict=True)
        self.batches[a["batch"]] = a["version"]
        self.times[a["batch"]] = self.moved_at_ms = now_ms
        self.staged += a["rows"]

    def next_chunk(self) -> list[bytes]:
        """The tasks that are to be moved next, of one chunk."""
        name, chunks = self.moving[0]
        return self.stages[name][chunks - len(self.stages[name])]

    def move(self, count: int, now_ms: int) -> None:
        """So many tasks of the next chunk have left it."""
        name, chunks = self.moving[0]
        stage = self.stages[name]
        index = chunks - len(stage)
        stage[index] = stage[index][count:]
        if not stage[index]:
            del stage[index]
        if not stage:
            del self.stages[name]
            self.moving.pop(0)
        self.staged -= count
        self.moved_at_ms = now_ms

    def delete(self) -> int:
        """All that was decided goes, and is forgotten; returns how many tasks that were."""
        dropped = self.staged
        for name in self.decided:
            del self.stages[name]
        self.moving, self.batches, self.times = [], {}, {}
        self.staged = self.moved_at_ms = 0
        return dropped

    def difference(self, found: Staging) -> str:
        """What is stored and should not be so, in words."""
        should = Staging(
            moving=tuple(self.moving),
            stages={
                name: {index: tuple(chunk) for index, chunk in stage.items()}
                for name, stage in self.stages.items()
            },
            expiring=frozenset(self.stages) - self.decided,
            batches=self.batches,
            times=self.times,
            sizes=self.sizes,
            staged=self.staged,
            moved_at_ms=self.moved_at_ms,
        )
        differing = [
            f"{name} should be {getattr(should, name)!r} but is {getattr(found, name)!r}"
            for name in (each.name for each in fields(Staging))
            if getattr(should, name) != getattr(found, name)
        ]
        return "; ".join(differing)


def open_chunk(packed: bytes) -> list[bytes]:
    """The strings of a chunk, as `penstock.codec.chunks` packs them."""
    parts, at = [], 1 + _LENGTH
    while at < len(packed):
        end = at + 1 + _LENGTH + int.from_bytes(packed[at + 1 : at + 1 + _LENGTH])
        parts.append(packed[at + 1 + _LENGTH : end])
        at = end
    return parts


def _owner(key: str) -> str:
    """The stage or batch that a key belongs to."""
    return key.partition("}:")[2].partition(":")[2]
