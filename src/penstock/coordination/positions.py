"""Epochs and offsets of a group in the store, partition by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from penstock.coordination.coordinator import Claimed, Membership, is_later
from penstock.errors import LogNotFound, OffsetRefused
from penstock.store.commands import log_groups, logs
from penstock.store.commands.logs import NoPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.coordination.coordinator import Group, Positions
    from penstock.model.taken import Taken
    from penstock.model.workers import Lease
    from penstock.store.command import Command, Operation
    from penstock.store.keys import NamespaceKeys

R = TypeVar("R")

_SEEN_S = 90.0
"""An owner that has nothing to commit says every 30 s that it is there."""


class Runner(Protocol):
    """Sends commands to the store, for as long as it takes."""

    async def run(self, command: Command[R]) -> R: ...
    async def run_once(self, build: Callable[[Operation], Command[R]]) -> R: ...


class StoredPositions:
    """Of one group, in the slots of the partitions."""

    def __init__(self, runner: Runner, keys: NamespaceKeys, group: Group, start: str) -> None:
        """`start` is where a group that is new begins: 'earliest' or 'latest'."""
        self._runner = runner
        self._keys = keys.queue(group.log)
        self._group = group.name
        self._start = start

    async def take(self, partition: int, owner: str) -> Taken:
        """Begin a new epoch. Raises LogNotFound if the log is gone, or has no such partition."""
        keys = self._keys.partition(partition)
        while True:
            facts = await self._runner.run(logs.describe_log(self._keys))
            if partition >= facts.partitions:
                raise LogNotFound(
                    f"log {facts.name!r} was made anew with {facts.partitions} partitions, so it "
                    f"has no partition {partition} any more; join the group again"
                )
            await self._runner.run(log_groups.note_group(self._keys, self._group))
            about = facts.born, self._group, owner, 0, self._start
            try:
                await self._runner.run(logs.open_partition(keys, facts))
                return await self._runner.run_once(
                    lambda own, about=about: log_groups.take_partition(keys, own, *about)  # type: ignore[misc]
                )
            except NoPartition:
                continue  # the log was made anew meanwhile

    async def commit(self, partition: int, epoch: int, offset: str) -> bool:
        keys = self._keys.partition(partition)
        try:
            await self._runner.run(log_groups.commit_offset(keys, self._group, epoch, offset))
        except OffsetRefused:
            return False
        return True

    async def has_other_owner(self, partition: int, owner: str) -> bool:
        info = await self._runner.run(logs.describe_partition(self._keys.partition(partition)))
        return any(
            reader.name == self._group
            and reader.owner not in ("", owner)
            and info.now - reader.seen_at < _SEEN_S
            for reader in info.readers
        )


class StoredMembership(Membership):
    """Offsets are kept in the store alone, which knows the newest epoch of each partition."""

    def __init__(self, group: Group, member: str, lease: Lease, positions: Positions) -> None:
        super().__init__(group, member, lease)
        self._positions = positions
        self._claims: dict[int, Claimed] = {}

    async def claim(self, partition: int) -> Claimed | None:
        if self.lease.is_lost:
            return None
        taken = await self._positions.take(partition, self.member)
        self._claims[partition] = claimed = Claimed(*taken[:2], taken.deaths)
        return claimed

    async def commit(self, partition: int, offset: str) -> None:
        claimed = self._claims.get(partition)
        if claimed is None or self.lease.is_lost:
            raise self._lost(partition)
        if is_later(claimed.offset, offset):
            return
        if not await self._positions.commit(partition, claimed.epoch, offset):
            raise self._lost(partition)
        self._claims[partition] = Claimed(claimed.epoch, offset)

    async def release(self, partition: int) -> None:
        self._claims.pop(partition, None)

    async def leave(self) -> None:
        self._lose()
        self._claims.clear()
