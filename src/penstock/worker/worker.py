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
from penstock.worker.group_reading import GroupReading
from penstock.worker.handlers import Handlers, as_handlers
from penstock.worker.hooks import Lifespan
from penstock.worker.log_news import LogNews
from penstock.worker.order import QueueOrder
from penstock.worker.renewal import Renewal
from penstock.worker.serving import Serving
from penstock.worker.source import QueueSource
from penstock.worker.stop_requests import LEAVE_S
from penstock.worker.worker_events import WorkerEvents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.client.session import AsyncWorkerSession
    from penstock.connection.settings import Settings
    from penstock.worker.consumers import Consumer
    from penstock.worker.handlers import Function, Handler, Served
    from penstock.worker.totals import Totals

log = logging.getLogger("penstock.worker")


class Worker:
    """Serves queues, up to `concurrency` tasks or jobs at a time. `handlers` are functions marked
    with `@penstock.handler` or `@penstock.job`, with `@penstock.backoff` those that jobs name, and
    hooks (`@penstock.lifespan`, `@penstock.middleware`); or a mapping from queue to function.

    Queues take turns; with `strict` a queue is served only while those before it are empty, with
    `weights` each gets its share of what is started. With `until_empty` the worker ends by itself
    when nothing is left that it could get (see `wait_until_empty`). It also ends by itself, when
    what it runs has ended, after `max_jobs` tasks, jobs and batches, or with more memory than
    `max_memory` bytes.
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
        self._grace_s = grace_s
        self._ends_when_empty = until_empty
        self._options: dict[str, Any] = {
            "name": name,
            "lease_ms": lease_ms,
            "heartbeat_ms": heartbeat_ms,
            "about": {"queues": handlers.queues, "concurrency": concurrency},
        }
        jobs = [f for types in handlers.jobs.values() for f in types.values()]
        self._executor = MixedExecutor(concurrency, [*jobs, *handlers.consumers], modules)
        order = QueueOrder(handlers.queues, strict, weights or {})
        self._log_news = LogNews()
        self._renewal = Renewal(max_jobs, max_memory)
        self.serving = Serving(self._client, handlers, self._executor, order, self._renewal)
        """what it serves while it lives"""
        self._is_renewed = False
        """it ends so that another can take its place"""
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
        self._stop_asked = asyncio.Event()
        self.events = WorkerEvents()
        self.id = ""
        """empty until the worker has joined its queues; one that lost its lease goes on under a
        new id
        """

    @property
    def totals(self) -> Totals:
        """What it has done so far."""
        return self.serving.totals

    @property
    def is_renewed(self) -> bool:
        """It has ended to be followed by another, and nobody has asked it to stop."""
        return self._is_renewed and not self._stops

    async def run(self) -> None:
        """Work until `stop` is called."""
        self._renewal.check()
        lifespan = Lifespan(self._handlers.hooks.lifespan)
        self.serving.resources = await lifespan.start()
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
        self.serving.is_stopping = True
        self.events.stop_asked(self._stops)
        self._stop_asked.set()
        self.serving.changed()

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
        is_broken, serving = False, self.serving
        session = self._client.worker(**self._options)
        loop = asyncio.get_running_loop()

        def tell() -> None:
            loop.call_soon_threadsafe(serving.changed)

        def pause(is_paused: bool) -> None:
            loop.call_soon_threadsafe(self._pause, is_paused)

        session.heartbeat.on_lost = tell
        session.heartbeat.on_paused = pause
        session.heartbeat.on_renewed = self.events.renewed
        session.heartbeat.news = self.news
        self.events.renewed(lease_clock())
        await session.start()
        self._is_registered = True
        self.events.registered(session.id)
        try:
            queues = await self._join(session)
            self.id = session.id
            self.events.joined()
            logs = dict.fromkeys(consumer.log for consumer in self._handlers.consumers)
            log.info(
                "worker started id=%s namespace=%s queues=%s logs=%s",
                *(self.id, self._client.settings.namespace, ",".join(queues), ",".join(logs)),
            )
            if self._handlers.jobs and len(queues) > 1:
                # Whose turn it is among its queues is decided by the worker, when it asks.
                log.info("several queues, so jobs are asked for and none is handed over")
            self._serve(session, queues)
            await serving.until(
                lambda: self._stops > 0 or session.lease.is_lost or serving.has_done_enough
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
            held = serving.held_jobs()
            await serving.end()
            if is_broken:
                await arun_blocking(session.heartbeat.stop)
            else:
                await self._leave(session, held)
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

    def _serve(self, session: AsyncWorkerSession, queues: list[str]) -> None:
        """Begin with everything that goes on while this incarnation lives."""
        serving = self.serving
        serving.is_paused = lambda: session.heartbeat.is_paused
        serving.serve([serving.queue_pump(session, queue) for queue in queues])
        readings = [self._reading(session, it) for it in self._handlers.consumers]
        beside = [reading.run() for reading in readings]
        beside += [serving.look(), self._renewal.watch(serving.changed)]
        if readings:
            every_s = self._options["heartbeat_ms"] / 1000
            beside.append(self._log_news.keep(readings, every_s))
        if self._ends_when_empty:
            beside.append(self._stop_when_empty())
        serving.tasks += [asyncio.create_task(work) for work in beside]

    async def _end_what_runs(self, session: AsyncWorkerSession) -> None:
        """Take nothing more, and wait for what runs as long as nobody asks to stop: another process
        takes this one's place, and that is to cost no job anything.
        """
        serving = self.serving
        self._is_renewed = serving.is_stopping = True
        log.info("worker makes room for another id=%s running=%d", session.id, serving.load)
        await serving.stop_accepting()
        if self._renewal.is_too_large:
            await serving.stalls.give_back_waiting()
        await serving.until(lambda: self._stops > 0 or session.lease.is_lost or serving.is_done)

    async def _wind_down(self, session: AsyncWorkerSession) -> None:
        """Let running work end within the grace time; whatever is left then is given back."""
        serving = self.serving
        log.info("worker stopping id=%s running=%d", session.id, serving.load)
        await serving.stop_accepting()
        await serving.stalls.give_back_waiting()
        try:
            async with asyncio.timeout(self._grace_s):
                await serving.until(
                    lambda: self._stops > 1 or session.lease.is_lost or serving.is_done
                )
        except TimeoutError:
            log.warning("grace time is over id=%s running=%d", session.id, serving.load)

    async def _leave(self, session: AsyncWorkerSession, held: dict[str, list[int]]) -> None:
        if self._is_abandoned:
            await arun_blocking(session.heartbeat.stop)
        elif session.lease.is_lost:
            await arun_blocking(session.heartbeat.stop)
            log.warning("lease lost, starting again under a new name id=%s", session.id)
            # A peer may be about to do the same; doing it twice is harmless, and now is sooner.
            await session.abandon(held)
        elif self._stops and await self._end_work():
            # The lease is kept until the process is gone.
            log.warning("what still ran is given back when the process is gone id=%s", session.id)
            self.has_given_up = True
            return
        else:
            await session.stop()
            log.info("worker stopped id=%s", session.id)
        self.events.registered("")

    async def _end_work(self) -> bool:
        """End what runs beyond the grace time, as far as that is possible; True if it must not be
        given back yet. A coroutine that was cancelled may have left tasks and threads behind that
        go on, so it counts too.
        """
        is_cut_short = self._executor.is_running
        await self._executor.close()
        return self.owns_process and is_cut_short

    def _reading(self, session: AsyncWorkerSession, consumer: Consumer) -> GroupReading:
        """What reads one log for one group."""
        coordinator = coordinator_for(consumer, self._client)
        about = coordinator, consumer, session.id, session.lease
        return GroupReading(self.serving, self._client, *about, self._log_news.counters)

    def news(self) -> dict[str, object]:
        """What is told about the worker with each beat, if it has changed; in the thread of the
        heartbeat, so that it only picks up what is ready. At first there is nothing to tell.
        """
        stuck = self._executor.threads.stuck
        return {**({"stuck_slots": stuck} if stuck else {}), **self._log_news.ready}

    async def _stop_when_empty(self) -> None:
        serving = self.serving
        queues = [p.source.queue for p in serving.pumps if isinstance(p.source, QueueSource)]
        await wait_until_empty(self._client, self._handlers, queues, lambda: serving.load == 0)
        log.info("queues are empty id=%s", self.id)
        if not self._stops:
            self.stop()
        await asyncio.Event().wait()  # one of the tasks that end by being cancelled

    def _pause(self, is_paused: bool) -> None:
        log.info("worker %s id=%s", "paused" if is_paused else "resumed", self.id)
        self.serving.pause(is_paused)
