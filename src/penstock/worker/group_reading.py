"""One group of one log, as a worker reads it: joins, owns partitions, gives them up, leaves."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from penstock.coordination.coordinator import Group
from penstock.errors import LogNotFound, PartitionLost
from penstock.store.commands import logs
from penstock.worker.committer import Committer
from penstock.worker.mover import finish_log_batches
from penstock.worker.partition_lease import PartitionLease
from penstock.worker.sources.logs import LogSource

if TYPE_CHECKING:
    from penstock.client.client import AsyncPenstock
    from penstock.coordination.coordinator import Claimed, Coordinator, Membership
    from penstock.model.workers import Lease
    from penstock.worker.consumers import Consumer
    from penstock.worker.log_counters import LogCounters
    from penstock.worker.pump import Pump

log = logging.getLogger("penstock.worker")

_LOOK_EVERY_S = 0.5
"""for partitions that could not be claimed yet"""
_GROWTH_EVERY_S = 10.0
_LEAVE_S = 5.0


class Host(Protocol):
    """What a worker serves, as far as a group has to know it."""

    @property
    def is_stopping(self) -> bool: ...
    def partition_pump(self, source: LogSource) -> Pump: ...
    def serve(self, pumps: list[Pump]) -> list[asyncio.Task[None]]: ...
    async def withdraw(self, pumps: list[Pump], tasks: list[asyncio.Task[None]]) -> None: ...
    async def drop(self, pumps: list[Pump], tasks: list[asyncio.Task[None]]) -> None: ...


@dataclass(eq=False, slots=True)
class _Owned:
    """A partition that is served here."""

    source: LogSource
    pump: Pump
    committer: Committer
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    committing: asyncio.Task[None] | None = None


class GroupReading:
    """Serves the partitions that the group's coordinator assigns to this worker."""

    def __init__(
        self,
        host: Host,
        client: AsyncPenstock,
        coordinator: Coordinator,
        consumer: Consumer,
        worker: str,
        lease: Lease,
        counters: LogCounters,
    ) -> None:
        self._host = host
        self._client = client
        self._coordinator = coordinator
        self._consumer = consumer
        self._worker = worker
        self._lease = lease
        self._counters = counters
        self._owned: dict[int, _Owned] = {}
        self._changes: dict[int, asyncio.Task[None]] = {}
        """what is being done about which partition"""
        self._is_due = asyncio.Event()

    async def run(self) -> None:
        """Read until cancelled; then write down how far it has come, and leave."""
        lives = 0
        while True:
            partitions = await self._count_partitions()
            member = f"{self._worker}.{lives}"
            group = Group(self._consumer.log, self._consumer.group, partitions)
            with self._counters.connecting.measured():
                membership = await self._coordinator.join(group, member, self._consumer.weight)
            log.info("joined the group log=%s group=%s member=%s", group.log, group.name, member)
            try:
                await self._follow(membership)
            except LogNotFound:
                log.warning("the log was deleted log=%s group=%s", group.log, group.name)
            finally:
                await self._end(membership)
            lives += 1

    def describe(self) -> list[dict[str, object]]:
        """The partitions that it owns, as they are now."""
        return [
            {
                "log": self._consumer.log,
                "group": self._consumer.group,
                "partition": partition,
                "epoch": owned.source.epoch,
                "position": owned.source.position,
                "committed": owned.committer.committed,
                "state": _state(owned),
                "problem": owned.source.problem,
            }
            for partition, owned in sorted(self._owned.items(), key=lambda item: item[0])
        ]

    async def _follow(self, membership: Membership) -> None:
        """Own what is assigned, and nothing else, until the membership is lost."""
        others = [
            asyncio.create_task(self._watch_growth(membership)),
            asyncio.create_task(self._finish_batches()),
        ]
        assigned: frozenset[int] = frozenset()
        try:
            while not membership.lease.is_lost:
                self._is_due.clear()
                self._counters.rebalances += membership.assigned != assigned
                assigned = membership.assigned
                self._begin_changes(membership)
                await self._next_change(membership)
                for partition, task in list(self._changes.items()):
                    if task.done():
                        del self._changes[partition]
                        task.result()
        finally:
            for task in others:
                task.cancel()

    def _begin_changes(self, membership: Membership) -> None:
        wanted = frozenset() if self._host.is_stopping else membership.assigned
        for partition in wanted - self._owned.keys() - self._changes.keys():
            self._change(partition, self._claim(membership, partition))
        for partition in self._owned.keys() - self._changes.keys():
            committing = self._owned[partition].committing
            if committing is not None and committing.done():
                committing.result()  # nothing would be written down any more
            if self._owned[partition].source.lease.is_lost:
                self._change(partition, self._drop(membership, partition))
            elif partition not in membership.assigned:
                self._change(partition, self._hand_over(membership, partition))

    def _change(self, partition: int, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        task.add_done_callback(lambda _: self._is_due.set())
        self._changes[partition] = task

    async def _next_change(self, membership: Membership) -> None:
        waiting = [
            asyncio.ensure_future(membership.changed()),
            asyncio.ensure_future(self._is_due.wait()),
        ]
        try:
            await asyncio.wait(waiting, timeout=_LOOK_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()

    async def _claim(self, membership: Membership, partition: int) -> None:
        claimed = await membership.claim(partition)
        if claimed is None:
            await asyncio.sleep(_LOOK_EVERY_S)
            return
        if self._host.is_stopping:
            await membership.release(partition)
            return
        log.info("partition taken %s epoch=%d", self._name(partition), claimed.epoch)
        owned = self._own(membership, partition, claimed)
        self._owned[partition] = owned
        owned.tasks = self._host.serve([owned.pump])
        owned.committing = asyncio.create_task(self._keep_committed(partition, owned))

    def _own(self, membership: Membership, partition: int, claimed: Claimed) -> _Owned:
        async def commit(offset: str) -> None:
            with self._counters.committing.measured():
                await membership.commit(partition, offset)
            source.committed()
            committer.every_s = source.commit_s
            pump.happen(pump.feed.look)

        every_s = 0.0 if claimed.deaths.crashes else self._consumer.commit_s
        committer = Committer(commit, every_s, claimed.offset)
        source = LogSource(
            self._client.keys.queue(self._consumer.log).partition(partition),
            self._worker,
            PartitionLease(self._lease, membership.lease),
            self._consumer,
            claimed.epoch,
            claimed.offset,
            self._client.settings.max_payload,
            committer.advanced,
            claimed.deaths,
        )
        source.counters = self._counters
        pump = self._host.partition_pump(source)
        return _Owned(source, pump, committer)

    async def _keep_committed(self, partition: int, owned: _Owned) -> None:
        try:
            await owned.committer.keep()
        except PartitionLost as error:
            log.warning("partition lost %s reason=%s", self._name(partition), error)
            owned.source.lease.lose()
            self._is_due.set()

    async def _hand_over(self, membership: Membership, partition: int) -> None:
        """Let what runs end, write down how far it has come, then let another member have it."""
        owned = self._owned[partition]
        await self._host.withdraw([owned.pump], owned.tasks)
        await self._forget(membership, partition)

    async def _drop(self, membership: Membership, partition: int) -> None:
        """It is another member's: nothing that comes of what runs counts."""
        owned = self._owned[partition]
        await self._host.drop([owned.pump], owned.tasks)
        await self._forget(membership, partition)

    async def _forget(self, membership: Membership, partition: int) -> None:
        owned = self._owned[partition]
        await self._commit_last(owned)
        await membership.release(partition)
        del self._owned[partition]
        log.info("partition released %s at=%s", self._name(partition), owned.source.position)

    async def _commit_last(self, owned: _Owned) -> None:
        if owned.committing is not None:
            owned.committing.cancel()
            await asyncio.gather(owned.committing, return_exceptions=True)
        if not owned.source.lease.is_lost:
            with suppress(PartitionLost):
                await owned.committer.flush()

    async def _end(self, membership: Membership) -> None:
        """Leave at once. The pumps were drained before, unless everything is lost."""
        for task in self._changes.values():
            task.cancel()
        await asyncio.gather(*self._changes.values(), return_exceptions=True)
        self._changes.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(_LEAVE_S):
                for owned in self._owned.values():
                    await self._host.drop([owned.pump], owned.tasks)
                    await self._commit_last(owned)
        self._owned.clear()
        await membership.leave()

    async def _count_partitions(self) -> int:
        """Wait for the log, which the first message brings into being."""
        keys = self._client.keys.queue(self._consumer.log)
        has_told = False
        while True:
            try:
                return (await self._client.store.run(logs.describe_log(keys))).partitions
            except LogNotFound:
                if not has_told:
                    log.info("waiting for the first message of log=%s", self._consumer.log)
                    has_told = True
                await asyncio.sleep(_LOOK_EVERY_S)

    async def _watch_growth(self, membership: Membership) -> None:
        while True:
            await asyncio.sleep(_GROWTH_EVERY_S)
            membership.grow(await self._count_partitions())

    async def _finish_batches(self) -> None:
        """Of each group one worker does so, the owner of the first partition."""
        keys = self._client.keys.queue(self._consumer.log)
        await finish_log_batches(self._client.store, keys, lambda: 0 in self._owned)

    def _name(self, partition: int) -> str:
        return f"log={self._consumer.log} group={self._consumer.group} partition={partition}"


def _state(owned: _Owned) -> str:
    source = owned.source
    if source.lease.is_lost:
        return "lost"
    if source.problem:
        return "stands still"
    if owned.pump.feed.load:
        return "running"
    return "waiting to try again" if source.holds_until > monotonic() else "reading"
