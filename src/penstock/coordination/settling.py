"""Which partitions a member is to have while its group changes. Pure: it is told the time.

Every member works this out for itself, from the same members and owners, so all come to the same
answer. Partitions that have an owner move only when nobody has joined or left for a while, so that
ten workers that start one after the other cause one move, not ten. Those without an owner move at
once.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from penstock.coordination.assignment import assign

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTLE_S = 3.0
"""how long nobody may join or leave before owners give up partitions"""
_LONGEST = 3
"""a group that never rests is balanced after so many times this long all the same"""
_OWNERLESS_S = 0.2
"""so that members that start or end together are seen together"""


class Settling:
    """What one member makes of what it sees."""

    def __init__(self, member: str, settle_s: float = SETTLE_S) -> None:
        self._member = member
        self._settle_s = settle_s
        self._weights: Mapping[str, int] = {}
        self._owners: Mapping[int, str] = {}
        self._partitions = 0
        self._unrest_at = -inf
        """when the unrest began"""
        self._settled_at = -inf
        self._is_settled = True
        """what follows from the unrest was said"""
        self._ownerless_at: dict[int, float] = {}
        """since when"""

    def seen(
        self, weights: Mapping[str, int], owners: Mapping[int, str], partitions: int, now: float
    ) -> None:
        """The group as it is now: each member with its weight, each owned partition with its
        owner.
        """
        if weights.keys() != self._weights.keys():
            if self._is_settled:
                self._unrest_at, self._is_settled = now, False
            longest = self._unrest_at + _LONGEST * self._settle_s
            self._settled_at = min(now + self._settle_s, longest)
        free = set(range(partitions)) - owners.keys()
        self._ownerless_at = {p: self._ownerless_at.get(p, now) for p in free}
        self._weights, self._owners, self._partitions = weights, owners, partitions

    def assigned(self, now: float) -> frozenset[int]:
        """The partitions that this member is to have now."""
        targets = assign(range(self._partitions), self._weights, self._owners)
        mine = {p for p, member in targets.items() if member == self._member}
        owned = {p for p, member in self._owners.items() if member == self._member}
        free = {p for p, at in self._ownerless_at.items() if now >= at + _OWNERLESS_S}
        if now >= self._settled_at:
            self._is_settled = True
            owned &= mine
        # One that another member owns is not asked for before it has been released.
        return frozenset(owned | (mine & free))

    def due_at(self, now: float) -> float:
        """When the answer may be another one, if nothing is seen until then."""
        times = [self._settled_at, *(at + _OWNERLESS_S for at in self._ownerless_at.values())]
        return min((at for at in times if at > now), default=inf)
