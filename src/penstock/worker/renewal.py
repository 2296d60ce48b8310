"""When a worker is to end because it has done enough, or has become too large."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.errors import InvalidArgument
from penstock.executors.memory import present_rss
from penstock.worker.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("penstock.worker")

_LOOK_EVERY_S = 1.0


class Renewal:
    """Code that leaks, or that nobody dares to run for long, is run in a process that does not live
    long: the worker ends in order, and its parent starts another.
    """

    def __init__(self, max_jobs: int | None, max_memory: int | None) -> None:
        if max_jobs is not None and max_jobs < 1:
            raise InvalidArgument(f"max_jobs is {max_jobs}; a worker runs at least 1 job")
        self.budget = Budget(max_jobs)
        self.is_by_count = max_jobs is not None
        self.is_too_large = False
        self._max_memory = max_memory

    def check(self) -> None:
        """Refuse a limit that a worker has reached before it has done anything."""
        if self._max_memory is not None and present_rss() == 0:
            raise InvalidArgument("max_memory needs Linux, as nothing else says how much is used")
        if self._max_memory is not None and present_rss() >= self._max_memory:
            raise InvalidArgument(
                f"max_memory is {_megabytes(self._max_memory)}, and the worker has "
                f"{_megabytes(present_rss())} before it has done anything; give it more"
            )

    async def watch(self, changed: Callable[[], None]) -> None:
        """Look at the memory from time to time, for as long as this is awaited."""
        while self._max_memory is not None:
            await asyncio.sleep(_LOOK_EVERY_S)
            if not self.is_too_large and present_rss() > self._max_memory:
                log.warning(
                    "the worker is too large rss=%d max_memory=%d", present_rss(), self._max_memory
                )
                self.is_too_large = True
                changed()
        await asyncio.Event().wait()


def _megabytes(count: int) -> str:
    return f"{count / (1 << 20):.1f}M"
