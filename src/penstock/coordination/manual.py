"""No coordination: each worker is told which partitions it reads.

Of two workers that are told the same one, the later one takes it. The other one is refused, and
waits until that one is gone: if it took the partition again at once, neither would get anywhere.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from penstock.coordination.coordinator import Coordinator
from penstock.coordination.positions import StoredMembership
from penstock.model.workers import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.coordination.coordinator import Claimed, Group, Membership, Positions


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
        self._had: set[int] = set()
        self._grown()

    async def claim(self, partition: int) -> Claimed | None:
        has_lost = partition in self._had
        if has_lost and await self._positions.has_other_owner(partition, self.member):
            return None
        self._had.add(partition)
        return await super().claim(partition)

    def _grown(self) -> None:
        """A partition that the log does not have yet is read once it has."""
        self._assign(p for p in self._listed if p < self.group.partitions)
