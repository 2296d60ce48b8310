"""What only ZooKeeper can do to a member: sessions that end, connections that break, lost nodes."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from penstock.coordination.address import parse_zookeeper_address
from penstock.coordination.coordinator import Group
from penstock.coordination.sessions import new_session
from penstock.coordination.zookeeper import ZooKeeperCoordinator, ZooKeeperMembership
from penstock.errors import PartitionLost
from tests.coordination.forwarder import Forwarder
from tests.coordination.members import SESSION_S, SETTLE_S, MemoryPositions, run, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.xdist_group("zookeeper")
GROUP = Group("clicks", "g", 2)


@pytest.fixture
def positions() -> MemoryPositions:
    return MemoryPositions()


@pytest.fixture
def coordinator(zookeeper: str, namespace: str, positions: MemoryPositions) -> ZooKeeperCoordinator:
    return ZooKeeperCoordinator(
        *(
            parse_zookeeper_address(f"{zookeeper}?session={SESSION_S}"),
            namespace,
            lambda group: positions,
        ),
        settle_s=SETTLE_S,
    )


@pytest.fixture
def admin(zookeeper: str) -> Iterator[KazooClient]:
    session = new_session(parse_zookeeper_address(zookeeper), 10.0)
    session.start()
    yield session
    session.stop()
    session.close()


async def join(coordinator: ZooKeeperCoordinator, name: str) -> ZooKeeperMembership:
    member = await coordinator.join(GROUP, name)
    assert isinstance(member, ZooKeeperMembership)
    return member


def expire(member: ZooKeeperMembership, server: str = "") -> None:
    """End its session from outside, as ZooKeeper does by itself when it hears nothing."""
    host, port = member._session.hosts[0]
    rival = KazooClient(hosts=server or f"{host}:{port}", client_id=member._session.client_id)
    rival.start()
    rival.stop()
    rival.close()


def test_a_session_that_was_ended_from_outside_owns_nothing(
    coordinator: ZooKeeperCoordinator,
) -> None:
    async def work() -> None:
        ant, bee = await join(coordinator, "ant"), await join(coordinator, "bee")
        try:
            first = await ant.claim(0)
            assert first is not None
            await ant.commit(0, "5-0")
            await asyncio.to_thread(expire, ant)
            await until(lambda: ant.lease.is_lost)
            second = None
            while second is None:
                second = await bee.claim(0)
            with pytest.raises(PartitionLost):
                await ant.commit(0, "9-0")
            assert second.offset == "5-0"
            assert second.epoch > first.epoch
        finally:
            await ant.leave()
            await bee.leave()

    run(work())


def test_a_stale_owner_cannot_write_the_offset_even_in_a_live_session(
    coordinator: ZooKeeperCoordinator, admin: KazooClient, namespace: str
) -> None:
    async def work() -> None:
        ant, bee = await join(coordinator, "ant"), await join(coordinator, "bee")
        try:
            await ant.claim(0)
            # As if another member had taken it while ant was not looking.
            admin.delete(f"/penstock/{namespace}/clicks/g/owners/0")
            with pytest.raises(PartitionLost):
                await ant.commit(0, "9-0")
            claimed = await bee.claim(0)
            assert claimed is not None
            with pytest.raises(PartitionLost):
                await ant.commit(0, "9-0")
            assert claimed.offset == "0-0"
            await bee.commit(0, "7-0")
            assert admin.get(f"/penstock/{namespace}/clicks/g/offsets/0")[0] == b"2 7-0"
        finally:
            await ant.leave()
            await bee.leave()

    run(work())


def test_nodes_that_were_wiped_are_made_again_and_offsets_come_from_the_store(
    coordinator: ZooKeeperCoordinator, admin: KazooClient, namespace: str
) -> None:
    async def work() -> None:
        ant = await join(coordinator, "ant")
        try:
            first = await ant.claim(0)
            assert first is not None
            await ant.commit(0, "5-0")
            admin.delete(f"/penstock/{namespace}", recursive=True)
            await until(lambda: ant.lease.is_lost)
        finally:
            await ant.leave()
        again = await join(coordinator, "ant")
        try:
            second = await again.claim(0)
            assert second is not None
            assert second.offset == "5-0"
            assert second.epoch > first.epoch
        finally:
            await again.leave()

    run(work())


def test_an_offset_that_was_set_from_outside_counts_and_ends_the_owner(
    coordinator: ZooKeeperCoordinator, positions: MemoryPositions
) -> None:
    async def work() -> None:
        ant = await join(coordinator, "ant")
        try:
            await ant.claim(0)
            await ant.commit(0, "9-0")
            positions.seek(0, "3-0")
            with pytest.raises(PartitionLost):
                await ant.commit(0, "11-0")
            await ant.release(0)
            claimed = await ant.claim(0)
            assert claimed is not None
            assert claimed.offset == "3-0"
        finally:
            await ant.leave()

    run(work())


def test_a_store_that_lost_its_last_writes_does_not_set_the_group_back(
    coordinator: ZooKeeperCoordinator, positions: MemoryPositions
) -> None:
    async def work() -> None:
        ant = await join(coordinator, "ant")
        try:
            await ant.claim(0)
            before = dict(positions.entries)
            await ant.commit(0, "9-0")
            positions.entries = before
            await ant.release(0)
            claimed = await ant.claim(0)
            assert claimed is not None
            assert claimed.offset == "9-0"
        finally:
            await ant.leave()

    run(work())


@pytest.fixture
def through(
    zookeeper: str, namespace: str, positions: MemoryPositions
) -> Callable[[int, float], ZooKeeperCoordinator]:
    """A coordinator that reaches ZooKeeper through another port."""

    def make(port: int, session_s: float) -> ZooKeeperCoordinator:
        head, _, _ = zookeeper.rpartition(":")
        address = parse_zookeeper_address(f"{head}:{port}?session={session_s}")
        return ZooKeeperCoordinator(address, namespace, lambda group: positions)

    return make


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_a_connection_that_breaks_for_less_than_the_session_changes_nothing(
    zookeeper: str, through: Callable[[int, float], ZooKeeperCoordinator]
) -> None:
    async def work() -> None:
        async with Forwarder(port_of(zookeeper)) as way:
            ant = await join(through(way.port, SESSION_S), "ant")
            try:
                await until(lambda: ant.assigned == {0, 1})
                first = await ant.claim(0)
                way.cut()
                await until(lambda: not ant.lease.is_valid)
                assert not ant.lease.is_lost
                way.mend()
                await until(lambda: ant.lease.is_valid)
                await ant.commit(0, "5-0")
                assert ant.assigned == {0, 1}
                assert first is not None
                # Watches are armed again: it hears of what changes from now on.
                bee = await join(through(way.port, SESSION_S), "bee")
                try:
                    await ant.release(0)
                    await until(lambda: ant.assigned | bee.assigned == {0, 1})
                finally:
                    await bee.leave()
            finally:
                await ant.leave()

    run(work())


def test_a_member_that_is_cut_off_is_lost_by_its_own_clock(
    zookeeper: str, through: Callable[[int, float], ZooKeeperCoordinator]
) -> None:
    async def work() -> None:
        async with Forwarder(port_of(zookeeper)) as way:
            ant = await join(through(way.port, 2.0), "ant")
            try:
                await until(lambda: ant.assigned == {0, 1})
                await ant.claim(0)
                await ant.commit(0, "5-0")
                way.cut()
                # Nobody can tell it: there is no connection.
                await until(lambda: ant.lease.is_lost)
                assert ant.assigned == frozenset()
                with pytest.raises(PartitionLost):
                    await ant.commit(0, "9-0")
            finally:
                await ant.leave()

    run(work())


def test_a_commit_whose_answer_was_lost_is_made_once(
    zookeeper: str,
    namespace: str,
    admin: KazooClient,
    through: Callable[[int, float], ZooKeeperCoordinator],
) -> None:
    async def work() -> None:
        async with Forwarder(port_of(zookeeper)) as way:
            ant = await join(through(way.port, SESSION_S), "ant")
            try:
                await ant.claim(0)
                for number in range(1, 6):
                    committing = asyncio.create_task(ant.commit(0, f"{number}-0"))
                    await asyncio.sleep(0)
                    way.cut()
                    await asyncio.sleep(0)
                    way.mend()
                    await committing
                value, stat = admin.get(f"/penstock/{namespace}/clicks/g/offsets/0")
                assert value == b"1 5-0"
                assert stat.version == 6, "the claim and five commits"
            finally:
                await ant.leave()

    run(work())


def test_threads_of_kazoo_wait_for_nothing_while_the_event_loop_is_busy(
    coordinator: ZooKeeperCoordinator, admin: KazooClient, namespace: str
) -> None:
    async def work() -> None:
        ant = await join(coordinator, "ant")
        try:
            await until(lambda: ant.assigned == {0, 1})
            is_through = threading.Event()
            members = f"/penstock/{namespace}/clicks/g/members"

            # The loop does nothing from here on: what the member is told of stays with kazoo.
            admin.create(f"{members}/other-1", b'{"member": "x", "weight": 1, "partitions": 2}')
            asked = ant._session.get_children_async(members)
            asked.rawlink(lambda _: ant._session.handler.callback_queue.put(is_through.set))
            assert is_through.wait(10), "a callback of the member keeps the thread of kazoo"
            assert not asked.exception

            await until(lambda: len(ant.assigned) == 1)
        finally:
            await ant.leave()

    run(work())
