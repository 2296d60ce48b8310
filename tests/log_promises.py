"""What may be relied on when the owners of a partition read it, one after the other.

The simulation tells it what happens as it happens; the chaos tests tell it afterwards, from what
consumers wrote down.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.logs import id_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Batch(NamedTuple):
    """Messages that a consumer was given."""

    partition: int
    epoch: int
    pid: int
    """which process it was given to"""
    ids: tuple[str, ...]


class PartitionReading:
    """One partition, as one group reads it: no message is skipped, none is processed by two owners
    at once, each owner reads in order, and epochs never go back.
    """

    def __init__(self, may_go_on: Callable[[Batch, Batch], bool]) -> None:
        """`may_go_on` says whether the first batch may still be under way when the second begins:
        nobody can stop what an owner that was lost has begun.
        """
        self.reached = 0
        """how many messages are done, from the first on"""
        self.newest = 0
        """the epoch of the newest owner"""
        self._may_go_on = may_go_on
        self._moved = 0
        """the epoch from which on it goes on elsewhere"""
        self._ids: list[str] = []
        self._places: dict[str, int] = {}
        self._keys: list[tuple[int, int]] = []
        self._running: list[Batch] = []

    def appended(self, ids: Iterable[str]) -> None:
        """These messages are there to be read, behind those before."""
        for id in ids:
            self._places[id] = len(self._ids)
            self._ids.append(id)
            self._keys.append(id_key(id))

    def began(self, batch: Batch) -> None:
        first, last = self._places[batch.ids[0]], self._places[batch.ids[-1]]
        assert batch.ids == tuple(self._ids[first : last + 1]), f"not in order: {batch}"
        skipped = self._ids[self.reached : first]
        # What was read before the group was moved may still be begun after it.
        assert not skipped or batch.epoch < self._moved, f"skipped {skipped} before {batch}"
        assert batch.epoch >= self.newest, f"epoch {self.newest} was followed by {batch}"
        for other in self._running:
            assert self._may_go_on(other, batch), f"{other} was under way when {batch} began"
        self.newest = batch.epoch
        self._running.append(batch)

    def ended(self, batch: Batch, done: int | None = None) -> None:
        """So many of its messages are done (None: all), from the first on. What an owner does that
        is not the newest comes to nothing.
        """
        self._running.remove(batch)
        ids = batch.ids if done is None else batch.ids[:done]
        if ids and batch.epoch == self.newest and batch.epoch >= self._moved:
            self.passed(ids[-1])

    def passed(self, offset: str) -> None:
        """Nothing up to here needs an owner any more."""
        self.reached = max(self.reached, self._count_until(offset))

    def moved(self, epoch: int, offset: str) -> None:
        """The group was told to go on from here; owners of older epochs have no say any more."""
        self._moved = epoch
        self.reached = self._count_until(offset)

    def between(self, offset: str, other: str) -> list[str]:
        """What comes after one offset, up to another."""
        return self._ids[self._count_until(offset) : self._count_until(other)]

    def _count_until(self, offset: str) -> int:
        return bisect_right(self._keys, id_key(offset))

    @property
    def left(self) -> list[str]:
        """What nobody has processed."""
        return self._ids[self.reached :]
