"""A worker: the story of its life.

It registers, joins its queues, and waits to be woken. Each queue has a feed, which a pump drives;
handlers run in an executor, and a thread of its own renews the lease. When the lease is lost, the
worker tells its handlers, drops their results, and starts again under a new name. When it is asked
to stop, it starts nothing more, lets what runs come to an end within the grace time, gives the rest
back and leaves.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.client.client import AsyncPenstock
from penstock.connection.transport import arun_blocking
from penstock.errors import InvalidArgument, LeaseLost, StoreUnavailable, WrongKind
from penstock.executors.mixed import MixedExecutor
from penstock.model.workers import HEARTBEAT_MS, LEASE_MS, lease_clock
from penstock.worker.coordinators import coordinator_for
from penstock.worker.emptiness import wait_until_empty
from penstock.worker.feed import Feed
from penstock.worker.group_reading import GroupReading
from penstock.worker.handlers import Handlers, as_handlers
from penstock.worker.handoff import Handoff
from penstock.worker.hooks import Lifespan
from penstock.worker.log_counters import LogCounters
from penstock.worker.mover import finish_batches
from penstock.worker.order import QueueOrder
from penstock.worker.pump import Pump
from penstock.worker.renewal import Renewal
from penstock.worker.source import QueueSource
from penstock.worker.sources.jobs import JobSource
from penstock.worker.sources.tasks import TaskSource
from penstock.worker.stalls import StallWatch
from penstock.worker.stop_requests import LEAVE_S
from penstock.worker.totals import Totals
from penstock.worker.wakeup import listen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.client.session import AsyncWorkerSession
    from penstock.connection.settings import Settings
    from penstock.worker.consumers import Consumer
    from penstock.worker.handlers import Function, Handler, Served
    from penstock.worker.pump import Executor
    from penstock.worker.source import Source

log = logging.getLogger("penstock.worker")

_LOOK_EVERY_S = 10.0
_PARTITIONS_TOLD = 50
"""of how many partitions a worker tells the state with its heartbeat"""


class Worker:
    """Serves queues, up to `concurrency` tasks or jobs at a time. `handlers` are functions marked
    with `@penstock.handler` or `@penstock.job`, with `@penstock.backoff` those that jobs name, and
    hooks (`@penstock.lifespan`, `@penstock.middleware`); or a mapping from queue to function.

    Queues take turns; with `strict` a queue is served only while those before it are empty, with
    `weights` each gets its share of what is started. With `until_empty` the worker ends by itself
    when nothing is left that it could get (see `wait_until_empty`). It also ends by itself, when
    what it runs has ended, after `max_jobs` tasks and jobs, or with more memory than `max_memory`
    bytes.
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
        max_jobs: int | None = None,
        max_memory: int | None = None,
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
        functions = [f for types in handlers.jobs.values() for f in types.values()]
        self._executor = MixedExecutor(concurrency, functions, modules)
        self._pumps: list[Pump] = []
        """one for each queue that it serves"""
        self._readings: list[GroupReading] = []
        self._log_counters = LogCounters()
        self._log_news: dict[str, object] = {}
        """what the next beat tells of the logs that it reads"""
        self._handoff: Handoff | None = None
        self._tasks: list[asyncio.Task[None]] = []
        """what goes on while it lives; a failure of one ends it"""
        self._totals = Totals()
        """of feeds that are gone"""
        self._renewal = Renewal(max_jobs, max_memory)
        self._is_renewed = False
        """it ends so that another can take its place"""
        self._resources: Any = None
        """what the lifespan hook has yielded"""
        self._stops = 0
        self._is_abandoned = False
        self._is_registered = False
        self.owns_loop = False
        """nobody but a job of it can cancel it there; such an end is not told by the worker itself,
        as it counts as a crash of what it held
        """
        self.owns_process = False
        """the process ends with the worker: what runs beyond the grace time is not given back by
        the worker itself, but when the process is gone
        """
        self.has_given_up = False
        """it has ended without leaving, as something ran beyond the grace time"""
        self.unended: list[str] = []
        """what still runs, though the worker has ended"""
        self._is_paused: Callable[[], bool] = lambda: False
        self._stalls = StallWatch(self._executor, self._pumps, self.changed)
        self._changed = asyncio.Event()
        self._stop_asked = asyncio.Event()
        self.on_registered: Callable[[str], None] = lambda worker: None
        """is told every id under which this worker registers, before it starts anything, and the
        empty one when it has left
        """
        self.on_renewed: Callable[[float], None] = lambda at: None
        """is told of every beat, at which time of the clock of leases; in the heartbeat's thread"""
        self.on_joined: Callable[[], None] = lambda: None
        """is told when the worker has joined its queues and is about to start something"""
        self.on_stop: Callable[[int], None] = lambda times: None
        """is told how often the worker was asked to stop, each time that it is"""
        self.id = ""
        """empty until the worker has joined its queues; one that lost its lease goes on under a
        new id
        """

    @property
    def totals(self) -> Totals:
        """What it has done so far."""
        totals = self._totals
        for pump in self._pumps:
            totals = totals.plus(*pump.feed.totals)
        return totals

    @property
    def is_renewed(self) -> bool:
        """It has ended to be followed by another, and nobody has asked it to stop."""
        return self._is_renewed and not self._stops

    async def run(self) -> None:
        """Work until `stop` is called."""
        self._renewal.check()
        lifespan = Lifespan(self._handlers.hooks.lifespan)
        self._resources = await lifespan.start()
        try:
            await self._run()
        finally:
            await lifespan.end()

    async def _run(self) -> None:
        kinds = {handler.is_async for handler in self._handlers.tasks.values()}
        for types in self._handlers.jobs.values():
            kinds |= {function.is_async for function in types.values()}
        kinds |= {consumer.is_async for consumer in self._handlers.consumers}
        self._executor.start(has_functions=False in kinds, has_coroutines=True in kinds)
        if False in kinds and (names := self._handlers.hooks.names_of_async):
            log.warning(
                "async middleware is not run around plain functions middleware=%s",
                ",".join(names),
            )
        living = asyncio.create_task(self._keep_living())
        try:
            stop = asyncio.create_task(self._stop_asked.wait())
            await asyncio.wait([living, stop], return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            await self._end(living)
            if not self._is_abandoned:
                await living
        finally:
            await self._executor.close()
            self.unended = sorted(map(str, self._executor.running))
            await self._client.close()

    def stop(self) -> None:
        """Start nothing more and end when all is done, or after the grace time.

        Called again: end at once.
        """
        self._stops += 1
        self.on_stop(self._stops)
        self._stop_asked.set()
        self._changed.set()

    async def _keep_living(self) -> None:
        await self._client.open()
        while not self._stops and not self._is_renewed:
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
        deadline = clock() + self._grace_s + LEAVE_S
        is_urgent = False
        while not living.done():
            if self._stops > 1 and not is_urgent:
                is_urgent = True
                deadline = min(deadline, clock() + LEAVE_S)
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
        is_broken = False
        session = self._client.worker(**self._options)
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(self._changed.set)

        def pause(is_paused: bool) -> None:
            loop.call_soon_threadsafe(self._pause, is_paused)

        session.heartbeat.on_lost = tell
        session.heartbeat.on_paused = pause
        session.heartbeat.on_renewed = self.on_renewed
        session.heartbeat.news = self._news
        self.on_renewed(lease_clock())
        await session.start()
        self._is_registered = True
        self.on_registered(session.id)
        try:
            queues = await self._join(session)
            self.id = session.id
            self.on_joined()
            log.info(
                "worker started id=%s namespace=%s queues=%s",
                *(self.id, self._client.settings.namespace, ",".join(queues)),
            )
            if self._handlers.jobs and len(queues) > 1:
                # Whose turn it is among its queues is decided by the worker, when it asks.
                log.info("several queues, so jobs are asked for and none is handed over")
            self.serve([self._pump(session, queue) for queue in queues])
            self._is_paused = lambda: session.heartbeat.is_paused
            self._readings = [self._reading(session, one) for one in self._handlers.consumers]
            self._tasks += [asyncio.create_task(reading.run()) for reading in self._readings]
            if self._readings:
                self._tasks.append(asyncio.create_task(self._tell_of_logs()))
            self._tasks.append(asyncio.create_task(self._look()))
            self._tasks.append(asyncio.create_task(self._renewal.watch(self.changed)))
            if self._ends_when_empty:
                self._tasks.append(asyncio.create_task(self._stop_when_empty()))
            await self._until(
                lambda: self._stops > 0 or session.lease.is_lost or self._has_done_enough()
            )
            if not self._stops and not session.lease.is_lost:
                await self._end_what_runs(session)
            if self._stops and not session.lease.is_lost:
                await self._wind_down(session)
        except LeaseLost:
            session.lease.lose()
        except asyncio.CancelledError:
            is_broken = self.owns_loop and not self._is_abandoned
            raise
        finally:
            await self._end_pumps()
            if is_broken:
                await arun_blocking(session.heartbeat.stop)
            else:
                await self._leave(session)
            self._is_registered = False

    async def _join(self, session: AsyncWorkerSession) -> list[str]:
        """Start work on the queues; returns those that it can serve. One that holds something else
        is left out, as it must not keep the worker from the others.

        Raises WrongKind if no queue is left.
        """
        joined: list[str] = []
        mistake: WrongKind | None = None
        for queue in self._handlers.queues:
            try:
                if queue in self._handlers.jobs:
                    await session.start_job_work(queue, list(self._handlers.jobs[queue]))
                else:
                    await session.start_work(queue)
            except WrongKind as error:
                log.error("queue is not served: %s", error)
                mistake = error
            else:
                joined.append(queue)
        if mistake is not None and not joined:
            raise mistake
        return joined

    def serve(self, pumps: list[Pump]) -> list[asyncio.Task[None]]:
        """Begin to serve these queues; others may be served already. Returns what goes on then."""
        store = self._client.store
        tasks = listen(store, pumps) if pumps else []
        for pump in pumps:
            tasks.append(asyncio.create_task(self._drive(pump)))
            if isinstance(pump.source, QueueSource):
                batches = finish_batches(store, pump.source.keys, pump.source.kind)
                tasks.append(asyncio.create_task(batches))
        self._pumps += pumps
        self._tasks += tasks
        self._changed.set()
        return tasks

    async def _drive(self, pump: Pump) -> None:
        """Serve one queue. If it was deleted and holds something else now, the others go on."""
        try:
            await pump.serve()
        except WrongKind as error:
            if len(self._pumps) == 1:
                raise
            log.error("queue is not served any more: %s", error)
            pump.close()  # it holds nothing: a queue is gone only when nothing of it runs
            self._pumps.remove(pump)
            self._totals = self._totals.plus(*pump.feed.totals)
            await asyncio.Event().wait()  # one of the tasks that end by being cancelled

    async def withdraw(self, pumps: list[Pump], tasks: list[asyncio.Task[None]]) -> None:
        """Cease to serve these queues while others go on: what runs of them ends first."""
        for pump in pumps:
            await pump.stop_accepting()
            await pump.drained()
        await self.drop(pumps, tasks)

    async def drop(self, pumps: list[Pump], tasks: list[asyncio.Task[None]]) -> None:
        """The same at once: whatever comes of what runs is dropped. Again is harmless."""
        for pump in pumps:
            pump.close()
            if pump in self._pumps:
                self._pumps.remove(pump)
                self._totals = self._totals.plus(*pump.feed.totals)
        for task in tasks:
            if task in self._tasks:
                self._tasks.remove(task)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _end_pumps(self) -> None:
        if self._handoff is not None:
            self._handoff.dismiss()
            self._handoff = None
        for pump in self._pumps:
            pump.close()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stalls.close()
        self._totals = self.totals
        self._pumps.clear()

    def _has_done_enough(self) -> bool:
        renewal = self._renewal
        is_asking = any(not pump.feed.is_between_requests for pump in self._pumps)
        return renewal.is_too_large or (renewal.budget.is_spent and not is_asking)

    async def _end_what_runs(self, session: AsyncWorkerSession) -> None:
        """Take nothing more, and wait for what runs as long as nobody asks to stop: another process
        takes this one's place, and that is to cost no job anything.
        """
        self._is_renewed = True
        log.info("worker makes room for another id=%s running=%d", session.id, self._load())
        for pump in list(self._pumps):
            await pump.stop_accepting()
        if self._renewal.is_too_large:
            await self._stalls.give_back_waiting()
        await self._until(lambda: self._stops > 0 or session.lease.is_lost or self._is_done())

    async def _wind_down(self, session: AsyncWorkerSession) -> None:
        """Let running work end within the grace time; whatever is left then is given back."""
        log.info("worker stopping id=%s running=%d", session.id, self._load())
        for pump in list(self._pumps):
            await pump.stop_accepting()
        await self._stalls.give_back_waiting()
        try:
            async with asyncio.timeout(self._grace_s):
                await self._until(
                    lambda: self._stops > 1 or session.lease.is_lost or self._is_done()
                )
        except TimeoutError:
            log.warning("grace time is over id=%s running=%d", session.id, self._load())

    async def _leave(self, session: AsyncWorkerSession) -> None:
        if self._is_abandoned:
            await arun_blocking(session.heartbeat.stop)
        elif session.lease.is_lost:
            await arun_blocking(session.heartbeat.stop)
            log.warning("lease lost, starting again under a new name id=%s", session.id)
            # A peer may be about to do the same; doing it twice is harmless, and now is sooner.
            await session.abandon()
        elif self._stops and await self._end_work():
            # The lease is kept until the process is gone.
            log.warning("what still ran is given back when the process is gone id=%s", session.id)
            self.has_given_up = True
            return
        else:
            await session.stop()
            log.info("worker stopped id=%s", session.id)
        self.on_registered("")

    async def _end_work(self) -> bool:
        """End what runs beyond the grace time, as far as that is possible; True if it must not be
        given back yet. A coroutine that was cancelled may have left tasks and threads behind that
        go on, so it counts too.
        """
        is_cut_short = self._executor.is_running
        await self._executor.close()
        return self.owns_process and is_cut_short

    def _pump(self, session: AsyncWorkerSession, queue: str) -> Pump:
        """What serves one queue."""
        keys, max_payload = self._client.keys.queue(queue), self._client.settings.max_payload
        about = keys, session.id, session.lease
        functions = self._handlers.jobs.get(queue)
        if functions is None:
            handler = self._handlers.tasks[queue]
            executor = self._executor.coroutines if handler.is_async else self._executor.threads
            waits = handler.backoff, self._handlers.backoffs
            handle = self._handlers.hooks.around(handler.function, handler.is_async)
            tasks = TaskSource(*about, handle, max_payload, *waits)
            return self._driven(session, tasks, executor)
        # What is handed over could be more than the worker may still do.
        is_only_one = len(self._handlers.queues) == 1 and not self._renewal.is_by_count
        is_handed_over = is_only_one and all(function.in_thread for function in functions.values())
        runs_in = self._executor.threads if is_handed_over else self._executor
        jobs = JobSource(
            *(*about, functions, self._handlers.backoffs, max_payload, runs_in.cancel),
            takes_pushed=is_only_one,
        )
        jobs.handle = self._handlers.hooks.around(jobs.handle, None)
        pump = self._driven(session, jobs, runs_in)
        if is_handed_over:
            settings = replace(self._client.settings, dialect=self._client.store.dialect)
            threads = self._executor.threads
            self._handoff = Handoff(pump, jobs, settings, threads, self.tasks_wait)
        return pump

    def _reading(self, session: AsyncWorkerSession, consumer: Consumer) -> GroupReading:
        """What reads one log for one group."""
        coordinator = coordinator_for(consumer, self._client)
        about = coordinator, consumer, session.id, session.lease
        return GroupReading(self, self._client, *about, self._log_counters)

    def _news(self) -> dict[str, object]:
        """What is told about the worker with each beat, if it has changed; in the thread of the
        heartbeat, so that it only picks up what is ready.
        """
        return {"stuck_slots": self._executor.threads.stuck, **self._log_news}

    async def _tell_of_logs(self) -> None:
        """Make ready what the next beat tells of logs."""
        while True:
            owned = [one for reading in self._readings for one in reading.describe()]
            self._log_news = {
                "logs": self._log_counters.document(),
                "partitions": owned[:_PARTITIONS_TOLD],
                "partitions_owned": len(owned),
            }
            await asyncio.sleep(self._options["heartbeat_ms"] / 1000)

    @property
    def is_stopping(self) -> bool:
        """It is to begin nothing more."""
        return self._stops > 0 or self._is_renewed

    def drive(self, source: Source, is_async: bool) -> Pump:
        """What serves a partition."""
        source.resources = self._resources
        executor = self._executor.coroutines if is_async else self._executor.threads
        feed = Feed(source, executor, is_paused=self._is_paused(), prefetches=False)
        return Pump(feed, self._client, executor, self)

    def _driven(self, session: AsyncWorkerSession, source: Source, executor: Executor) -> Pump:
        source.resources = self._resources
        is_paused, budget = session.heartbeat.is_paused, self._renewal.budget
        feed = Feed(source, executor, is_paused=is_paused, budget=budget)
        return Pump(feed, self._client, executor, self)

    # What the pumps say and ask.

    def changed(self) -> None:
        self._changed.set()

    def tasks_wait(self) -> None:
        """See to it that they do not wait long."""
        self._stalls.watch()

    def room_made(self, by: Pump | None = None) -> None:
        if self._renewal.budget.is_spent:
            self.changed()
        for pump in self._pumps:
            if pump is not by and pump.feed.wants_work:
                pump.happen(pump.feed.room_made)

    def owed(self, feed: Feed) -> int:
        return self._order.owed(feed, [pump.feed for pump in self._pumps])

    def work_found(self, feed: Feed) -> None:
        self._order.work_found(feed, [pump.feed for pump in self._pumps])

    def _pause(self, is_paused: bool) -> None:
        log.info("worker %s id=%s", "paused" if is_paused else "resumed", self.id)
        for pump in self._pumps:
            pump.pause(is_paused)

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, looked at whenever something changed. A failed task of ours is
        raised here.
        """
        while True:
            self._changed.clear()
            if condition():
                return
            change = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait([change, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
            for task in self._tasks:
                if task.done():
                    task.result()
            self._stalls.check()

    async def _stop_when_empty(self) -> None:
        queues = [p.source.queue for p in self._pumps if isinstance(p.source, QueueSource)]
        await wait_until_empty(self._client, self._handlers, queues, lambda: self._load() == 0)
        log.info("queues are empty id=%s", self.id)
        if not self._stops:
            self.stop()
        await asyncio.Event().wait()  # one of the tasks that end by being cancelled

    async def _look(self) -> None:
        """A wake-up can be lost on its way. This is the most that it costs."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S * random.uniform(0.5, 1.5))
            for pump in self._pumps:
                pump.look_again()

    def _load(self) -> int:
        """Tasks held and not done."""
        return sum(pump.feed.load for pump in self._pumps)

    def _is_done(self) -> bool:
        return all(pump.feed.is_done for pump in self._pumps)
