"""Writes down how far a partition has come, behind the work."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Committer:
    """One write is under way at a time; what comes meanwhile goes with the next."""

    def __init__(self, commit: Callable[[str], Awaitable[None]], every_s: float) -> None:
        self._commit = commit
        self._every_s = every_s
        self._latest = ""
        self._committed = ""
        self._advanced = asyncio.Event()
        self._writing = asyncio.Lock()

    def advanced(self, offset: str) -> None:
        """Everything up to this message is done."""
        self._latest = offset
        self._advanced.set()

    @property
    def is_behind(self) -> bool:
        return self._latest != self._committed

    async def keep(self) -> None:
        """Write from time to time, for ever. Raises what a write raises."""
        while True:
            await self._advanced.wait()
            self._advanced.clear()
            await self.flush()
            await asyncio.sleep(self._every_s)

    async def flush(self) -> None:
        """Write the latest now; returns when it is written."""
        async with self._writing:
            while self.is_behind:
                latest = self._latest
                await self._commit(latest)
                self._committed = latest
