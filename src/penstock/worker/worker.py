"""A worker: the story of its life.

It registers, joins its queues, and waits to be woken. Each queue is served by a feed, handlers run
in an executor, and the lease is renewed by a thread of its own. When the lease is lost, handlers
are told, their results are dropped, and the worker starts again under a new name. When it is asked
to stop, it starts nothing more, lets what runs come to an end within the grace time, gives the rest
back and leaves.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.client.client import AsyncPenstock
from penstock.errors import HandlerNotFound, InvalidArgument, LeaseLost, StoreUnavailable
from penstock.executors.coroutines import CoroutineExecutor
from penstock.executors.mixed import MixedExecutor
from penstock.executors.processes import ProcessExecutor
from penstock.executors.threads import ThreadExecutor
from penstock.model.workers import HEARTBEAT_MS, LEASE_MS
from penstock.worker.desk_feed import DeskFeed
from penstock.worker.emptiness import wait_until_empty
from penstock.worker.feed import Feed
from penstock.worker.handlers import Handlers, as_handlers
from penstock.worker.job_feed import JobFeed
from penstock.worker.mover import finish_batches
from penstock.worker.order import QueueOrder
from penstock.worker.prefetch import TOO_LONG_S
from penstock.worker.totals import Totals
from penstock.worker.wakeup import listen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.client.functions import JobFunction
    from penstock.client.session import AsyncWorkerSession
    from penstock.connection.settings import Settings
    from penstock.worker.handlers import Function, Handler, Served

log = logging.getLogger("penstock.worker")

_LOOK_EVERY_S = 10.0
_LEAVE_S = 5.0


class Worker:
    """Serves queues, up to `concurrency` tasks or jobs at a time. `handlers` are functions marked
    with `@penstock.handler` or `@penstock.job`, and with `@penstock.backoff` those that jobs name;
    or a mapping from queue to function.

    Queues take turns; with `strict` a queue is served only while those before it are empty, with
    `weights` each gets its share of what is started. With `until_empty` the worker ends by itself
    when nothing is left that it could get (see `wait_until_empty`).
    """

    def __init__(
        self,
        settings: Settings,
        handlers: Handlers | Mapping[str, Handler | Function] | Iterable[Served],
        *,
        concurrency: int = 1,
        grace_s: float = 30.0,
        name: str | None = None,
        lease_ms: int = LEASE_MS,
        heartbeat_ms: int = HEARTBEAT_MS,
        modules: list[str] | None = None,
        strict: bool = False,
        weights: Mapping[str, int] | None = None,
        until_empty: bool = False,
    ) -> None:
        if concurrency < 1:
            raise InvalidArgument(f"concurrency is {concurrency}; a worker runs at least 1 task")
        if not 0 < heartbeat_ms < lease_ms:
            raise InvalidArgument(
                f"the heartbeat ({heartbeat_ms} ms) must come more often than the lease ends "
                f"({lease_ms} ms)"
            )
        # The store may be away for as long as it likes; a worker waits for it.
        self._client = AsyncPenstock(replace(settings, retry_for_s=None))
        handlers = as_handlers(handlers)
        self._handlers = handlers
        self._order = QueueOrder(handlers.queues, strict, weights or {})
        self._grace_s = grace_s
        self._ends_when_empty = until_empty
        self._options: dict[str, Any] = {
            "name": name,
            "lease_ms": lease_ms,
            "heartbeat_ms": heartbeat_ms,
            "about": {"queues": handlers.queues, "concurrency": concurrency},
        }
        self._threads = ThreadExecutor(concurrency)
        self._coroutines = CoroutineExecutor(concurrency)
        functions = [f for types in handlers.jobs.values() for f in types.values()]
        self._processes = None
        if any(function.in_process for function in functions):
            _check_importable(functions)
            self._processes = ProcessExecutor(concurrency, modules or _modules_of(functions))
        self._mixed = MixedExecutor(concurrency, self._threads, self._coroutines, self._processes)
        self._feeds: list[Feed] = []
        self._totals = Totals()
        """of feeds that are gone"""
        self._stops = 0
        self._is_abandoned = False
        self._is_registered = False
        self._stall_watch: asyncio.TimerHandle | None = None
        self._giving_back: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._stop_asked = asyncio.Event()
        self.on_registered: Callable[[str], None] = lambda worker: None
        """is told every id under which this worker registers, before it starts anything, and the
        empty one when it has left
        """
        self.on_joined: Callable[[], None] = lambda: None
        """is told when the worker has joined its queues and is about to start something"""
        self.id = ""
        """empty until the worker has joined its queues; one that lost its lease goes on under a
        new id
        """

    @property
    def totals(self) -> Totals:
        """What it has done so far."""
        totals = self._totals
        for feed in self._feeds:
            totals = totals.plus(feed.finished, feed.failed, feed.refused)
        return totals

    async def run(self) -> None:
        """Work until `stop` is called."""
        kinds = {handler.is_async for handler in self._handlers.tasks.values()}
        for types in self._handlers.jobs.values():
            kinds |= {function.is_async for function in types.values()}
        if False in kinds:
            self._threads.start()
        if True in kinds:
            self._coroutines.start()
        if self._processes is not None:
            self._processes.start()
        living = asyncio.create_task(self._keep_living())
        try:
            stop = asyncio.create_task(self._stop_asked.wait())
            await asyncio.wait([living, stop], return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            await self._end(living)
            if not self._is_abandoned:
                await living
        finally:
            self._threads.close()
            self._coroutines.close()
            if self._processes is not None:
                await asyncio.to_thread(self._processes.close)
            await self._client.close()

    def stop(self) -> None:
        """Start nothing more and end when all is done, or after the grace time.

        Called again: end at once.
        """
        self._stops += 1
        self._stop_asked.set()
        self._changed.set()

    async def _keep_living(self) -> None:
        await self._client.open()
        while not self._stops:
            try:
                await self._live()
            except StoreUnavailable as error:
                # Away for so long that nothing of before counts any more: begin anew.
                log.error("the store is away, starting again error=%s", error)

    async def _end(self, living: asyncio.Task[None]) -> None:
        """See to it that the worker ends even if the store does not answer.

        Its lease ends by itself then, and a peer gives its tasks back.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._grace_s + _LEAVE_S
        is_urgent = False
        while not living.done():
            if self._stops > 1 and not is_urgent:
                is_urgent = True
                deadline = min(deadline, clock() + _LEAVE_S)
            left_s = deadline - clock()
            if left_s <= 0 or not self._is_registered:
                log.error("left without a word, the store does not answer id=%s", self.id)
                self._is_abandoned = True
                living.cancel()
                with suppress(asyncio.CancelledError):
                    await living
                return
            await asyncio.wait([living], timeout=min(left_s, 1.0))

    async def _live(self) -> None:
        """One incarnation, from registration to the loss of the lease or a stop."""
        session = self._client.worker(**self._options)
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(self._changed.set)

        def pause(is_paused: bool) -> None:
            loop.call_soon_threadsafe(self._pause, is_paused)

        session.heartbeat.on_lost = tell
        session.heartbeat.on_paused = pause
        session.heartbeat.stuck_slots = lambda: self._threads.stuck
        await session.start()
        self._is_registered = True
        self.on_registered(session.id)
        tasks: list[asyncio.Task[None]] = []
        try:
            queues = self._handlers.queues
            for queue in queues:
                if queue in self._handlers.jobs:
                    await session.start_job_work(queue, list(self._handlers.jobs[queue]))
                else:
                    await session.start_work(queue)
            self.id = session.id
            self.on_joined()
            log.info("worker started id=%s queues=%s", self.id, ",".join(queues))
            if self._handlers.jobs and len(queues) > 1:
                # Whose turn it is among its queues is decided by the worker, when it asks.
                log.info("several queues, so jobs are asked for and none is handed over")
            self._feeds = [self._feed(session, queue) for queue in queues]
            tasks = [asyncio.create_task(feed.serve()) for feed in self._feeds]
            tasks += listen(self._client.store, self._feeds)
            tasks.append(asyncio.create_task(self._look()))
            tasks += [
                asyncio.create_task(finish_batches(self._client.store, feed.keys, feed.kind))
                for feed in self._feeds
            ]
            if self._ends_when_empty:
                tasks.append(asyncio.create_task(self._stop_when_empty()))
            await self._until(lambda: self._stops > 0 or session.lease.is_lost, tasks)
            if not session.lease.is_lost:
                await self._wind_down(session, tasks)
        except LeaseLost:
            session.lease.lose()
        finally:
            for feed in self._feeds:
                feed.close()
            if self._giving_back is not None:
                tasks.append(self._giving_back)
                self._giving_back = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._totals, self._feeds = self.totals, []
            if self._stall_watch is not None:
                self._stall_watch.cancel()
                self._stall_watch = None
            await self._leave(session)
            self._is_registered = False

    async def _wind_down(
        self, session: AsyncWorkerSession, tasks: list[asyncio.Task[None]]
    ) -> None:
        """Let running work end within the grace time; whatever is left then is given back."""
        log.info("worker stopping id=%s running=%d", session.id, self._load())
        for feed in self._feeds:
            await feed.stop_accepting()
        await self._give_back_waiting()
        try:
            async with asyncio.timeout(self._grace_s):
                await self._until(
                    lambda: self._stops > 1 or session.lease.is_lost or self._is_done(), tasks
                )
        except TimeoutError:
            log.warning("grace time is over id=%s running=%d", session.id, self._load())

    async def _leave(self, session: AsyncWorkerSession) -> None:
        if self._is_abandoned:
            await asyncio.to_thread(session.heartbeat.stop)
        elif session.lease.is_lost:
            await asyncio.to_thread(session.heartbeat.stop)
            log.warning("lease lost, starting again under a new name id=%s", session.id)
            # A peer may be about to do the same; doing it twice is harmless, and now is sooner.
            await session.abandon()
        else:
            await session.stop()
            log.info("worker stopped id=%s", session.id)
        self.on_registered("")

    def _feed(self, session: AsyncWorkerSession, queue: str) -> Feed:
        if queue in self._handlers.jobs:
            return self._job_feed(session, queue)
        handler = self._handlers.tasks[queue]
        return Feed(
            session,
            self._client.store,
            self._client.keys.queue(queue),
            handler,
            self._coroutines if handler.is_async else self._threads,
            self._client.settings.max_payload,
            self,
        )

    def _job_feed(self, session: AsyncWorkerSession, queue: str) -> JobFeed:
        functions, backoffs = self._handlers.jobs[queue], self._handlers.backoffs
        served = (session, self._client, self._client.keys.queue(queue), functions, backoffs)
        is_only_one = len(self._handlers.queues) == 1
        if is_only_one and all(function.in_thread for function in functions.values()):
            return DeskFeed(*served, self._threads, self)
        return JobFeed(*served, self._mixed, self, takes_unasked=is_only_one)

    # What the feeds say and ask.

    def changed(self) -> None:
        self._changed.set()

    def tasks_wait(self) -> None:
        """See to it that they do not wait long."""
        if self._stall_watch is None:
            loop = asyncio.get_running_loop()
            self._stall_watch = loop.call_later(TOO_LONG_S, self._check_stall)

    def room_made(self, by: Feed | None = None) -> None:
        for feed in self._feeds:
            if feed is not by:
                feed.nudge()

    def owed(self, feed: Feed) -> int:
        return self._order.owed(feed, self._feeds)

    def work_found(self, feed: Feed) -> None:
        self._order.work_found(feed, self._feeds)

    def _pause(self, is_paused: bool) -> None:
        log.info("worker %s id=%s", "paused" if is_paused else "resumed", self.id)
        for feed in self._feeds:
            feed.pause(is_paused)

    async def _until(self, condition: Callable[[], bool], tasks: list[asyncio.Task[None]]) -> None:
        """Wait for a condition, looked at whenever something changed. A failed task of ours is
        raised here.
        """
        while True:
            self._changed.clear()
            if condition():
                return
            change = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait([change, *tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
            for task in (*tasks, self._giving_back):
                if task is not None and task.done():
                    task.result()

    async def _stop_when_empty(self) -> None:
        await wait_until_empty(self._client, self._handlers, lambda: self._load() == 0)
        log.info("queues are empty id=%s", self.id)
        if not self._stops:
            self.stop()
        await asyncio.Event().wait()  # one of the tasks that end by being cancelled

    async def _look(self) -> None:
        """A wake-up can be lost on its way. This is the most that it costs."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S * random.uniform(0.5, 1.5))
            for feed in self._feeds:
                feed.look_again()

    def _check_stall(self) -> None:
        """Give back what waits behind a task that takes long: another worker could start it now."""
        self._stall_watch = None
        stalled = [feed for feed in self._feeds if feed.is_stalled]
        is_giving_back = self._giving_back is not None and not self._giving_back.done()
        if stalled and not is_giving_back:
            for feed in stalled:
                feed.stalled()
            self._giving_back = asyncio.create_task(self._give_back_waiting())
            self._giving_back.add_done_callback(lambda _: self._changed.set())
        elif self._mixed.waiting:
            self.tasks_wait()
        self._report()

    async def _give_back_waiting(self) -> None:
        async with AsyncExitStack() as pauses:
            for feed in self._feeds:
                await pauses.enter_async_context(feed.between_requests())
            recalled = self._mixed.recall()
            for feed in self._feeds:
                mine = [context for context in recalled if context.origin is feed]
                await feed.give_back(mine)
                if mine:
                    # Where a thread only had no time to begin, there is room here all the same.
                    feed.look()

    def _report(self) -> None:
        """Outcomes are held back while tasks wait whose outcomes could go with them. Called after
        looking whether any still wait, so that none is held back for ever.
        """
        for feed in self._feeds:
            feed.report()

    def _load(self) -> int:
        """Tasks held and not done."""
        return sum(feed.load for feed in self._feeds)

    def _is_done(self) -> bool:
        return all(feed.is_done for feed in self._feeds)


def _check_importable(functions: list[JobFunction[..., Any]]) -> None:
    """Refuse at the start what would fail with every job."""
    for function in functions:
        if function.in_process and function.path.startswith("__main__:"):
            raise HandlerNotFound(
                f"job {function.type!r} is to run in a process of its own, which cannot import it "
                "from the program that was started (__main__); put it into a module with a name, "
                "and import it from there, or leave out process=True"
            )


def _modules_of(functions: list[JobFunction[..., Any]]) -> list[str]:
    """What a child process must import to find the functions that run in one."""
    return sorted({function.path.partition(":")[0] for function in functions})
