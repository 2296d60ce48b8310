"""Runs coroutine functions, on the worker's own event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from penstock.errors import JobCancelled, JobTimeout
from penstock.executors.context import Context

if TYPE_CHECKING:
    from collections.abc import Iterable

log = logging.getLogger("penstock.worker")

_LEASE_POLL_S = 0.02
_TURN_S = 0.005
_END_S = 1.0
"""how long a coroutine past its timeout may take to end before its slot goes on without it"""


class CoroutineExecutor:
    """A fixed number of slots, each running one coroutine at a time.

    A slot awaits the handler itself instead of making a task of it, so a handler that never waits
    costs next to nothing. Only a job with a timeout gets a task of its own, so that the slot can
    go on if the job does not let itself be cancelled.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.moved_at = perf_counter()
        """when a task was last done, or began to wait while no other did"""
        self._backlog: deque[Context] = deque()
        self._running: set[Context] = set()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._tasks: list[asyncio.Task[None]] = []
        self._jobs: dict[Context, asyncio.Task[Any]] = {}
        """where to cancel the jobs that run"""
        self._cancelled: set[Context] = set()
        self._stubborn: dict[asyncio.Task[Any], Context] = {}
        """jobs past their timeout that did not end when they were cancelled"""
        self._is_closing = False

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._serve()) for _ in range(self.slots)]

    def submit(self, contexts: Iterable[Context]) -> None:
        if not self.waiting:
            self.moved_at = perf_counter()
        self._backlog.extend(contexts)
        for _ in range(min(len(self._backlog), len(self._idle))):
            future = self._idle.popleft()
            if not future.done():
                future.set_result(None)

    @property
    def load(self) -> int:
        """Tasks that wait or run, also those whose worker has lost them meanwhile."""
        return len(self._backlog) + len(self._running)

    @property
    def waiting(self) -> int:
        """Tasks that no slot has begun."""
        return len(self._backlog)

    def recall(self) -> list[Context]:
        """Take back every task that no slot has begun."""
        recalled = list(self._backlog)
        self._backlog.clear()
        return recalled

    def cancel(self, context: Context) -> None:
        """Tell the handler, and if it is that of a job and runs, cancel the coroutine too.

        To be called on the event loop.
        """
        context.cancel()
        task = self._jobs.get(context)
        if task is not None and context not in self._cancelled:
            self._cancelled.add(context)
            task.cancel()

    @property
    def running(self) -> list[Context]:
        """What runs, and what has run since its timeout and does not let itself be cancelled."""
        return [*self._running, *self._stubborn.values()]

    @property
    def is_running(self) -> bool:
        """Whether something runs whose outcome counts."""
        return bool(self._running)

    def close(self) -> None:
        """Cancel what still runs."""
        self._is_closing = True
        for task in (*self._tasks, *self._stubborn):
            task.cancel()

    async def end(self) -> None:
        """Close, and give what still runs a moment to end. What does not is in `running`."""
        tasks = [*self._tasks, *self._stubborn, *self._jobs.values()]
        self.close()
        if tasks:
            await asyncio.wait(tasks, timeout=_END_S)

    async def _serve(self) -> None:
        while True:
            try:
                await self._serve_backlog()
            except asyncio.CancelledError:
                if self._is_closing:
                    raise
                _uncancel()

    async def _serve_backlog(self) -> None:
        loop = asyncio.get_running_loop()
        turn_began_at = perf_counter()
        while True:
            while not self._backlog:
                future = loop.create_future()
                self._idle.append(future)
                await future
                turn_began_at = perf_counter()
            await self._perform(self._backlog.popleft())
            if perf_counter() - turn_began_at > _TURN_S:
                # Handlers that never wait would keep the event loop busy.
                await asyncio.sleep(0)
                turn_began_at = perf_counter()

    async def _perform(self, context: Context) -> None:
        self._running.add(context)
        if not context.may_begin:
            while context.must_wait:  # noqa: ASYNC110 - the lease is a clock; nothing announces its end
                await asyncio.sleep(_LEASE_POLL_S)
            if context.is_void:
                self._running.discard(context)
                context.skipped()
                return
        began_at = perf_counter()
        error: BaseException | None = None
        try:
            if type(context) is Context:
                value = await context.origin.handle(context.task, context)
            else:
                value = await self._run_job(context)
        except asyncio.CancelledError as raised:
            if self._is_closing:
                self._running.discard(context)
                raise
            _uncancel()
            error = raised
        except BaseException as raised:
            error = raised
        self.moved_at = perf_counter()
        # The slot is free before the outcome is told, so that the worker can fill it at once.
        self._running.discard(context)
        if error is None:
            context.returned(value, began_at)
        else:
            context.raised(error, began_at)

    async def _run_job(self, context: Context) -> object:
        """As for a plain task; but it can be cancelled, and may have a timeout."""
        slot = asyncio.current_task()
        assert slot is not None
        task: asyncio.Task[Any] = slot
        if context.timeout_s > 0:
            task = asyncio.create_task(_settle(context))
        self._jobs[context] = task
        try:
            if task is slot:
                return await context.origin.handle(context.task, context)
            return await self._wait(task, context)
        except asyncio.CancelledError as error:
            if self._is_closing or context not in self._cancelled:
                raise
            raise JobCancelled(
                "the job was cancelled while it ran; send it again if that was not meant"
            ) from error
        finally:
            del self._jobs[context]
            if context in self._cancelled:
                self._cancelled.remove(context)
                if task is slot:
                    _uncancel()

    async def _wait(self, task: asyncio.Task[_Settled], context: Context) -> object:
        timeout_s = context.timeout_s
        try:
            left_s = timeout_s
            while not task.done() and left_s > 0:
                await asyncio.wait([task], timeout=left_s)
                # What it is at by now may have begun later than the task.
                left_s = context.moved_at + timeout_s - perf_counter()
            if task.done():
                value, error = task.result()
                if error is not None:
                    raise error
                return value
            task.cancel()
            await asyncio.wait([task], timeout=_END_S)
        except asyncio.CancelledError:
            task.cancel()  # the executor is being closed
            self._goes_on(task, context)
            raise
        if not task.done():
            log.warning("a job past its timeout goes on, it cannot be cancelled task=%r", task)
            self._goes_on(task, context)
        raise JobTimeout(
            f"the job ran longer than its timeout of {timeout_s:g} s and was cancelled; "
            "give it more time, or less to do"
        )

    def _goes_on(self, task: asyncio.Task[_Settled], context: Context) -> None:
        self._stubborn[task] = context
        task.add_done_callback(self._stubborn.pop)


_Settled = tuple[object, BaseException | None]


async def _settle(context: Context) -> _Settled:
    """Never raises: a SystemExit that leaves a task would end the event loop."""
    try:
        return await context.origin.handle(context.task, context), None
    except BaseException as error:
        return None, error


def _uncancel() -> None:
    """A handler may cancel the task that it runs in; that is not meant for the slot."""
    if task := asyncio.current_task():
        task.uncancel()
