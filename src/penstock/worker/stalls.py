"""Gives back work that waits behind some that takes long: another worker could start it now."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.worker.prefetch import TOO_LONG_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.worker.pump import Executor, Pump


class StallWatch:
    """Looks while something waits in the executor, and only then."""

    def __init__(self, executor: Executor, pumps: list[Pump], changed: Callable[[], None]) -> None:
        """`pumps` are all that share the executor, as they come and go."""
        self._executor = executor
        self._pumps = pumps
        self._changed = changed
        self._timer: asyncio.TimerHandle | None = None
        self._giving_back: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Something waits."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TOO_LONG_S, self._look)

    def check(self) -> None:
        """Raise what went wrong."""
        if self._giving_back is not None and self._giving_back.done():
            self._giving_back.result()

    async def give_back_waiting(self) -> None:
        """Return what no handler has begun to the front of its queue."""
        pumps: list[Pump] = []
        try:
            # Pumps come meanwhile; what is recalled of one that is not held back would be lost.
            while coming := [pump for pump in self._pumps if pump not in pumps]:
                pumps += coming
                for pump in coming:
                    await pump.hold_back()
            recalled = self._executor.recall()
            for pump in pumps:
                mine = [context for context in recalled if context.origin is pump.source]
                if mine:
                    await pump.give_back(mine)
                    # Where a thread only had no time to begin, there is room here all the same.
                    pump.happen(pump.feed.look)
        finally:
            for pump in pumps:
                pump.happen(pump.feed.go_on)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._giving_back is not None:
            self._giving_back.cancel()
            await asyncio.gather(self._giving_back, return_exceptions=True)
            self._giving_back = None

    def _look(self) -> None:
        self._timer = None
        stalled = [pump for pump in self._pumps if pump.is_stalled]
        is_giving_back = self._giving_back is not None and not self._giving_back.done()
        if stalled and not is_giving_back:
            for pump in stalled:
                pump.feed.stalled()
            self._giving_back = asyncio.create_task(self.give_back_waiting())
            self._giving_back.add_done_callback(lambda _: self._changed())
        elif self._executor.waiting:
            self.watch()
        # Outcomes are held back while work waits whose outcomes could go with them. This comes
        # after the look whether any still waits, so that none is held back for ever.
        for pump in self._pumps:
            pump.report()
