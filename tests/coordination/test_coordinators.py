"""What every coordinator promises. A new one is in use once it passes these: add it to `opened`."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client.fsck import check
from penstock.coordination.address import parse_zookeeper_address
from penstock.coordination.coordinator import Group
from penstock.coordination.manual import ManualCoordinator
from penstock.coordination.positions import StoredPositions
from penstock.coordination.redis import RedisCoordinator
from penstock.coordination.zookeeper import ZooKeeperCoordinator
from penstock.errors import LogNotFound, PartitionLost
from tests.coordination.members import (
    SESSION_S,
    SETTLE_S,
    follow,
    run,
    until,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from penstock.coordination.coordinator import Coordinator, Membership

pytestmark = pytest.mark.xdist_group("zookeeper")


@asynccontextmanager
async def joined(
    coordinator: Coordinator, *names: str, partitions: int = 4
) -> AsyncIterator[list[Membership]]:
    members: list[Membership] = []
    try:
        for name in names:
            members.append(await coordinator.join(Group("clicks", "g", partitions), name))
        yield members
    finally:
        for member in members:
            await member.leave()


@asynccontextmanager
async def opened(request: Any, kind: str) -> AsyncIterator[Coordinator]:
    """A coordinator of a log with four partitions, on a real store."""
    server, namespace = request.getfixturevalue("server"), request.getfixturevalue("namespace")
    async with await penstock.aconnect(server.url, namespace=namespace) as client:
        await client.log("clicks", partitions=4).append(b"first")

        def positions(group: Group) -> StoredPositions:
            return StoredPositions(client.store, client.keys, group, "earliest")

        if kind == "zookeeper":
            address = f"{request.getfixturevalue('zookeeper')}?session={SESSION_S}"
            yield ZooKeeperCoordinator(
                parse_zookeeper_address(address), namespace, positions, settle_s=SETTLE_S
            )
        elif kind == "redis":
            yield RedisCoordinator(
                client.store, client.keys, positions, lease_s=SESSION_S, settle_s=SETTLE_S
            )
        else:
            yield ManualCoordinator(range(4), positions)


async def with_coordinator(
    request: Any, kind: str, work: Callable[[Coordinator], Awaitable[None]]
) -> None:
    async with opened(request, kind) as coordinator:
        await work(coordinator)


ALL = ("zookeeper", "redis", "manual")
ASSIGNING = ("zookeeper", "redis")


@pytest.mark.parametrize("kind", ALL)
def test_a_lone_member_gets_everything(request: Any, kind: str) -> None:
    async def work(coordinator: Coordinator) -> None:
        async with joined(coordinator, "ant") as [ant]:
            await until(lambda: ant.assigned == {0, 1, 2, 3})
            assert ant.lease.is_valid

    run(with_coordinator(request, kind, work))


@pytest.mark.parametrize("kind", ASSIGNING)
def test_a_partition_has_one_owner_and_each_claim_a_greater_epoch(request: Any, kind: str) -> None:
    async def work(coordinator: Coordinator) -> None:
        async with joined(coordinator, "ant", "bee") as [ant, bee]:
            first = await ant.claim(0)
            assert first is not None
            assert await bee.claim(0) is None
            await ant.release(0)
            second = await bee.claim(0)
            assert second is not None
            assert second.epoch > first.epoch

    run(with_coordinator(request, kind, work))


@pytest.mark.parametrize("kind", ALL)
def test_what_was_committed_is_where_the_next_owner_begins(request: Any, kind: str) -> None:
    async def work(coordinator: Coordinator) -> None:
        async with joined(coordinator, "ant", "bee") as [ant, bee]:
            claimed = await ant.claim(0)
            assert claimed is not None
            assert claimed.offset == "0-0"
            await ant.commit(0, "5-0")
            await ant.commit(0, "17-2")
            await ant.release(0)
            claimed = await bee.claim(0)
            assert claimed is not None
            assert claimed.offset == "17-2"

    run(with_coordinator(request, kind, work))


@pytest.mark.parametrize("kind", ALL)
def test_an_offset_never_goes_back(request: Any, kind: str) -> None:
    async def work(coordinator: Coordinator) -> None:
        async with joined(coordinator, "ant") as [ant]:
            await ant.claim(0)
            await ant.commit(0, "17-2")
            await ant.commit(0, "9-0")
            await ant.release(0)
            claimed = await ant.claim(0)
            assert claimed is not None
            assert claimed.offset == "17-2"

    run(with_coordinator(request, kind, work))


@pytest.mark.parametrize("kind", ALL)
def test_an_owner_of_before_is_refused(request: Any, kind: str) -> None:
    async def work(coordinator: Coordinator) -> None:
        async with joined(coordinator, "ant", "bee") as [ant, bee]:
            await ant.claim(0)
            if kind != "manual":  # where the later one takes it from the other
                await ant.release(0)
            await bee.claim(0)
            await bee.commit(0, "5-0")
            with pytest.raises(PartitionLost, match="does not own partition 0 of log 'clicks'"):
                await ant.commit(0, "9-0")

    run(with_coordinator(request, kind, work))


@pytest.mark.parametrize("kind", ASSIGNING)
def test_members_share_and_only_what_must_move_moves(request: Any, kind: str) -> None:
    async def work(coordinator: Coordinator) -> None:
        async with joined(coordinator, "ant") as [ant]:
            mine: set[int] = set()
            following = [asyncio.create_task(follow(ant, mine))]
            await until(lambda: mine == {0, 1, 2, 3})
            kept = dict.fromkeys(range(4), 0)
            async with joined(coordinator, "bee") as [bee]:
                theirs: set[int] = set()
                following.append(asyncio.create_task(follow(bee, theirs)))
                await until(lambda: len(theirs) == 2)
                assert len(mine) == 2
                assert mine | theirs == kept.keys()
            await until(lambda: mine == {0, 1, 2, 3})
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    run(with_coordinator(request, kind, work))


@pytest.mark.parametrize("kind", ASSIGNING)
def test_a_member_beyond_the_partitions_stays_idle(request: Any, kind: str) -> None:
    async def work(coordinator: Coordinator) -> None:
        async with joined(coordinator, "ant", "bee", partitions=1) as members:
            owned: list[set[int]] = [set(), set()]
            following = [
                asyncio.create_task(follow(member, mine))
                for member, mine in zip(members, owned, strict=True)
            ]
            await until(lambda: sorted(map(len, owned)) == [0, 1])
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)

    run(with_coordinator(request, kind, work))


@pytest.mark.parametrize("kind", ASSIGNING)
def test_a_member_that_left_owns_nothing(request: Any, kind: str) -> None:
    async def work(coordinator: Coordinator) -> None:
        async with joined(coordinator, "ant", "bee") as [ant, bee]:
            await ant.claim(0)
            await ant.leave()
            assert ant.lease.is_lost
            with pytest.raises(PartitionLost):
                await ant.commit(0, "5-0")
            # Long before a session would have timed out.
            await until(lambda: 0 in bee.assigned, SESSION_S / 2)
            assert await bee.claim(0) is not None

    run(with_coordinator(request, kind, work))


@pytest.mark.parametrize("kind", ALL)
def test_groups_know_nothing_of_each_other(request: Any, kind: str) -> None:
    async def work(coordinator: Coordinator) -> None:
        one = await coordinator.join(Group("clicks", "one", 2), "ant")
        other = await coordinator.join(Group("clicks", "ot/her ..", 2), "ant")
        try:
            assert await one.claim(0) is not None
            assert await other.claim(0) is not None
            await one.commit(0, "5-0")
        finally:
            await one.leave()
            await other.leave()

    run(with_coordinator(request, kind, work))


def test_a_partition_that_a_log_made_anew_has_not_is_not_brought_into_being(
    request: Any, ps: penstock.Penstock
) -> None:
    async def work(coordinator: Coordinator) -> None:
        async with joined(coordinator, "ant") as [ant]:
            ps.log("clicks").delete()
            ps.log("clicks", partitions=1).append(b"anew")

            with pytest.raises(LogNotFound, match="has no partition 3 any more; join the group"):
                await ant.claim(3)

    run(with_coordinator(request, "redis", work))
    assert check(ps).violations == []


@pytest.mark.parametrize("kind", ASSIGNING)
def test_members_that_know_of_different_numbers_of_partitions_share_them_all(
    request: Any, kind: str
) -> None:
    async def work(coordinator: Coordinator) -> None:
        ant = await coordinator.join(Group("clicks", "g", 2), "ant")
        bee = await coordinator.join(Group("clicks", "g", 4), "bee", weight=3)
        owned: list[set[int]] = [set(), set()]
        following = [
            asyncio.create_task(follow(member, mine))
            for member, mine in zip((ant, bee), owned, strict=True)
        ]
        try:
            await until(lambda: owned[0] | owned[1] == {0, 1, 2, 3} and len(owned[1]) == 3)
            assert not owned[0] & owned[1]
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            await ant.leave()
            await bee.leave()

    run(with_coordinator(request, kind, work))
