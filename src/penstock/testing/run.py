"""Runs everything that is due, then moves the clock to what is due next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.codec.ids import id_number
from penstock.errors import InvalidArgument, RunTooLong
from penstock.model.jobs import WAITING_STATES
from penstock.model.retries import Retry
from penstock.model.schedules import decode_schedule
from penstock.store.commands import job_records, job_rules
from penstock.worker.schedules import fire_schedules

if TYPE_CHECKING:
    from penstock.client.client import AsyncPenstock
    from penstock.model.jobs import JobInfo
    from penstock.testing.clock import VirtualClock
    from penstock.testing.pump import VirtualContext
    from penstock.testing.worker import VirtualWorker

_MAX_VAIN_STEPS = 1000
_PAGE = 1000


@dataclass(slots=True)
class RunSummary:
    """What happened in a run: ids of jobs, in the order in which it happened."""

    ran: list[str] = field(default_factory=list)
    """one for each attempt"""
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """one for each attempt that ended with an error"""
    crashed: list[str] = field(default_factory=list)
    """one for each attempt over which the worker died"""
    retried: list[str] = field(default_factory=list)
    """one for each attempt that was not to be the last"""
    dead: list[str] = field(default_factory=list)
    """also those that have expired, which were never run"""
    cancelled: list[str] = field(default_factory=list)
    errors: dict[str, list[BaseException]] = field(default_factory=dict)
    """what its attempts have raised, by job"""


class Run:
    """One call of `run_all`."""

    def __init__(
        self,
        client: AsyncPenstock,
        worker: VirtualWorker,
        clock: VirtualClock,
        deadline_ms: int | None,
        limit: int,
        raise_errors: bool,
    ) -> None:
        self._client = client
        self._worker = worker
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._limit = limit
        self._raise_errors = raise_errors
        self._waits_ms: dict[str, int] = {}
        self._unsent: dict[str, tuple[int, list[str]]] = {}
        """queue -> when it last had schedules that sent nothing, and which"""
        self._expired: dict[str, float] = {}
        """job -> when it died of that"""
        self._dead_counts: dict[str, int] = {}
        self._vain_steps = 0
        self._summary = RunSummary()

    async def run(self) -> RunSummary:
        if self._deadline_ms is None:
            await self._check_ends()
        await self._worker.start()
        try:
            await self._find_expired()  # by earlier runs
            await self._beat()
            while True:
                is_vain = True
                # Not a generator: every queue gets its turn.
                while any([await self._serve(queue) for queue in self._worker.queues]):
                    is_vain = False
                self._summary.dead += await self._find_expired()
                if not await self._move_on(is_vain):
                    break
        finally:
            await self._worker.stop()
        return self._summary

    async def _serve(self, queue: str) -> bool:
        """Run one job of a queue, and send what its schedules send; False if there was nothing."""
        asked = await self._worker.ask(queue)
        if asked.is_lost:
            await self._worker.start()
            return True
        is_idle = asked.is_limited and not await self._has_more(queue)
        self._waits_ms[queue] = -1 if is_idle else asked.wait_ms
        for context in asked.contexts:
            await self._perform(queue, context)
        return bool(await self._fire(queue, asked.schedules) or asked.contexts)

    async def _perform(self, queue: str, context: VirtualContext) -> None:
        summary, job = self._summary, context.handed_out
        if len(summary.ran) >= self._limit:
            raise RunTooLong(
                f"run_all has run {self._limit} attempts and there is more to do, next job {job.id}"
                f" of type {job.type!r}; give until=..., or a higher limit if that is right"
            )
        summary.ran.append(job.id)
        if not await self._worker.perform(context):
            summary.crashed.append(job.id)
            return
        error = context.error
        if context.is_refused:
            return
        if error is None:
            summary.done.append(job.id)
            return
        summary.errors.setdefault(job.id, []).append(error)
        if context.outcome != "cancelled":
            summary.failed.append(job.id)
        await self._note_fate(queue, job.id)
        if self._raise_errors and not isinstance(error, Retry):
            raise error

    async def _note_fate(self, queue: str, job: str) -> None:
        """What the store has decided about an attempt that did not go well."""
        info = await self._read(queue, job)
        if info is None:
            return
        fates = {"dead": self._summary.dead, "cancelled": self._summary.cancelled}
        fates.get(info.state, self._summary.retried).append(job)

    async def _has_more(self, queue: str) -> bool:
        """Whether something is left to run; a queue whose limit is reached does not tell."""
        jobs = self._client.jobs(queue)
        for type in self._worker.types(queue):
            counts = await jobs.counts(type=type)
            if any(counts[state] for state in WAITING_STATES):
                return True
        keys = self._client.keys.queue(queue)
        _, schedules = await self._client.store.run(job_rules.list_schedules(keys))
        return any(stored.slot_ms is not None for stored in schedules)

    async def _find_expired(self) -> list[str]:
        """The jobs that have expired since this was asked last, in that order."""
        found: list[JobInfo] = []
        for queue in self._worker.queues:
            count = (await self._client.jobs(queue).counts())["dead"]
            if self._dead_counts.get(queue, 0) != count:
                self._dead_counts[queue] = count
                found += [job for job in await self._dead(queue) if job.reason == "expired"]
        new = [job for job in found if self._expired.get(job.id) != job.finished_at]
        self._expired |= {job.id: job.finished_at for job in new}
        return [job.id for job in sorted(new, key=lambda job: job.finished_at)]

    async def _dead(self, queue: str) -> list[JobInfo]:
        found: list[JobInfo] = []
        cursor = ""
        while True:
            page = await self._client.jobs(queue).page(
                "dead", after=cursor, limit=_PAGE, with_data=False
            )
            found += page.jobs
            cursor = page.cursor
            if not cursor:
                return found

    async def _fire(self, queue: str, schedules: list[str]) -> bool:
        if not schedules:
            return False
        if await fire_schedules(self._client, self._client.keys.queue(queue), schedules):
            return True
        # Paused ones send nothing, but are due later by now. What stays due cannot be sent.
        vain = (self._clock.now_ms, schedules)
        is_first_time, self._unsent[queue] = self._unsent.get(queue) != vain, vain
        return is_first_time

    async def _move_on(self, is_vain: bool) -> bool:
        """Move the clock to what is due next; False if there is nothing, or not in time."""
        now_ms, deadline_ms = self._clock.now_ms, self._deadline_ms
        due_ms = [now_ms + max(wait_ms, 1) for wait_ms in self._waits_ms.values() if wait_ms >= 0]
        for crashed in self._worker.crashed.values():
            due_ms.append(max(crashed.lease_ends_ms, now_ms) + 1)
        at_ms = min(due_ms, default=None)
        is_over = at_ms is None or (deadline_ms is not None and at_ms > deadline_ms)
        if is_over and deadline_ms is None:
            return False
        at_ms = deadline_ms if is_over else at_ms
        assert at_ms is not None
        self._vain_steps = self._vain_steps + 1 if is_vain and at_ms == now_ms + 1 else 0
        self._check_headway()
        self._clock.set(max(at_ms, now_ms))  # a job may have moved it past the deadline
        await self._beat()
        return not is_over

    def _check_headway(self) -> None:
        if self._vain_steps > _MAX_VAIN_STEPS:
            raise RunTooLong(
                "run_all makes no headway: something is due all the time and cannot be run or "
                "sent; the log of 'penstock.worker' says what"
            )

    async def _beat(self) -> None:
        for crashed in await self._worker.beat():
            await self._note_fate(crashed.queue, crashed.job)

    async def _check_ends(self) -> None:
        """Without an end in sight there would be none."""
        for queue in self._worker.queues:
            keys = self._client.keys.queue(queue)
            _, schedules = await self._client.store.run(job_rules.list_schedules(keys))
            for stored in schedules:
                schedule = decode_schedule(stored.definition)
                if stored.slot_ms is not None and schedule.ends_at_ms == 0:
                    raise InvalidArgument(
                        f"schedule {stored.name!r} of queue {queue!r} has no end, so run_all would "
                        "not have one either; give until=..., such as until=timedelta(days=1)"
                    )

    async def _read(self, queue: str, job: str) -> JobInfo | None:
        keys = self._client.keys.queue(queue)
        command = job_records.read_jobs(keys, [id_number(job)], with_data=False)
        return (await self._client.store.run(command))[0]
