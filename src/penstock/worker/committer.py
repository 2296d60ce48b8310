"""Writes down how far a partition has come, behind the work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ALIVE_S = 30.0
"""how often a group that has nothing to read says that it is alive; else it would expire"""


class Committer:
    """One write is under way at a time; what comes meanwhile goes with the next."""

    def __init__(
        self,
        commit: Callable[[str], Awaitable[None]],
        every_s: float,
        offset: str,
        alive_s: float = ALIVE_S,
    ) -> None:
        self._commit = commit
        self.every_s = every_s
        self._alive_s = alive_s
        self._latest = self.committed = offset
        self._advanced = asyncio.Event()
        self._writing = asyncio.Lock()

    def advanced(self, offset: str) -> None:
        """Everything up to this message is done."""
        self._latest = offset
        self._advanced.set()

    async def keep(self) -> None:
        """Write from time to time, for ever. Raises what a write raises."""
        while True:
            try:
                async with asyncio.timeout(self._alive_s):
                    await self._advanced.wait()
            except TimeoutError:
                async with self._writing:
                    await self._commit(self.committed)
                continue
            self._advanced.clear()
            async with self._writing:
                # Once: where batches are quicker than writes, there is always something newer.
                await self._write()
            await asyncio.sleep(self.every_s)

    async def flush(self) -> None:
        """Write the latest now, if it is not written yet; returns when it is."""
        async with self._writing:
            while self._latest != self.committed:
                await self._write()

    async def _write(self) -> None:
        latest = self._latest
        if latest != self.committed:
            await self._commit(latest)
            self.committed = latest
