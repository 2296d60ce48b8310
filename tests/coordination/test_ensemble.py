"""A member of a group, while servers of an ensemble come and go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from penstock.coordination.address import parse_zookeeper_address
from penstock.coordination.coordinator import Group
from penstock.coordination.zookeeper import ZooKeeperCoordinator, ZooKeeperMembership
from penstock.errors import PartitionLost
from tests.coordination.members import MemoryPositions, run, until
from tests.coordination.test_zookeeper import expire

if TYPE_CHECKING:
    from penstock.server.ensemble import Ensemble

pytestmark = [pytest.mark.xdist_group("zookeeper"), pytest.mark.timeout(180)]


def test_members_outlive_a_leader_and_hold_while_most_servers_are_away(
    ensemble: Ensemble, namespace: str
) -> None:
    positions = MemoryPositions()
    address = parse_zookeeper_address(f"{ensemble.address}/deep/folder?session=10")
    coordinator = ZooKeeperCoordinator(address, namespace, lambda group: positions, settle_s=0.3)
    group = Group("clicks", "g", 2)

    async def work() -> None:
        ant = await coordinator.join(group, "ant")
        try:
            await until(lambda: ant.assigned == {0, 1}, 30.0)
            first = await ant.claim(0)
            assert first is not None

            leader = ensemble.leader
            assert leader is not None
            await asyncio.to_thread(ensemble.kill, leader)
            await ant.commit(0, "5-0")
            assert not ant.lease.is_lost, "another leader kept the session"
            await asyncio.to_thread(ensemble.start, leader)

            await asyncio.to_thread(ensemble.kill)
            await until(lambda: not ant.lease.is_valid, 30.0)
            await until(lambda: ant.lease.is_lost, 30.0)
            with pytest.raises(PartitionLost):
                await ant.commit(0, "9-0")
        finally:
            await ant.leave()

        joining = asyncio.create_task(coordinator.join(group, "bee"))
        await asyncio.to_thread(ensemble.start)
        bee = await joining
        try:
            second = None
            while second is None:
                second = await bee.claim(0)
            assert second.offset == "5-0"
            assert second.epoch > first.epoch
        finally:
            await bee.leave()

    run(work(), 150)


def test_a_session_that_was_ended_at_any_server_owns_nothing(
    ensemble: Ensemble, namespace: str
) -> None:
    positions = MemoryPositions()
    address = parse_zookeeper_address(f"{ensemble.address}?session=10")
    coordinator = ZooKeeperCoordinator(address, namespace, lambda group: positions, settle_s=0.3)
    group = Group("clicks", "g", 2)

    async def work() -> None:
        ant, bee = await coordinator.join(group, "ant"), await coordinator.join(group, "bee")
        assert isinstance(ant, ZooKeeperMembership)
        try:
            first = await ant.claim(0)
            assert first is not None
            await ant.commit(0, "5-0")
            await asyncio.to_thread(expire, ant, ensemble.address.split(",")[-1])
            await until(lambda: ant.lease.is_lost)
            second = None
            while second is None:
                second = await bee.claim(0)
            with pytest.raises(PartitionLost):
                await ant.commit(0, "9-0")
            assert (second.offset, second.epoch > first.epoch) == ("5-0", True)
            assert positions.entries[0] == (second.epoch, "5-0")
        finally:
            await ant.leave()
            await bee.leave()

    run(work())
