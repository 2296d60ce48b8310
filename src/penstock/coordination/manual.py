"""No coordination: each worker is told which partitions it reads.

Two workers that are told the same one take it from each other: the later one counts, and the other
is refused.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from penstock.coordination.coordinator import Coordinator
from penstock.coordination.positions import StoredMembership
from penstock.model.workers import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.coordination.coordinator import Group, Membership, Positions


class ManualCoordinator(Coordinator):
    """Every member gets the partitions of a list."""

    def __init__(self, partitions: Iterable[int], positions: Callable[[Group], Positions]) -> None:
        self._partitions = frozenset(partitions)
        self._positions = positions

    async def join(self, group: Group, member: str, weight: int = 1) -> Membership:
        return ManualMembership(group, member, self._partitions, self._positions(group))


class ManualMembership(StoredMembership):
    """Lasts until it leaves; only the store says whether it owns a partition still."""

    def __init__(
        self, group: Group, member: str, partitions: frozenset[int], positions: Positions
    ) -> None:
        super().__init__(group, member, Lease(0), positions)
        self.lease.renewed(inf)
        self._listed = partitions
        self._grown()

    def _grown(self) -> None:
        """A partition that the log does not have yet is read once it has."""
        self._assign(p for p in self._listed if p < self.group.partitions)
