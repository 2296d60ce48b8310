"""Runs coroutine functions, on the worker's own event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.executors.assignment import Context

_LEASE_POLL_S = 0.02
_TURN_S = 0.005


class CoroutineExecutor:
    """A fixed number of slots, each running one coroutine at a time.

    A slot awaits the handler itself instead of making a task of it, so a handler that never waits
    costs next to nothing.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.moved_at = perf_counter()
        """when a task was last done, or began to wait in an empty line"""
        self._line: deque[Context] = deque()
        self._running: set[Context] = set()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_closing = False

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._serve()) for _ in range(self.slots)]

    def submit(self, contexts: Iterable[Context]) -> None:
        if not self.waiting:
            self.moved_at = perf_counter()
        self._line.extend(contexts)
        for _ in range(min(len(self._line), len(self._idle))):
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)

    @property
    def load(self) -> int:
        """Tasks that wait or run, also those whose worker has lost them meanwhile."""
        return len(self._line) + len(self._running)

    @property
    def waiting(self) -> int:
        """Tasks that no slot has begun."""
        return len(self._line)

    def recall(self) -> list[Context]:
        """Take back every task that no slot has begun."""
        recalled = list(self._line)
        self._line.clear()
        return recalled

    def close(self) -> None:
        """Cancel what still runs."""
        self._is_closing = True
        for task in self._tasks:
            task.cancel()

    async def _serve(self) -> None:
        while True:
            try:
                await self._serve_line()
            except asyncio.CancelledError:
                if self._is_closing:
                    raise
                _uncancel()

    async def _serve_line(self) -> None:
        loop = asyncio.get_running_loop()
        turn_began_at = perf_counter()
        while True:
            while not self._line:
                future = loop.create_future()
                self._idle.append(future)
                await future
                turn_began_at = perf_counter()
            await self._perform(self._line.popleft())
            if perf_counter() - turn_began_at > _TURN_S:
                # Handlers that never wait would keep the loop from everything else.
                await asyncio.sleep(0)
                turn_began_at = perf_counter()

    async def _perform(self, context: Context) -> None:
        self._running.add(context)
        while context.must_wait:  # noqa: ASYNC110 - the lease is a clock; nothing announces its end
            await asyncio.sleep(_LEASE_POLL_S)
        if context.is_void:
            self._running.discard(context)
            context.skipped()
            return
        began_at = perf_counter()
        error: BaseException | None = None
        try:
            value = await context.origin.handle(context.task, context)
        except asyncio.CancelledError as raised:
            if self._is_closing:
                raise
            _uncancel()
            error = raised
        except BaseException as raised:
            error = raised
        self.moved_at = perf_counter()
        # Free before the outcome is told, so that whoever hears of it finds the slot free.
        self._running.discard(context)
        if error is None:
            context.returned(value, began_at)
        else:
            context.raised(error, began_at)


def _uncancel() -> None:
    """A handler may cancel the task that it runs in; that is not meant for the slot."""
    if task := asyncio.current_task():
        task.uncancel()
