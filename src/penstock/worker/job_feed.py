"""One queue of jobs, as a worker serves it."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any, Protocol

from penstock.client.functions import run_job
from penstock.codec.handed_out import open_handed_over
from penstock.connection.wire import join_packed, pack_ahead
from penstock.executors.job_context import JobContext
from penstock.model.jobs import Report
from penstock.model.queues import MAX_HELD
from penstock.store.commands import jobs
from penstock.worker.feed import Executor, Feed
from penstock.worker.handlers import Handler
from penstock.worker.schedules import fire_schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.client.client import AsyncPenstock
    from penstock.client.functions import JobFunction
    from penstock.client.session import AsyncWorkerSession
    from penstock.executors.context import Context
    from penstock.model.jobs import HandedOut, JobClaim
    from penstock.model.queues import Side
    from penstock.store.keys import QueueKeys
    from penstock.worker.feed import WorkerHooks

log = logging.getLogger("penstock.worker")

_NOTE_EVERY_S = 0.05
_FIRE_AGAIN_S = 1.0
_NUDGE_S = 0.002
_AT_ONCE = 100
_FAILURES = ("failed", "final", "crashed")


class JobExecutor(Executor, Protocol):
    """Where jobs run."""

    def cancel(self, context: JobContext) -> None:
        """Tell the job, and end it where it can be ended."""


class JobFeed(Feed):
    """As a feed of plain tasks; but outcomes say more, jobs can be cancelled one by one, and what
    falls due is seen to.
    """

    kind = "jobs"
    at_once = _AT_ONCE

    def __init__(
        self,
        session: AsyncWorkerSession,
        client: AsyncPenstock,
        keys: QueueKeys,
        functions: Mapping[str, JobFunction[..., Any]],
        backoffs: Mapping[str, Callable[[int], float]],
        executor: JobExecutor,
        hooks: WorkerHooks,
        *,
        takes_unasked: bool,
    ) -> None:
        super().__init__(
            session,
            client.store,
            keys,
            Handler(run_job, False),
            executor,
            client.settings.max_payload,
            hooks,
        )
        self.backoffs = backoffs
        self._client = client
        self._functions = functions
        self._cancel = executor.cancel
        self._alarm: asyncio.TimerHandle | None = None
        self._noted: dict[JobContext, None] = {}
        self._note_timer: asyncio.TimerHandle | None = None
        self._noting: dict[JobContext, asyncio.Lock] = {}
        """jobs that have said something; one note of each is under way at a time"""
        self._background: set[asyncio.Task[None]] = set()
        self._takes_unasked = takes_unasked
        """where several queues share the slots, whose turn it is decides which is asked"""
        self._offer = 0
        """how many jobs the store may hand over unasked, as far as is known here"""
        self._offered = 0
        """how many it was asked to, at most, with the last request"""
        self._must_review = False
        self._taking = threading.Lock()
        self._past: dict[int, None] = {}
        """processes that are held no more, or were found by looking: should a message about one of
        them come late, it is nothing new
        """
        self._to_cancel: dict[int, None] = {}
        """processes that were cancelled, perhaps before it was known here that they are ours"""
        self.channels = {
            (keys.wake + self.worker).encode(): self.woken,
            keys.cancel_job.encode(): self.cancel_job,
        }
        self._hand = (keys.hand + self.worker).encode()
        """the channel on which the store hands over jobs"""
        if takes_unasked:
            self.channels[self._hand] = self.handed

    # From the executor, in whatever thread it runs.

    def done(self, context: Context) -> None:
        # Packed here: whoever sends reports is waited for by the store, and the next jobs with it.
        assert isinstance(context, JobContext)
        context.packed = pack_ahead(list(context.to_report()))
        super().done(context)

    def noted(self, context: JobContext) -> None:
        self._tell(lambda: self._note_soon(context))

    # From the worker, on its event loop.

    def handed(self, message: bytes) -> None:
        """Here is a job."""
        try:
            job = open_handed_over(message)
        except Exception as error:
            self._not_understood(error)
        else:
            self._take(job)

    def look_again(self) -> None:
        self._must_review = self._takes_unasked
        super().look_again()

    def cancel_job(self, message: bytes) -> None:
        """A job is to end; all workers hear of it."""
        worker, _, process = message.decode().partition(" ")
        if worker == self.worker:
            # First, as whoever takes a job looks for it here when it is held.
            _remember(self._to_cancel, [int(process)])
            self._cancel_process(int(process))

    def _cancel_early(self, contexts: list[Context]) -> None:
        for context in contexts:
            if context.token in self._to_cancel:
                self._cancel_process(context.token)

    def resubscribed(self) -> None:
        """Whatever was said before is missed: look for work, and for what was cancelled."""
        self.look_again()
        self._run_in_background(self._find_cancelled())

    async def give_back(self, contexts: list[Context]) -> None:
        _remember(self._past, [context.token for context in contexts])
        await super().give_back(contexts)

    def close(self) -> None:
        if self.lease.is_lost:
            # A child process cannot see the lease; its job is somebody else's by now.
            for context in list(self.held.values()):
                if isinstance(context, JobContext) and context.function.in_process:
                    self._cancel(context)
        super().close()
        for timer in (self._alarm, self._note_timer):
            if timer is not None:
                timer.cancel()
        for task in self._background:
            task.cancel()

    def _cancel_process(self, process: int) -> None:
        context = self.held.get(process)
        if isinstance(context, JobContext) and not context.is_cancel_asked:
            self._cancel(context)

    async def _find_cancelled(self) -> None:
        for process in await self._store.run(jobs.find_cancelled(self.keys, self.worker)):
            _remember(self._to_cancel, [process])
            self._cancel_process(process)

    def _take(self, job: HandedOut, is_missed: bool = False) -> bool:
        """Begin a job that was handed over, unless it is known already."""
        context = self._hold(job, is_missed)
        if context is None:
            return False
        if not self.is_accepting:
            self._run_in_background(self.give_back([context]))
            return True
        if self._use_offer():
            self._nudge_soon()
        self._start([context])
        return True

    def _hold(self, job: HandedOut, is_missed: bool = False) -> JobContext | None:
        """A job that was handed over, from now on in our hands; None if it is known already. The
        message about it may come to one thread while another finds that it was missed.
        """
        if self.is_closed or self.lease.is_lost:
            return None  # whoever takes over from this worker gives it back
        context = JobContext(self, job, self._functions[job.type])
        with self._taking:
            if job.process in self.held or job.process in self._past:
                return None
            self.held[job.process] = context
            if is_missed:
                _remember(self._past, [job.process])
        if job.process in self._to_cancel:
            self._cancel_process(job.process)
        return context

    def _not_understood(self, error: Exception) -> None:
        """There is no job in a message; it can still be about one that is to be found."""
        log.warning("a message makes no sense queue=%s error=%r", self.queue, error)
        self._tell(self.look_again)

    def _use_offer(self) -> bool:
        """Whether the store does not count on this worker any more."""
        self._offer -= 1
        if self._offer <= 0:
            self._is_waiting = False
        return self._offer <= 0

    def _check_offer(self) -> None:
        """Whether the store still counts on this worker, as it does according to its answer: it may
        have handed it a job before that came. Whoever takes one writes `_is_waiting` last; so it is
        written before this, and `_offer` is read after it.
        """
        if self._offer < self._offered:
            self._is_waiting = False
            self._tell(self._nudge_soon)

    def _nudge_soon(self) -> None:
        """There may be room for more here; but what it was handed may be done, and be reported,
        before it is worth a request.
        """
        self._loop.call_later(_NUDGE_S, self.nudge)

    async def _exchange(self) -> None:
        # Here, where no request is under way whose answer would bring what seems to be missed.
        if self._must_review and not self.is_closed:
            self._must_review = False
            await self._review()
        await super()._exchange()

    async def _review(self) -> None:
        """Look for jobs that were handed over by a message that did not come."""
        known = list(self.held)
        handed = await self._store.run(jobs.find_handed(self.keys, self.worker, known))
        missed = [job.process for job in handed if self._take(job, is_missed=True)]
        if missed:
            log.warning("found jobs that were missed queue=%s count=%d", self.queue, len(missed))
            self._run_in_background(self._find_cancelled())

    async def _pass_work(self) -> None:
        is_busy = self.is_accepting and not self.is_paused
        wait_ms, schedules = await self._store.run(jobs.pass_jobs(self.keys, self.worker, is_busy))
        self._set_alarm(wait_ms)
        if schedules:
            self._run_in_background(self._fire(schedules))

    async def _report_apart(self, outcomes: list[Context]) -> list[Context]:
        """Everything can be said together with the next claim; only notes must go before it."""
        for context in outcomes:
            if isinstance(context, JobContext) and (
                context.lines or context.new_progress or context in self._noting
            ):
                await self._note(context)
        return outcomes

    async def _claim(self, finished: list[Context], limit: int) -> JobClaim:  # type: ignore[override]
        # One, and none while something runs: a job can keep the loop, or all threads, from moving,
        # and what is handed over then would wait although others have time.
        is_idle = self.load == 0 and self._coming == 0 and self.executor.load == 0
        self._offered = self._offer = int(self._takes_unasked and is_idle and limit > 0)
        if not finished:
            return await self._store.run_once(
                lambda o: jobs.start_jobs(
                    self.keys, o, self.worker, limit, wait=True, offer=self._offer
                )
            )
        reports = join_packed([context.packed for context in finished])  # type: ignore[attr-defined]
        return await self._store.run_once(
            lambda o: jobs.report_jobs(
                self.keys, o, self.worker, reports, limit, wait=limit > 0, offer=self._offer
            )
        )

    def _count(self, reported: list[Context], refused: list[int]) -> None:
        if refused:
            reported = [context for context in reported if context.token not in refused]
        for context in reported:
            if context.outcome == "done":
                self.finished += 1
            elif context.outcome in _FAILURES:
                self.failed += 1

    def _contexts(self, claim: JobClaim) -> list[Context]:  # type: ignore[override]
        return [JobContext(self, job, self._functions[job.type]) for job in claim.jobs]

    async def _begin(self, claim: JobClaim, limit: int) -> None:  # type: ignore[override]
        await super()._begin(claim, limit)  # type: ignore[arg-type]
        self._check_offer()
        self._offer -= len(claim.jobs)
        if claim.schedules:
            self._run_in_background(self._fire(claim.schedules))
        if not limit:
            return
        self._set_alarm(claim.wait_ms)
        if claim.wait_ms == 0:
            self._is_waiting = False
            self._signal.set()

    def _set_alarm(self, wait_ms: int) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if wait_ms > 0:
            self._alarm = self._loop.call_later(wait_ms / 1000, self.woken)

    async def _give_back(self, tokens: list[int], side: Side) -> None:
        reports = [Report(token, "stopped") for token in tokens]
        answer = await self._store.run_once(
            lambda o: jobs.report_jobs(self.keys, o, self.worker, reports)
        )
        self._refuse(answer.refused)

    async def _fire(self, names: list[str]) -> None:
        if await fire_schedules(self._client, self.keys, names):
            self.woken()
        else:
            # Somebody else was first; or they cannot be fired, and would be named again at once.
            self._loop.call_later(_FIRE_AGAIN_S, self.woken)

    def _run_in_background(self, task: Any) -> None:
        task = asyncio.ensure_future(task)
        self._background.add(task)
        task.add_done_callback(self._background_done)

    def _background_done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not self.is_accepting:
            self._hooks.changed()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task failed queue=%s error=%r", self.queue, error)

    def _note_soon(self, context: JobContext) -> None:
        self._noted[context] = None
        if self._note_timer is None and not self.is_closed:
            self._note_timer = self._loop.call_later(_NOTE_EVERY_S, self._note_all)

    def _note_all(self) -> None:
        self._note_timer = None
        noted, self._noted = self._noted, {}
        for context in noted:
            if context.token in self.held:
                self._run_in_background(self._note(context))

    async def _note(self, context: JobContext) -> None:
        """Write down what a job has said, in the order in which it did. Only the last progress
        counts.
        """
        async with self._noting.setdefault(context, asyncio.Lock()):
            # The list stays the same, as the job may be about to add to it.
            lines = context.lines[:]
            del context.lines[: len(lines)]
            progress, context.new_progress = context.new_progress, b""
            if lines or progress:
                await self._store.run_once(
                    lambda o: jobs.note_job(
                        self.keys, o, self.worker, context.token, progress, lines[-1000:]
                    )
                )
        if context.token not in self.held:
            self._noting.pop(context, None)


def _remember(processes: dict[int, None], more: list[int]) -> None:
    """The last ones are enough."""
    processes.update(dict.fromkeys(more))
    while len(processes) > MAX_HELD:
        del processes[next(iter(processes))]
