"""What a worker serves while it lives: a pump for each queue and partition, and what they share.

Pumps come and go while others go on. They share the slots of one executor: each asks here how much
of the next work is its, and says here when it has made room.
"""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.errors import WrongKind
from penstock.worker.feed import Feed
from penstock.worker.handoff import Handoff
from penstock.worker.mover import finish_batches
from penstock.worker.pump import Pump
from penstock.worker.source import QueueSource
from penstock.worker.sources.jobs import JobSource
from penstock.worker.sources.tasks import TaskSource
from penstock.worker.stalls import StallWatch
from penstock.worker.totals import Totals
from penstock.worker.wakeup import listen

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client.client import AsyncPenstock
    from penstock.client.session import AsyncWorkerSession
    from penstock.executors.mixed import MixedExecutor
    from penstock.worker.handlers import Handlers
    from penstock.worker.order import QueueOrder
    from penstock.worker.pump import Executor
    from penstock.worker.renewal import Renewal
    from penstock.worker.source import Source
    from penstock.worker.sources.logs import LogSource

log = logging.getLogger("penstock.worker")

_LOOK_EVERY_S = 10.0


class Serving:
    """The pumps of one worker, and the background tasks that belong to them."""

    def __init__(
        self,
        client: AsyncPenstock,
        handlers: Handlers,
        executor: MixedExecutor,
        order: QueueOrder,
        renewal: Renewal,
    ) -> None:
        self._client = client
        self._handlers = handlers
        self._executor = executor
        self._order = order
        self._renewal = renewal
        self._gone = Totals()
        """of feeds that are gone"""
        self._changed = asyncio.Event()
        self.pumps: list[Pump] = []
        """one for each queue and each partition that is served"""
        self.tasks: list[asyncio.Task[None]] = []
        """what goes on while the worker lives; a failure of one ends it"""
        self.handoff: Handoff | None = None
        self.stalls = StallWatch(executor, self.pumps, self.changed)
        self.resources: Any = None
        """what the lifespan hook has yielded"""
        self.is_paused: Callable[[], bool] = lambda: False
        self.is_stopping = False
        """nothing more is to begin"""

    @property
    def totals(self) -> Totals:
        """What was done so far."""
        totals = self._gone
        for pump in self.pumps:
            totals = totals.plus(*pump.feed.totals)
        return totals

    @property
    def load(self) -> int:
        """Work that is held and not done."""
        return sum(pump.feed.load for pump in self.pumps)

    @property
    def is_done(self) -> bool:
        return all(pump.feed.is_done for pump in self.pumps)

    @property
    def has_done_enough(self) -> bool:
        """The worker is to make room for another."""
        renewal = self._renewal
        is_asking = any(not pump.feed.is_between_requests for pump in self.pumps)
        return renewal.is_too_large or (renewal.budget.is_spent and not is_asking)

    # Pumps that come and go.

    def queue_pump(self, session: AsyncWorkerSession, queue: str) -> Pump:
        """What serves one queue."""
        keys, max_payload = self._client.keys.queue(queue), self._client.settings.max_payload
        about = keys, session.id, session.lease
        functions = self._handlers.jobs.get(queue)
        if functions is None:
            handler = self._handlers.tasks[queue]
            executor = self._executor.coroutines if handler.is_async else self._executor.threads
            waits = handler.backoff, self._handlers.backoffs
            handle = self._handlers.hooks.around(handler.function, handler.is_async)
            return self._driven(TaskSource(*about, handle, max_payload, *waits), executor)
        # What is handed over could be more than the worker may still do.
        is_only_one = len(self._handlers.queues) == 1 and not self._renewal.is_by_count
        is_handed_over = is_only_one and all(function.in_thread for function in functions.values())
        runs_in = self._executor.threads if is_handed_over else self._executor
        jobs = JobSource(
            *(*about, functions, self._handlers.backoffs, max_payload, runs_in.cancel),
            takes_pushed=is_only_one,
        )
        jobs.handle = self._handlers.hooks.around(jobs.handle, None)
        pump = self._driven(jobs, runs_in)
        if is_handed_over:
            settings = replace(self._client.settings, dialect=self._client.store.dialect)
            self.handoff = Handoff(pump, jobs, settings, self._executor.threads, self.tasks_wait)
        return pump

    def partition_pump(self, source: LogSource) -> Pump:
        """What serves a partition of a log."""
        source.resources = self.resources
        executor = self._executor.part_for(source.runs)
        source.end = executor.cancel
        feed = Feed(
            *(source, executor),
            is_paused=self.is_paused(),
            prefetches=False,
            budget=self._renewal.budget,
        )
        return Pump(feed, self._client, executor, self)

    def serve(self, pumps: list[Pump]) -> list[asyncio.Task[None]]:
        """Begin to serve these; others may be served already. Returns what goes on then."""
        store = self._client.store
        tasks = listen(store, pumps) if pumps else []
        for pump in pumps:
            tasks.append(asyncio.create_task(self._drive(pump)))
            if isinstance(pump.source, QueueSource):
                batches = finish_batches(store, pump.source.keys, pump.source.kind)
                tasks.append(asyncio.create_task(batches))
        self.pumps += pumps
        self.tasks += tasks
        self.changed()
        return tasks

    async def withdraw(self, pumps: list[Pump], tasks: list[asyncio.Task[None]]) -> None:
        """Cease to serve these while others go on: what runs of them ends first."""
        for pump in pumps:
            await pump.stop_accepting()
            await pump.drained()
        await self.drop(pumps, tasks)

    async def drop(self, pumps: list[Pump], tasks: list[asyncio.Task[None]]) -> None:
        """The same at once: whatever comes of what runs is dropped. Again is harmless."""
        for pump in pumps:
            self._close(pump)
        for task in tasks:
            if task in self.tasks:
                self.tasks.remove(task)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def stop_accepting(self) -> None:
        """Take nothing more; what runs goes on."""
        for pump in list(self.pumps):
            await pump.stop_accepting()

    def held_jobs(self) -> dict[str, list[int]]:
        """The jobs that this worker holds, as far as it knows, by queue."""
        return {
            pump.source.queue: pump.source.ids_of(pump.feed.contexts)
            for pump in self.pumps
            if isinstance(pump.source, JobSource)
        }

    async def end(self) -> None:
        """Serve nothing any more."""
        if self.handoff is not None:
            self.handoff.dismiss()
            self.handoff = None
        for pump in self.pumps:
            pump.close()
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.stalls.close()
        self._gone = self.totals
        self.pumps.clear()

    # What goes on meanwhile.

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition, looked at whenever something changed. A failed task of ours is
        raised here.
        """
        while True:
            self._changed.clear()
            if condition():
                return
            change = asyncio.create_task(self._changed.wait())
            try:
                await asyncio.wait([change, *self.tasks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
            for task in self.tasks:
                if task.done():
                    task.result()
            self.stalls.check()

    async def look(self) -> None:
        """A wake-up can be lost on its way. This is the most that it costs."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S * random.uniform(0.5, 1.5))
            for pump in self.pumps:
                pump.look_again()

    def pause(self, is_paused: bool) -> None:
        for pump in self.pumps:
            pump.pause(is_paused)

    # What the pumps say and ask.

    def changed(self) -> None:
        self._changed.set()

    def tasks_wait(self) -> None:
        """See to it that they do not wait long."""
        self.stalls.watch()

    def room_made(self, by: Pump | None = None) -> None:
        if self._renewal.budget.is_spent:
            self.changed()
        for pump in self.pumps:
            if pump is not by and pump.feed.wants_work:
                pump.happen(pump.feed.room_made)

    def owed(self, feed: Feed) -> int:
        return self._order.owed(feed, [pump.feed for pump in self.pumps])

    def work_found(self, feed: Feed) -> None:
        self._order.work_found(feed, [pump.feed for pump in self.pumps])

    def _driven(self, source: Source, executor: Executor) -> Pump:
        source.resources = self.resources
        feed = Feed(source, executor, is_paused=self.is_paused(), budget=self._renewal.budget)
        return Pump(feed, self._client, executor, self)

    async def _drive(self, pump: Pump) -> None:
        """Serve one queue. If it was deleted and holds something else now, the others go on."""
        try:
            await pump.serve()
        except WrongKind as error:
            if len(self.pumps) == 1:
                raise
            log.error("queue is not served any more: %s", error)
            self._close(pump)  # it holds nothing: a queue is gone only when nothing of it runs
            await asyncio.Event().wait()  # one of the tasks that end by being cancelled

    def _close(self, pump: Pump) -> None:
        pump.close()
        if pump in self.pumps:
            self.pumps.remove(pump)
            self._gone = self._gone.plus(*pump.feed.totals)
