"""Drives a feed on the event loop of a worker."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from contextlib import suppress
from math import inf
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from penstock.executors.context import Context
from penstock.worker.prefetch import TOO_LONG_S
from penstock.worker.schedules import fire_schedules
from penstock.worker.source import Begin, Cancel, Cancelled, Fire, QueueSource, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from penstock.client.client import AsyncPenstock
    from penstock.worker.feed import Feed
    from penstock.worker.serving import Serving
    from penstock.worker.source import Step

log = logging.getLogger("penstock.worker")

_FIRED_BESIDE = 10
"""schedules that are sent at the same time"""
_REPORT_EVERY_S = 0.005


class Executor(Protocol):
    """Where work runs; see penstock.executors."""

    @property
    def slots(self) -> int: ...
    @property
    def moved_at(self) -> float: ...
    @property
    def waiting(self) -> int: ...
    @property
    def load(self) -> int: ...
    def submit(self, contexts: Iterable[Context]) -> None: ...
    def recall(self) -> list[Context]: ...


class Pump:
    """Sends what the feed wants to send, and gives the executor what comes."""

    def __init__(
        self, feed: Feed, client: AsyncPenstock, executor: Executor, serving: Serving
    ) -> None:
        self.feed = feed
        self.source = feed.source
        self.executor = executor
        self.lock = threading.Lock()
        """held in every call of the feed; short, and never across a request"""
        self._client = client
        self._serving = serving
        self._loop = asyncio.get_running_loop()
        self._is_told = False
        """the loop knows that something has ended, and will report it"""
        self._told_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.timer_at = inf
        self._requests: set[asyncio.Task[Any]] = set()
        self._failure: asyncio.Future[None] = self._loop.create_future()
        self._is_between = asyncio.Event()
        self._is_firing = False
        """schedules that have fallen due are being sent"""
        self.source.done = self.done
        self.source.noted = self.noted

    async def serve(self) -> None:
        """Claim and report until the feed is closed. Raises what ends it before."""
        self.turn()
        await self._failure

    # From the executor, in the thread where the work ran.

    def done(self, context: Context) -> None:
        source = self.source
        if source.is_closed or source.lease.is_lost:
            # Its task is another worker's by now, or about to be: nothing may be said about it.
            self.tell(self._serving.room_made)
            return
        source.prepare(context)
        outcomes = self.feed.outcomes
        outcomes.append(context)
        if self._is_told:
            return
        now = perf_counter()
        is_running_dry = self.executor.waiting <= len(outcomes) // 2
        if is_running_dry or now - self._told_at > _REPORT_EVERY_S:
            self._is_told = True
            self._told_at = now
            self.tell(self.report)

    def noted(self, context: Context) -> None:
        self.tell(lambda: self._noted(context))

    def tell(self, act: Callable[[], None]) -> None:
        """Have something done on the event loop, from any thread."""
        with suppress(RuntimeError):  # the worker has ended meanwhile, and its loop with it
            self._loop.call_soon_threadsafe(act)

    # From the worker, on its event loop.

    def heard(self, channel: str, message: bytes) -> None:
        """A message has come."""
        try:
            event = self.source.hear(channel, message)
        except Exception as error:
            self.not_understood(error)
            return
        is_pushed = False
        with self.lock:
            if isinstance(event, Cancelled):
                self.feed.cancelled(event)
            elif isinstance(event, Context):
                is_pushed = self.feed.pushed(event, monotonic())
            elif event is not None:
                self.feed.woken(monotonic())
        if is_pushed:
            self._begin(Begin([event], is_first=False))  # type: ignore[list-item]
        self.turn()

    def not_understood(self, error: Exception) -> None:
        """A message has no work in it; it can still be about some that is to be found."""
        log.warning("a message makes no sense queue=%s error=%r", self.source.queue, error)
        self.tell(self.look_again)

    def happen(self, event: Callable[[float], None]) -> None:
        """Tell the feed that something has happened, and do what follows."""
        with self.lock:
            event(monotonic())
        self.turn()

    def look_again(self) -> None:
        self.happen(self.feed.look_again)

    def pause(self, is_paused: bool) -> None:
        self.happen(lambda now: self.feed.paused(is_paused, now))

    def report(self) -> None:
        """Report what is done, if it was held back to go with work that now takes longer."""
        if self.feed.outcomes:
            self.happen(self.feed.report)
            if self.feed.asking is None:
                # What ends without a request, as messages of a log do, has made room as well.
                self._serving.room_made(self)

    async def stop_accepting(self) -> None:
        """Start nothing more, and let others have what was meant for this worker."""
        with self.lock:
            request = self.feed.stopping()
        if request is not None:
            await self._send(request)
        self.turn()

    async def hold_back(self) -> None:
        """Claim nothing until `go_on`; returns when no claim is under way."""
        with self.lock:
            self.feed.hold_back()
        while not self.feed.is_between_requests and not self.feed.is_closed:
            self._is_between.clear()
            await self._is_between.wait()

    async def drained(self) -> None:
        """Returns when nothing is held and everything has been reported."""
        while not self.feed.is_done:
            self._is_between.clear()
            await self._is_between.wait()

    async def give_back(self, contexts: list[Context]) -> None:
        """Return what was not begun. To be called while the feed is held back."""
        with self.lock:
            request = self.feed.give_back(contexts)
        if request is not None:
            await self._send(request)

    def close(self) -> None:
        """What is still held is this worker's no more; whatever comes of it is dropped."""
        with self.lock:
            self.feed.close()
        if self._timer is not None:
            self._timer.cancel()
        for task in self._requests:
            task.cancel()
        self._is_between.set()  # nobody waits for a request that was cancelled
        if not self._failure.done():
            self._failure.set_result(None)

    @property
    def is_stalled(self) -> bool:
        """Work waits behind some that takes long."""
        executor = self.executor
        return executor.waiting > 0 and perf_counter() - executor.moved_at > TOO_LONG_S

    def fail(self, error: BaseException) -> None:
        """Nothing more can be done here."""
        if not self._failure.done():
            self._failure.set_exception(error)

    def turn(self) -> None:
        """Do everything that the feed wants to have done now."""
        try:
            self._turn()
        except Exception as error:
            self.fail(error)

    def _turn(self) -> None:
        while not self.feed.is_closed:
            with self.lock:
                if self.feed.asking is None:
                    # Before outcomes are looked at, so that none is forgotten. While a request is
                    # under way, a slot need not tell again: nothing can be reported.
                    self._is_told = False
                step = self.feed.next(monotonic(), self._serving.owed(self.feed))
                wake_at = self.feed.wake_at
            if step is None:
                self._set_timer(wake_at)
                break
            is_pipelined = isinstance(step, Request) and self.feed.has_unopened
            self.take(step)
            if is_pipelined:
                # So that it is on its way before what came is unpacked.
                self._loop.call_soon(self.turn)
                break
        if self.feed.is_between_requests:
            self._is_between.set()
            if not self.feed.is_accepting:
                self._serving.changed()  # the last batch of a log may end without a request

    def resume(self, step: Step | None) -> None:
        """Go on with a step that another driver was told, and could not do."""
        if step is not None:
            self.take(step)
        self.turn()

    def take(self, step: Step) -> None:
        """Do one thing that the feed wants to have done."""
        if isinstance(step, Begin):
            self._begin(step)
        elif isinstance(step, Cancel):
            for context in step.contexts:
                self.source.cancel(context)
        elif isinstance(step, Fire):
            # The same are named with each answer until they have been fired.
            if not self._is_firing:
                self._is_firing = True
                self._start(self._fire(step.schedules))
        else:
            self._start(self._exchange(step, is_aside=step is not self.feed.asking))

    # Everything else.

    def _noted(self, context: Context) -> None:
        with self.lock:
            self.feed.noted(context, monotonic())
            wake_at = self.feed.wake_at
        self._set_timer(wake_at)

    def _begin(self, step: Begin) -> None:
        if step.is_first:
            self._serving.work_found(self.feed)
        executor, contexts = self.executor, step.contexts
        # Before the threads have them, as all that is done afterwards keeps these from beginning.
        is_behind = executor.load + len(contexts) > executor.slots
        if is_behind or self.feed.outcomes:
            self._serving.tasks_wait()
        executor.submit(contexts)

    def _set_timer(self, at: float) -> None:
        if at == self.timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.timer_at = at
        if at < inf and not self.feed.is_closed:
            self._timer = self._loop.call_later(max(0.0, at - monotonic()), self._timer_due)

    def _timer_due(self) -> None:
        self._timer, self.timer_at = None, inf
        self.turn()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _exchange(self, request: Request, is_aside: bool) -> None:
        try:
            await self._send(request)
        except Exception as error:
            if not is_aside:
                self.fail(error)
                return
            log.error("a background task failed queue=%s error=%r", self.source.queue, error)
            with self.lock:
                self.feed.unanswered(request, monotonic())
        self.turn()
        self._serving.room_made(self)
        if self.feed.lease.is_lost or not self.feed.is_accepting:
            self._serving.changed()

    async def _send(self, request: Request) -> None:
        store, command = self._client.store, request.command
        answer = await (store.run_once(command) if callable(command) else store.run(command))
        with self.lock:
            if not self.feed.is_closed:
                self.feed.answered(request, answer, monotonic())

    async def _fire(self, schedules: list[str]) -> None:
        assert isinstance(self.source, QueueSource)  # nothing else has schedules
        try:
            # Other workers are told of the same ones.
            names = random.sample(schedules, len(schedules))
            parts = [names[start::_FIRED_BESIDE] for start in range(_FIRED_BESIDE)]
            firing = [
                fire_schedules(self._client, self.source.keys, part) for part in parts if part
            ]
            sent = sum(await asyncio.gather(*firing))
        except Exception as error:
            log.error("a background task failed queue=%s error=%r", self.source.queue, error)
            sent = 0
        finally:
            self._is_firing = False
        self.happen(lambda now: self.feed.fired(sent > 0, now))
