"""Drives the real feed of a queue of jobs, one request at a time, on the simulated clock."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import penstock
from penstock.errors import StoreUnavailable
from penstock.store.commands import jobs
from penstock.worker.feed import Feed
from penstock.worker.schedules import fire_schedules
from penstock.worker.source import Begin, Cancel, Fire, Request
from penstock.worker.sources.jobs import JobSource
from tests.simulation.programs import Sleep

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.executors.context import Context
    from penstock.executors.job_context import JobContext
    from tests.simulation.jobs_scheduler import JobScheduler
    from tests.simulation.jobs_workers import JobHands
    from tests.simulation.programs import Program

TYPES = ("email", "sms", "report")
LOOK_EVERY_MS = 10_000
LOST_EVERY = 3
"""one in so many messages by which a job is handed over"""
RECONNECT_MS = 300
"""how long it takes until a worker knows that messages may be lost"""


def _nothing() -> None: ...


FUNCTIONS = {name: penstock.job(queue="any", type=name)(_nothing) for name in TYPES}


class SimulatedPump:
    """It gets up when something is done, when the worker is woken, and when the time comes that the
    feed has asked for.
    """

    def __init__(
        self,
        scheduler: JobScheduler,
        program: Program,
        hands: JobHands,
        queue: str,
        takes_unasked: bool,
    ) -> None:
        self.takes_unasked = takes_unasked
        self.has_ended = False
        self._scheduler = scheduler
        self._program = program
        self._hands = hands
        self._queue = queue
        self._store = program.client.store
        session, keys = hands.session, program.client.keys.queue(queue)
        self._source = JobSource(
            keys,
            session.id,
            session.lease,
            FUNCTIONS,
            {},
            1_000_000,
            lambda context: context.cancel(),
            takes_pushed=takes_unasked,
        )
        self.feed = Feed(self._source, hands, is_paused=hands.is_paused)
        self._done_at: dict[Context, float] = {}
        """what runs, and until when"""
        self._unheard_since: dict[int, float] = {}
        self._looked_at = 0.0

    @property
    def load(self) -> int:
        return len(self._done_at)

    async def serve(self) -> None:
        while self._hands.is_open:
            self._hear()
            await self._turn()
            if self._hands.is_open:
                await Sleep(self._next_at() - self._scheduler.now_ms, unless=self._is_called)
        self.feed.close()
        self.has_ended = True

    def pause(self, is_paused: bool) -> None:
        self.feed.paused(is_paused, self._now_s())

    # What happens.

    def _hear(self) -> None:
        """Tell the feed what has happened since it was asked last."""
        now_s, now_ms = self._now_s(), self._scheduler.now_ms
        self._end_what_is_done()
        if self._is_woken():
            self.feed.woken(now_s)
        if now_ms >= self._looked_at + LOOK_EVERY_MS and not self._scheduler.is_draining:
            self._looked_at = now_ms
            self.feed.look(now_s)
        if any(map(self._is_missed, self.unheard())):
            self.feed.look_again(now_s)
        self.feed.room_made(now_s)

    def _end_what_is_done(self) -> None:
        now_ms, random = self._scheduler.now_ms, self._scheduler.random
        done = [context for context, done_at in self._done_at.items() if done_at <= now_ms]
        for context in done:
            del self._done_at[context]
            job = cast("JobContext", context)
            report = self._scheduler.new_report(self._queue, job.handed_out)
            job.outcome, job.result = report.outcome, report.payload
            job.delay_ms, job.reason = report.delay_ms, report.reason
            job.took_s, job.cpu_s = report.ran_us / 1e6, report.cpu_us / 1e6
            if random.random() < 0.2:
                if random.random() < 0.5:
                    job.new_progress = b"[50.0, null]"
                else:
                    job.lines.append(b"half of it")
            self._source.prepare(job)
        if done:
            self.feed.outcomes.extend(done)
            self.feed.report(self._now_s())

    def unheard(self) -> list[int]:
        """Processes that it holds without knowing: it was handed a job."""
        running = self._scheduler.look.queues[self._queue].snapshot.running
        held = running.get(self._source.worker, {})
        return [process for process in held if process not in self.feed.processes]

    def _is_missed(self, process: int) -> bool:
        """It did not hear of it, and knows by now that it may have missed something."""
        first_ms = self._unheard_since.setdefault(process, self._scheduler.now_ms)
        return self._scheduler.now_ms - first_ms >= RECONNECT_MS

    def _is_heard(self, process: int) -> bool:
        """Some messages are lost; then only looking helps."""
        return self._scheduler.is_draining or process % LOST_EVERY != 0

    def _is_woken(self) -> bool:
        queue = self._scheduler.look.queues[self._queue]
        believes_it_waits = self.feed.is_accepting and not self.feed.wants_work
        return believes_it_waits and self._source.worker not in queue.snapshot.totals.idle

    # When it gets up.

    def _next_at(self) -> float:
        times = [*self._done_at.values(), self.feed.wake_at * 1000]
        if not self._scheduler.is_draining:
            # Also when nobody calls: a wake-up can be lost. Without it, none may be.
            times.append(self._looked_at + LOOK_EVERY_MS)
        return max(min(times, default=math.inf), self._scheduler.now_ms)

    def _is_called(self) -> bool:
        unheard = self.unheard()
        is_handed = any(map(self._is_heard, unheard)) or any(map(self._is_missed, unheard))
        has_room = self.feed.wants_work and self.feed.room() > 0
        return not self._hands.is_open or self._is_woken() or is_handed or has_room

    # What the feed wants.

    async def _turn(self) -> None:
        await self._take_over()
        while self._hands.is_open:
            owed = 0
            if self.feed.room() > 1 and self._scheduler.random.random() < 0.3:
                owed = self.feed.room() - 1
            step = self.feed.next(self._now_s(), owed)
            if step is None:
                return
            if isinstance(step, Begin):
                self._begin(step.contexts)
            elif isinstance(step, Cancel):
                for context in step.contexts:
                    self._source.cancel(context)
            elif isinstance(step, Fire):
                self._program.spawn(self._fire(step.schedules), "firing")
            elif step is self.feed.asking:
                await self._send(step)
            else:
                self._program.spawn(self._send_aside(step), "aside")

    async def _take_over(self) -> None:
        """Begin what it was handed. A worker has that from the message; here it is looked up."""
        heard = [process for process in self.unheard() if self._is_heard(process)]
        if not heard:
            return
        known = sorted(self.feed.processes)
        command = jobs.find_handed(self._source.keys, self._source.worker, known)
        found = [job for job in await self._store.run(command) if job.process in heard]
        for context in self._source.contexts(found, 0):
            if self.feed.pushed(context, self._now_s()):
                self._begin([context])
                self._scheduler.happened("began what was handed over")

    async def _send(self, request: Request) -> None:
        command = request.command
        if callable(command):
            answer = await self._store.run_once(command)
        else:
            answer = await self._store.run(command)
        self._observe(request, answer)
        self.feed.answered(request, answer, self._now_s())
        if self._source.lease.is_lost:
            self._hands.close()

    async def _send_aside(self, request: Request) -> None:
        try:
            await self._send(request)
        except StoreUnavailable:
            self.feed.unanswered(request, self._now_s())

    def _observe(self, request: Request, answer: Any) -> None:
        """What the simulation wants to know about an answer."""
        scheduler = self._scheduler
        if request.purpose == "note":
            scheduler.happened("noted" if answer else "stale note refused")
        elif request.purpose == "find_pushed" and answer:
            scheduler.happened("found what was missed")
        elif request.purpose == "pass_on" and answer[1]:
            scheduler.happened("fired while busy")
        elif request.purpose == "claim":
            for context in request.contexts:
                is_accepted = context.token not in answer.refused
                scheduler.history.end_told(self._queue, context.token, is_accepted)
                if not is_accepted:
                    scheduler.happened("stale report refused")
            if request.limit:
                self._looked_at = scheduler.now_ms
                scheduler.happened(f"claim: {answer.word}")
            if answer.word == "not_working":
                self._hands.close()

    def _begin(self, contexts: Iterable[Context]) -> None:
        for context in contexts:
            self._done_at[context] = self._scheduler.now_ms + self._scheduler.run_ms()

    async def _fire(self, names: list[str]) -> None:
        sent = 0
        try:
            sent = await fire_schedules(self._program.client, self._source.keys, names)
        except StoreUnavailable:
            self._scheduler.happened("firing failed")
        self.feed.fired(sent > 0, self._now_s())

    def _now_s(self) -> float:
        return self._scheduler.now_ms / 1000
