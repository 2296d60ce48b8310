"""What a group does when a member joins: ours through ZooKeeper, beside kazoo's SetPartitioner.

    python bench/log_members.py [--members 16] [--partitions 32] [--settle 3]

Both run against the private ZooKeeper, all members in this process. Counted are the partitions that
have another owner after the join, those that had none for a while, and for how long together.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import penstock
from penstock.coordination.address import parse_zookeeper_address
from penstock.coordination.coordinator import Group
from penstock.coordination.positions import StoredPositions
from penstock.coordination.sessions import new_session
from penstock.coordination.zookeeper import ZooKeeperCoordinator
from penstock.server.zookeeper import EmbeddedZooKeeper

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from penstock.coordination.coordinator import Membership

_PATIENCE_S = 120.0


class Board:
    """Who owns what, and for how long each partition had no owner since a moment."""

    def __init__(self, partitions: int) -> None:
        self.owners: dict[int, str] = {}
        self._partitions = partitions
        self._lock = threading.Lock()
        self._free_since: dict[int, float] = {}
        self.paused_s: dict[int, float] = {}

    def took(self, partition: int, member: str) -> None:
        with self._lock:
            since = self._free_since.pop(partition, None)
            if since is not None:
                self.paused_s[partition] = (
                    self.paused_s.get(partition, 0.0) + time.monotonic() - since
                )
            self.owners[partition] = member

    def gave_up(self, partition: int) -> None:
        with self._lock:
            self.owners.pop(partition, None)
            self._free_since[partition] = time.monotonic()

    def begin(self) -> dict[int, str]:
        with self._lock:
            self.paused_s.clear()
            return dict(self.owners)

    def is_shared(self, members: int) -> bool:
        """Everything is owned, by all members."""
        with self._lock:
            owners = set(self.owners.values())
            return len(self.owners) == self._partitions and len(owners) == members

    def told(self, what: str, before: dict[int, str], took_s: float) -> None:
        moved = sum(before[p] != owner for p, owner in self.owners.items())
        print(
            f"{what:28} moved {moved:3} of {self._partitions}, "
            f"paused {len(self.paused_s):3} for {sum(self.paused_s.values()):6.1f} s together, "
            f"settled after {took_s:5.1f} s"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--members", type=int, default=16)
    options.add_argument("--partitions", type=int, default=32)
    options.add_argument("--settle", type=float, default=3.0)
    given = options.parse_args()
    address = EmbeddedZooKeeper().start().address
    print(f"at most {math.ceil(given.partitions / (given.members + 1))} have to move")
    asyncio.run(ours(address, given.members, given.partitions, given.settle))
    kazoos(address, given.members, given.partitions, given.settle)


async def ours(address: str, members: int, partitions: int, settle_s: float) -> None:
    name = f"members-{secrets.token_hex(4)}"
    async with await penstock.aconnect(namespace="log-members") as client:
        await client.log(name, partitions).configure()

        def positions(group: Group) -> StoredPositions:
            return StoredPositions(client.store, client.keys, group, "earliest")

        coordinator = ZooKeeperCoordinator(
            parse_zookeeper_address(address), "log-members", positions, settle_s=settle_s
        )
        board = Board(partitions)
        joined: list[Membership] = []
        following: list[asyncio.Task[None]] = []

        async def join(number: int) -> None:
            member = await coordinator.join(Group(name, "g", partitions), f"m{number}")
            joined.append(member)
            following.append(asyncio.create_task(follow(member, board)))

        await asyncio.gather(*map(join, range(members)))
        await shared(board, members)
        before, began_at = board.begin(), time.monotonic()
        await join(members)
        await shared(board, members + 1)
        board.told("penstock", before, time.monotonic() - began_at)
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        await asyncio.gather(*(member.leave() for member in joined))
        await client.log(name).delete()


async def shared(board: Board, members: int) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while not board.is_shared(members):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def follow(member: Membership, board: Board) -> None:
    """Own what is assigned, and nothing else."""
    mine: set[int] = set()
    while not member.lease.is_lost:
        for partition in mine - member.assigned:
            mine.discard(partition)
            board.gave_up(partition)
            await member.release(partition)
        for partition in member.assigned - mine:
            if await member.claim(partition) is not None:
                mine.add(partition)
                board.took(partition, member.member)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                await member.changed()


def kazoos(address: str, members: int, partitions: int, settle_s: float) -> None:
    path = f"/set-partitioner-{secrets.token_hex(4)}"
    board = Board(partitions)
    is_over = threading.Event()
    sessions: list[KazooClient] = []
    threads: list[threading.Thread] = []

    def join(number: int) -> None:
        session = new_session(parse_zookeeper_address(address), 10.0)
        session.start()
        sessions.append(session)
        arguments = session, path, f"m{number}", partitions, settle_s, board, is_over
        threads.append(threading.Thread(target=partition_with_kazoo, args=arguments))
        threads[-1].start()

    def wait(count: int) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not board.is_shared(count):
            if time.monotonic() > deadline:
                raise TimeoutError("SetPartitioner does not settle")
            time.sleep(0.01)

    try:
        for number in range(members):
            join(number)
        wait(members)
        before, began_at = board.begin(), time.monotonic()
        join(members)
        wait(members + 1)
        board.told("kazoo's SetPartitioner", before, time.monotonic() - began_at)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        for session in sessions:
            session.stop()
            session.close()


def partition_with_kazoo(
    session: KazooClient,
    path: str,
    name: str,
    partitions: int,
    settle_s: float,
    board: Board,
    is_over: threading.Event,
) -> None:
    """As its own documentation shows it."""
    partitioner = session.SetPartitioner(
        path, set=range(partitions), identifier=name, time_boundary=settle_s
    )
    mine: set[int] = set()
    while not is_over.is_set() and not partitioner.failed:
        if partitioner.release:
            for partition in mine:
                board.gave_up(partition)
            mine.clear()
            partitioner.release_set()
        elif partitioner.acquired:
            for partition in set(partitioner) - mine:
                mine.add(partition)
                board.took(partition, name)
            time.sleep(0.01)
        elif partitioner.allocating:
            partitioner.wait_for_acquire(1)
    partitioner.finish()


if __name__ == "__main__":
    main()
