"""Members of a group, for tests of coordinators."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from penstock.coordination.coordinator import Taken

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.coordination.coordinator import Membership

SESSION_S = 2.0
SETTLE_S = 0.3


class MemoryPositions:
    """Epochs and offsets, as the store keeps them."""

    def __init__(self) -> None:
        self.entries: dict[int, Taken] = {}

    async def take(self, partition: int, owner: str) -> Taken:
        old = self._entry(partition)
        self.entries[partition] = Taken(old.epoch + 1, old.offset, old.offset_epoch)
        return self.entries[partition]

    async def commit(self, partition: int, epoch: int, offset: str) -> bool:
        if self._entry(partition).epoch != epoch:
            return False
        self.entries[partition] = Taken(epoch, offset, epoch)
        return True

    def seek(self, partition: int, offset: str) -> None:
        epoch = self._entry(partition).epoch + 1
        self.entries[partition] = Taken(epoch, offset, epoch)

    def _entry(self, partition: int) -> Taken:
        return self.entries.get(partition, Taken(0, "", 0))


def run(work: Awaitable[None]) -> None:
    """Run a test that waits; never for ever."""

    async def main() -> None:
        async with asyncio.timeout(40):
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
