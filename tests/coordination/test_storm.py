"""Sixteen members that share 32 partitions on three real servers, while others come and go."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from math import ceil
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.coordination.address import parse_zookeeper_address
from penstock.coordination.coordinator import Group
from penstock.coordination.settling import SETTLE_S
from penstock.coordination.zookeeper import ZooKeeperCoordinator
from tests.coordination.members import MemoryPositions, run, until

if TYPE_CHECKING:
    from penstock.coordination.coordinator import Claimed, Membership
    from penstock.server.ensemble import Ensemble

pytestmark = [
    pytest.mark.xdist_group("zookeeper"),
    pytest.mark.long,
    pytest.mark.timeout(300),
]

PARTITIONS = 32
MEMBERS = 16
CHANGES = 12
EVERY_S = 2.0
COMMIT_S = 0.3


class Storm:
    """Members that do what workers do, and what came of it."""

    def __init__(self, coordinator: ZooKeeperCoordinator) -> None:
        self.members: dict[str, tuple[Membership, asyncio.Task[None]]] = {}
        self.owners: dict[int, str] = {}
        self.last_owners: dict[int, str] = {}
        self.commits: Counter[int] = Counter()
        self.moves = 0
        self._coordinator = coordinator
        self._newest: dict[int, Claimed] = {}

    async def join(self, name: str) -> None:
        """All members have one name, as two may by mistake."""
        group = Group("clicks", "g", PARTITIONS)
        member = await self._coordinator.join(group, "the same")
        self.members[name] = member, asyncio.create_task(self._work(name, member))

    async def leave(self, name: str) -> None:
        member, working = self.members.pop(name)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        for partition in [p for p, owner in self.owners.items() if owner == name]:
            del self.owners[partition]
        await member.leave()

    async def _work(self, name: str, member: Membership) -> None:
        offsets: dict[int, int] = {}
        while True:
            assert not member.lease.is_lost, f"{name} lost its session"
            for partition in offsets.keys() - member.assigned:
                del offsets[partition], self.owners[partition]
                await member.release(partition)
            for partition in member.assigned - offsets.keys():
                if (claimed := await member.claim(partition)) is not None:
                    self._took(name, partition, claimed)
                    offsets[partition] = int(claimed.offset.partition("-")[0])
            for partition, offset in offsets.items():
                offsets[partition] = offset + 1
                await member.commit(partition, f"{offset + 1}-0")
                self.commits[partition] += 1
            with suppress(TimeoutError):
                async with asyncio.timeout(COMMIT_S):
                    await member.changed()

    def _took(self, name: str, partition: int, claimed: Claimed) -> None:
        assert partition not in self.owners, f"{partition} had an owner when {name} took it"
        before = self._newest.get(partition)
        if before is not None:
            assert claimed.epoch > before.epoch, f"the epoch of {partition} went back"
            assert int(claimed.offset[:-2]) >= int(before.offset[:-2]), "the offset went back"
        self._newest[partition] = claimed
        self.moves += self.last_owners.get(partition, name) != name
        self.owners[partition] = self.last_owners[partition] = name

    def check(self) -> None:
        for _, working in self.members.values():
            if working.done():
                working.result()

    @property
    def is_balanced(self) -> bool:
        self.check()
        counts = Counter(self.owners.values())
        most, least = ceil(PARTITIONS / len(self.members)), PARTITIONS // len(self.members)
        return (
            len(self.owners) == PARTITIONS
            and len(counts) == len(self.members)
            and most >= max(counts.values()) >= min(counts.values()) >= least
        )


def test_in_a_storm_every_partition_advances_and_each_change_moves_little(
    ensemble: Ensemble, namespace: str
) -> None:
    positions = MemoryPositions()
    address = parse_zookeeper_address(f"{ensemble.address}?session=10")
    coordinator = ZooKeeperCoordinator(
        address, namespace, lambda group: positions, settle_s=SETTLE_S
    )
    random = Random(7)

    async def work() -> None:
        storm = Storm(coordinator)
        try:
            await asyncio.gather(*(storm.join(f"m{number}") for number in range(MEMBERS)))
            await until(lambda: storm.is_balanced, 60.0)
            for change in range(CHANGES):
                storm.commits.clear()
                storm.moves = 0
                began_at = asyncio.get_running_loop().time()
                if len(storm.members) >= MEMBERS:
                    await storm.leave(random.choice(sorted(storm.members)))
                else:
                    await storm.join(f"guest-{change}")
                await asyncio.sleep(began_at + EVERY_S - asyncio.get_running_loop().time())
                await until(lambda: len(storm.commits) == PARTITIONS)
                storm.check()
                assert storm.moves <= ceil(PARTITIONS / len(storm.members)) + 1
            await until(lambda: storm.is_balanced, 60.0)
        finally:
            for name in list(storm.members):
                await storm.leave(name)

    run(work(), 240)
