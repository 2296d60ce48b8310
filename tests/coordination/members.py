"""Members of a group, for tests of coordinators."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from penstock.model.taken import Taken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.coordination.coordinator import Membership

SESSION_S = 10.0
"""long, so that a busy machine ends no session; as long as the private ZooKeeper allows"""
SETTLE_S = 0.3


class MemoryPositions:
    """Epochs and offsets, as the store keeps them."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[int, str]] = {}
        self.owners: dict[int, str] = {}

    async def take(self, partition: int, owner: str) -> Taken:
        before, offset = self.entries.get(partition, (0, "0-0"))
        self.entries[partition] = before + 1, offset
        self.owners[partition] = owner
        return Taken(before + 1, offset, before)

    async def commit(self, partition: int, epoch: int, offset: str) -> bool:
        if self.entries[partition][0] != epoch:
            return False
        self.entries[partition] = epoch, offset
        return True

    async def has_other_owner(self, partition: int, owner: str) -> bool:
        return self.owners.get(partition, owner) != owner

    def seek(self, partition: int, offset: str) -> None:
        self.entries[partition] = self.entries[partition][0] + 1, offset
        self.owners.pop(partition, None)


def run(work: Awaitable[None], timeout_s: float = 40) -> None:
    """Run a test that waits; never for ever."""

    async def main() -> None:
        async with asyncio.timeout(timeout_s):
            await work

    asyncio.run(main())


async def until(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {timeout_s} s"
        await asyncio.sleep(0.01)


async def follow(member: Membership, owned: set[int]) -> None:
    """As a worker does: have what is assigned, and nothing else."""
    while not member.lease.is_lost:
        for partition in owned - member.assigned:
            owned.discard(partition)
            await member.release(partition)
        for partition in member.assigned - owned:
            if await member.claim(partition) is not None:
                owned.add(partition)
        changed = asyncio.ensure_future(member.changed())
        await asyncio.wait([changed], timeout=0.1)
        changed.cancel()
