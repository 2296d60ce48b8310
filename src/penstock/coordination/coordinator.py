"""Who owns which partition of a log: what every coordinator promises.

A member of a group is told which partitions it is to have, claims each, and commits how far it has
come. A partition has one owner at a time. Every claim gets a new epoch, greater than all before;
what an owner of an older epoch wants to write is refused.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol

from penstock.errors import PartitionLost
from penstock.model.logs import id_key
from penstock.model.taken import NO_DEATHS, Deaths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.taken import Taken
    from penstock.model.workers import Lease


@dataclass(frozen=True, slots=True)
class Group:
    """The readers of one log that share its partitions."""

    log: str
    name: str
    partitions: int
    """how many the log had when the member joined; members may know of different numbers, and the
    greatest counts
    """


class Claimed(NamedTuple):
    """A partition that is the member's now."""

    epoch: int
    offset: str
    """the last message that its owners have handled"""
    deaths: Deaths = NO_DEATHS
    """of owners since then"""


class Positions(Protocol):
    """The epochs and offsets of a group in the store, which guards them."""

    async def take(self, partition: int, owner: str) -> Taken:
        """Begin a new epoch: nothing of an older one is accepted from now on."""

    async def commit(self, partition: int, epoch: int, offset: str) -> bool:
        """False if the epoch is an old one."""

    async def has_other_owner(self, partition: int, owner: str) -> bool:
        """Whether another owner has taken the partition since, and was seen lately."""


class Coordinator(ABC):
    """Brings members together."""

    @abstractmethod
    async def join(self, group: Group, member: str, weight: int = 1) -> Membership:
        """Become a member, under a name that was never used before. Waits for as long as the
        coordinator is away.
        """


class Membership(ABC):
    """One life of one member. After its lease is lost, a new one has to join."""

    def __init__(self, group: Group, member: str, lease: Lease) -> None:
        self.group = group
        self.member = member
        self.lease = lease
        """while it is not valid, nothing new may be begun; once lost, nothing is owned any more"""
        self.assigned: frozenset[int] = frozenset()
        """the partitions that it is to have: those beside them are to be released"""
        self._changed = asyncio.Event()

    async def changed(self) -> None:
        """Returns when `assigned` has changed since the last time, or the lease is lost."""
        await self._changed.wait()
        self._changed.clear()

    @abstractmethod
    async def claim(self, partition: int) -> Claimed | None:
        """Make an assigned partition one's own; None if another member still has it."""

    @abstractmethod
    async def commit(self, partition: int, offset: str) -> None:
        """Write down that everything up to `offset` is done; the same once more says that the
        group is alive. One at a time for each partition.

        Raises PartitionLost if the partition is not this member's any more.
        """

    @abstractmethod
    async def release(self, partition: int) -> None:
        """Let others have a partition. Harmless if it is lost already."""

    @abstractmethod
    async def leave(self) -> None:
        """Release everything at once, and be no member any more."""

    def grow(self, partitions: int) -> None:
        """The log has so many partitions by now. Each member finds out for itself."""
        if partitions > self.group.partitions:
            self.group = replace(self.group, partitions=partitions)
            self._grown()

    @abstractmethod
    def _grown(self) -> None:
        """Look again which partitions to have."""

    def _assign(self, partitions: Iterable[int]) -> None:
        assigned = frozenset(partitions)
        if assigned != self.assigned:
            self.assigned = assigned
            self._changed.set()

    def _lose(self) -> None:
        self.lease.lose()
        self.assigned = frozenset()
        self._changed.set()

    def _lost(self, partition: int) -> PartitionLost:
        return PartitionLost(
            f"member {self.member!r} of group {self.group.name!r} does not own partition "
            f"{partition} of log {self.group.log!r} any more, so its messages may already be "
            "handled elsewhere; discard what came of them"
        )


def is_later(offset: str, than: str) -> bool:
    """Whether one offset lies behind another in a partition; what is none lies before all."""
    return id_key(offset) > id_key(than)
