"""Workers of jobs: one protocol call at a time, as `worker/job_feed.py` makes them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import LeaseLost, StoreUnavailable
from penstock.store.commands import jobs
from penstock.worker.schedules import fire_schedules
from tests.simulation.clients import beat
from tests.simulation.programs import Sleep
from tests.simulation.server import QUEUES, Violated

if TYPE_CHECKING:
    from penstock.client.session import AsyncWorkerSession
    from penstock.model.jobs import HandedOut, JobClaim, Report
    from tests.simulation.jobs_look import Look
    from tests.simulation.jobs_scheduler import JobScheduler
    from tests.simulation.programs import Program

TYPES = ("email", "sms", "report")
LOOK_EVERY_MS = 10_000
FIRE_AGAIN_MS = 1_000
LOST_EVERY = 3
"""one in so many messages by which a job is handed over"""
RECONNECT_MS = 300
"""how long it takes until a worker knows that messages may be lost"""
ERROR = b'["ValueError", "no", ""]'


class Held(NamedTuple):
    """A job in the hands of a worker."""

    job: HandedOut
    done_at: float


class JobHands:
    """What a worker believes that it holds, and its slots, which all its queues share."""

    def __init__(self, session: AsyncWorkerSession, slots: int) -> None:
        self.session = session
        self.slots = slots
        self.feeds: dict[str, Feed] = {}
        self.is_open = True
        """whether it goes on; it does not once it has stopped or lost its lease"""
        self.is_paused = False

    @property
    def room(self) -> int:
        if self.is_paused:
            return 0
        return self.slots - sum(len(feed.held) for feed in self.feeds.values())

    def pause(self, is_paused: bool) -> None:
        if is_paused != self.is_paused:
            self.is_paused = is_paused
            for feed in self.feeds.values():
                feed.pause(is_paused)

    def close(self) -> None:
        self.is_open = False


async def work(scheduler: JobScheduler, program: Program) -> None:
    """Registers, serves queues, and starts again under a new name whenever it was given up."""
    while not scheduler.is_stopping:
        await _live(scheduler, program, scheduler.new_session(program))


async def _live(scheduler: JobScheduler, program: Program, session: AsyncWorkerSession) -> None:
    """One incarnation, from registration to the loss of the lease or a stop."""
    hands = program.hands = JobHands(session, scheduler.random.randint(1, 4))
    try:
        await session.start()
        program.spawn(beat(scheduler, program, session), "heartbeat")
        if program.kind == "worker":
            await _serve(scheduler, program, session, hands)
        while _goes_on(scheduler, session, hands):
            await Sleep(
                scheduler.lifetime_ms(),
                unless=lambda: not _goes_on(scheduler, session, hands),
            )
            if not scheduler.is_draining:
                break  # when all is quiet, nobody may come by work by being new
    except LeaseLost:
        session.lease.lose()
    hands.close()
    await Sleep(unless=lambda: all(feed.has_ended for feed in hands.feeds.values()))
    if session.lease.is_lost:
        scheduler.happened("worker found out that it was given up")
        await session.abandon()
        return
    scheduler.happened("worker stopped")
    for queue in sorted(session._queues):
        await session.stop_work(queue)
    await session._client.fail_worker(session.id)


def _goes_on(scheduler: JobScheduler, session: AsyncWorkerSession, hands: JobHands) -> bool:
    return not scheduler.is_stopping and hands.is_open and not session.lease.is_lost


async def _serve(
    scheduler: JobScheduler, program: Program, session: AsyncWorkerSession, hands: JobHands
) -> None:
    random = scheduler.random
    types: list[str] | None = None
    if random.random() < 0.4 and not scheduler.is_draining:
        types = random.sample(TYPES, random.choice((1, 2)))
    names = QUEUES if random.random() < 0.6 or scheduler.is_draining else QUEUES[:1]
    takes_unasked = random.random() < 0.8
    for queue in names:
        await session.start_job_work(queue, types)
        hands.pause(session.heartbeat.is_paused)
        feed = hands.feeds[queue] = Feed(scheduler, program, hands, queue)
        feed.takes_unasked = takes_unasked
        program.spawn(feed.serve(), "feed")


class Feed:
    """One queue, as a worker serves it: claims, runs, reports. It gets up when something is done,
    when it is woken, and when the time comes that it was told.
    """

    def __init__(
        self, scheduler: JobScheduler, program: Program, hands: JobHands, queue: str
    ) -> None:
        self.held: dict[int, Held] = {}
        self.reported: dict[int, Held] = {}
        """said to be done; not held any more, whatever the answer is"""
        self.has_ended = False
        self._scheduler = scheduler
        self._program = program
        self._hands = hands
        self._queue = queue
        self._store = program.client.store
        self._keys = program.client.keys.queue(queue)
        self._worker = hands.session.id
        self.takes_unasked = False
        self._unheard_since: dict[int, float] = {}
        self._is_waiting = False
        self._is_apart = False
        self._must_look = True
        self._is_passing = False
        """a wake-up may be on its way that is of no use here"""
        self._alarm_at = math.inf
        self._looked_at = 0.0

    async def serve(self) -> None:
        while self._hands.is_open:
            await self._exchange()
            if self._hands.is_open:
                await Sleep(self._next_at() - self._scheduler.now_ms, unless=self._is_called)
        self.has_ended = True

    def look(self) -> None:
        self._must_look = True

    def pause(self, is_paused: bool) -> None:
        self._is_passing = is_paused
        self.look()

    def _next_at(self) -> float:
        times = [held.done_at for held in self.held.values()]
        if not self._scheduler.is_draining:
            # Also when nobody calls: a wake-up can be lost. Without it, none may be.
            times.append(self._looked_at + LOOK_EVERY_MS)
        return max(min([self._alarm_at, *times], default=math.inf), self._scheduler.now_ms)

    def _is_called(self) -> bool:
        wants_work = self._must_look or not self._is_waiting
        is_called = self._is_passing or self._is_woken()
        unheard = self.unheard()
        is_called = is_called or any(map(self._is_heard, unheard))
        is_called = is_called or any(map(self._is_missed, unheard))
        return not self._hands.is_open or is_called or (wants_work and self._hands.room > 0)

    def unheard(self) -> list[int]:
        """Processes that it holds without knowing: it was handed a job."""
        running = self._scheduler.look.queues[self._queue].snapshot.running
        held = running.get(self._worker, {})
        return [
            process for process in held if process not in self.held and process not in self.reported
        ]

    def _is_missed(self, process: int) -> bool:
        """It did not hear of it, and knows by now that it may have missed something."""
        first_ms = self._unheard_since.setdefault(process, self._scheduler.now_ms)
        return self._scheduler.now_ms - first_ms >= RECONNECT_MS

    def _is_heard(self, process: int) -> bool:
        """Some messages are lost; then only looking helps."""
        return self._scheduler.is_draining or process % LOST_EVERY != 0

    def _is_woken(self) -> bool:
        queue = self._scheduler.look.queues[self._queue]
        return self._is_waiting and self._worker not in queue.snapshot.totals.idle

    async def _exchange(self) -> None:
        now_ms, random = self._scheduler.now_ms, self._scheduler.random
        unheard = self.unheard()
        is_time = any(map(self._is_missed, unheard))
        if is_time or any(map(self._is_heard, unheard)):
            await self._take_over(is_time)
        is_woken = self._is_woken() or self._alarm_at <= now_ms or self._is_passing
        self._is_passing = False
        if is_woken or now_ms >= self._looked_at + LOOK_EVERY_MS:
            self._must_look = True
        if self._alarm_at <= now_ms:
            self._alarm_at = math.inf
        reports = await self._take_reports()
        limit = max(0, self._hands.room)
        if limit > 1 and random.random() < 0.3:
            limit = 1
        if is_woken and limit == 0:
            command = jobs.pass_jobs(self._keys, self._worker, is_busy=True)
            wait_ms, schedules = await self._store.run(command)
            self._is_waiting = False
            self._alarm_at = now_ms + wait_ms if wait_ms > 0 else math.inf
            if schedules:
                self._scheduler.happened("fired while busy")
                self._program.spawn(self._fire(schedules), "firing")
        if not reports and (limit == 0 or (self._is_waiting and not self._must_look)):
            return
        if limit:
            self._must_look = False
            self._looked_at = now_ms
        claim = await self._claim(reports, limit)
        self._told(reports, claim)
        self._begin(claim, limit)

    async def _take_over(self, is_time: bool) -> None:
        """Begin what it was handed. A worker has that from the message; here it is always looked
        up.
        """
        known = [*self.held, *self.reported]
        found = await self._store.run(jobs.find_handed(self._keys, self._worker, known))
        for job in found:
            if self._is_heard(job.process) or is_time:
                self._hold(job)
                self._scheduler.happened(
                    "began what was handed over"
                    if self._is_heard(job.process)
                    else "found what was missed"
                )
        if self._worker not in self._scheduler.look.queues[self._queue].snapshot.totals.idle:
            self._is_waiting = False

    async def _take_reports(self) -> list[Report]:
        """What is done by now, out of the worker's hands; noting something down first, perhaps."""
        now_ms, random = self._scheduler.now_ms, self._scheduler.random
        done = [process for process, held in self.held.items() if held.done_at <= now_ms]
        reports = []
        for process in done:
            if random.random() < 0.2:
                await self._note(process)
            report = self._scheduler.new_report(self._queue, self.held[process].job)
            reports.append(report)
        for process in done:
            self.reported[process] = self.held.pop(process)
        if done and self._is_apart:
            self._is_apart = self._is_waiting = False
        return reports

    async def _note(self, process: int) -> None:
        progress = b"[50.0, null]" if self._scheduler.random.random() < 0.5 else b""
        lines = [] if progress else [b"half of it"]
        is_held = await self._store.run_once(
            lambda o: jobs.note_job(self._keys, o, self._worker, process, progress, lines)
        )
        self._scheduler.happened("noted" if is_held else "stale note refused")

    async def _claim(self, reports: list[Report], limit: int) -> JobClaim:
        offer = max(0, self._hands.room) if self.takes_unasked else 0
        if not reports:
            return await self._store.run_once(
                lambda o: jobs.start_jobs(self._keys, o, self._worker, limit, True, offer)
            )
        wait = limit > 0
        return await self._store.run_once(
            lambda o: jobs.report_jobs(
                self._keys, o, self._worker, reports, limit, wait, offer if wait else 0
            )
        )

    def _told(self, reports: list[Report], claim: JobClaim) -> None:
        for report in reports:
            is_accepted = report.process not in claim.refused
            self._scheduler.history.end_told(self._queue, report.process, is_accepted)
            if not is_accepted:
                self._scheduler.happened("stale report refused")
            del self.reported[report.process]

    def _begin(self, claim: JobClaim, limit: int) -> None:
        scheduler = self._scheduler
        if claim.word == "not_working":
            self._hands.session.lease.lose()
            self._hands.close()
        for job in claim.jobs:
            self._hold(job)
        if claim.schedules:
            self._program.spawn(self._fire(claim.schedules), "firing")
        if not limit:
            return
        scheduler.happened(f"claim: {claim.word}")
        self._is_waiting = len(claim.jobs) < limit and claim.wait_ms != 0
        self._is_apart = claim.word == "apart"
        self._alarm_at = scheduler.now_ms + claim.wait_ms if claim.wait_ms > 0 else math.inf

    def _hold(self, job: HandedOut) -> None:
        scheduler = self._scheduler
        self.held[job.process] = Held(job, scheduler.now_ms + scheduler.run_ms())

    async def _fire(self, names: list[str]) -> None:
        try:
            if not await fire_schedules(self._program.client, self._keys, names):
                # Somebody was first; or they cannot be fired, and would be named again at once.
                await Sleep(FIRE_AGAIN_MS)
        except StoreUnavailable:
            self._scheduler.happened("firing failed")
        self._is_passing = True
        self.look()


def check_hands(program: Program, look: Look) -> None:
    """A living worker holds nothing that it does not know of, or nobody would ever finish it."""
    hands: JobHands = program.hands
    asking = {routine for routine in program.routines if routine.ask and routine.ask.sent}
    if any(routine.name in ("feed", "main") for routine in asking):
        return
    for name, feed in hands.feeds.items():
        for process in look.queues[name].snapshot.running.get(hands.session.id, ()):
            is_known = process in feed.held or process in feed.reported
            if not is_known and not feed.has_ended and not feed.takes_unasked:
                raise Violated(
                    f"worker {hands.session.id!r} holds process {process} of {name} and was never "
                    "told so"
                )
