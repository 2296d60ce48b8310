"""Coordination through Redis alone: members have leases, and each sees the group with every beat.

Everything of a group lies in the slot of its log; epochs and offsets lie with the partitions, where
they guard what owners write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.coordination.coordinator import Coordinator
from penstock.coordination.positions import StoredMembership
from penstock.coordination.settling import SETTLE_S, Settling
from penstock.errors import StoreError
from penstock.model.workers import Lease, lease_clock
from penstock.store.commands import log_members

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.coordination.coordinator import Claimed, Group, Membership, Positions
    from penstock.coordination.positions import Runner
    from penstock.store.commands.log_members import GroupView
    from penstock.store.keys import NamespaceKeys

log = logging.getLogger("penstock.groups")

LEASE_S = 3.0
_BEAT_S = 0.5
_LEAVE_S = 5.0


class RedisCoordinator(Coordinator):
    """Members meet in a hash of their group."""

    def __init__(
        self,
        runner: Runner,
        keys: NamespaceKeys,
        positions: Callable[[Group], Positions],
        *,
        lease_s: float = LEASE_S,
        settle_s: float = SETTLE_S,
    ) -> None:
        self._runner = runner
        self._keys = keys
        self._positions = positions
        self._lease_s = lease_s
        self._settle_s = settle_s

    async def join(self, group: Group, member: str, weight: int = 1) -> Membership:
        membership = RedisMembership(
            group, member, weight, self._runner, self._keys, self._positions(group), self._lease_s
        )
        await membership.begin(self._settle_s)
        return membership


class RedisMembership(StoredMembership):
    """One name in the group, and the lease that keeps it there."""

    def __init__(
        self,
        group: Group,
        member: str,
        weight: int,
        runner: Runner,
        keys: NamespaceKeys,
        positions: Positions,
        lease_s: float,
    ) -> None:
        super().__init__(group, member, Lease(int(lease_s * 1000)), positions)
        self._weight = weight
        self._runner = runner
        self._keys = keys.queue(group.log)
        self._lease_ms = int(lease_s * 1000)
        self._is_stale = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    async def begin(self, settle_s: float) -> None:
        settling = Settling(self.member, settle_s)
        view = await self._beat(joins=True)
        assert view is not None, "a member that joins is never lost"
        self._beating = asyncio.create_task(self._keep(settling, view))

    async def claim(self, partition: int) -> Claimed | None:
        own = log_members.own_partition(self._keys, self.group.name, self.member, partition)
        if self.lease.is_lost or not await self._runner.run(own):
            return None
        return await super().claim(partition)

    async def release(self, partition: int) -> None:
        await super().release(partition)
        command = log_members.disown_partitions(self._keys, self.group.name, self.member, partition)
        await self._runner.run(command)
        self._is_stale.set()

    async def leave(self) -> None:
        await super().leave()
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        with suppress(TimeoutError, StoreError):
            # Else its lease ends by itself.
            async with asyncio.timeout(_LEAVE_S):
                command = log_members.disown_partitions(self._keys, self.group.name, self.member)
                await self._runner.run(command)

    def _grown(self) -> None:
        self._is_stale.set()

    async def _keep(self, settling: Settling, view: GroupView | None) -> None:
        """Stay a member, and keep `assigned` right."""
        while view is not None and not self.lease.is_lost:
            partitions = max(self.group.partitions, view.partitions)
            settling.seen(view.weights, view.owners, partitions, time.monotonic())
            asked_at = time.monotonic() + self._wait_s(view)
            while (now := time.monotonic()) < asked_at and not self._is_stale.is_set():
                self._assign(settling.assigned(now))
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(asked_at, settling.due_at(now)) - now):
                        await self._is_stale.wait()
            self._is_stale.clear()
            view = await self._beat()
        if not self.lease.is_lost:
            log.warning("the lease in the group is over member=%s", self.member)
            self._lose()

    async def _beat(self, joins: bool = False) -> GroupView | None:
        sent_at, held = lease_clock(), set(self._claims)
        view = await self._runner.run(
            log_members.keep_member(
                self._keys,
                self.group.name,
                self.member,
                self._lease_ms,
                self._weight,
                self.group.partitions,
                joins=joins,
            )
        )
        if view is None or self._has_lost_one_of(held, view):
            return None
        self.lease.renewed(sent_at)
        return view

    def _has_lost_one_of(self, held: set[int], view: GroupView) -> bool:
        """Whether a partition that is held is not this member's any more. Then it was a member no
        more for a while, and a copy of a request that came late has made it one again.
        """
        return any(p in self._claims and view.owners.get(p) != self.member for p in held)

    def _wait_s(self, view: GroupView) -> float:
        """Until the next beat; sooner if a member may be dead then."""
        beat_s = min(_BEAT_S, self._lease_ms / 4000)
        return beat_s if view.wait_ms < 0 else min(beat_s, view.wait_ms / 1000 + 0.001)
