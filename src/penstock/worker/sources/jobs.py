"""A queue of jobs, as a worker serves it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

from penstock.client.functions import run_job
from penstock.codec.handed_out import open_handed_over
from penstock.codec.ids import id_number
from penstock.connection.wire import join_packed, pack_ahead
from penstock.executors.job_context import JobContext
from penstock.model.claims import Claim
from penstock.model.jobs import Report
from penstock.store.commands import jobs
from penstock.worker.source import WOKEN, Cancelled, QueueSource, Request, Told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.client.functions import JobFunction
    from penstock.executors.context import Context
    from penstock.model.jobs import HandedOut
    from penstock.model.workers import Lease
    from penstock.store.keys import QueueKeys
    from penstock.worker.source import Woken

_FAILURES = ("failed", "final", "crashed")
_MOST_LINES = 1000
"""of the log of a job, in one request"""
_MOST_KNOWN = 1000
"""jobs of which a worker that lost its lease says that it lives"""


class JobSource(QueueSource):
    """Everything that becomes of a job can be said with the next claim; only what it has said about
    itself must go before.
    """

    kind = "jobs"
    at_once = 100

    def __init__(
        self,
        keys: QueueKeys,
        worker: str,
        lease: Lease,
        functions: Mapping[str, JobFunction[..., Any]],
        backoffs: Mapping[str, Callable[[int], float]],
        max_payload: int,
        cancel: Callable[[Any], None],
        *,
        takes_pushed: bool,
    ) -> None:
        """`cancel` tells a job to end, and ends it where it can be ended."""
        channels = [keys.cancel_job, *([keys.hand + worker] if takes_pushed else [])]
        super().__init__(keys, worker, lease, run_job, max_payload, channels)
        self.backoffs = backoffs
        self.takes_pushed = takes_pushed
        self._functions = functions
        self._cancel = cancel
        self._refused: deque[Context] = deque(maxlen=_MOST_KNOWN)
        """what was taken away before it was reported"""

    def claim(self, reported: Sequence[Context], limit: int, offer: int) -> Request:
        keys, worker = self.keys, self.worker
        if not reported:
            return Request(
                "claim",
                lambda o: jobs.start_jobs(keys, o, worker, limit, wait=True, offer=offer),
                limit=limit,
            )
        reports = join_packed([_packed(context) for context in reported])
        return Request(
            "claim",
            lambda o: jobs.report_jobs(
                keys, o, worker, reports, limit, wait=limit > 0, offer=offer
            ),
            contexts=reported,
            limit=limit,
        )

    def contexts(self, found: Iterable[HandedOut], first_process: int) -> list[Context]:
        return [JobContext(self, job, self._functions[job.type]) for job in found]

    def report_apart(self, outcomes: list[Context]) -> tuple[list[Request], list[Context]]:
        notes = [request for c in outcomes if (request := self.note(c)) is not None]
        return notes, outcomes

    def told(self, reported: Sequence[Context], refused: Sequence[int]) -> Told:
        finished = failed = 0
        for context in reported:
            if refused and context.token in refused:
                self._refused.append(context)
                continue
            finished += context.outcome == "done"
            failed += context.outcome in _FAILURES
        return Told(finished, failed)

    def ids_of(self, held: Iterable[Context]) -> list[int]:
        """The jobs that are held, and those that were when they were taken away."""
        jobs = [cast("JobContext", context) for context in (*self._refused, *held)]
        return [id_number(job.handed_out.id) for job in jobs][-_MOST_KNOWN:]

    def give_back(self, contexts: Sequence[Context]) -> Request:
        reports = [Report(context.token, "stopped") for context in contexts]
        return Request(
            "give_back",
            lambda o: jobs.report_jobs(self.keys, o, self.worker, reports),
            contexts=contexts,
        )

    def pass_on(self, is_busy: bool) -> Request:
        def read(answer: tuple[int, list[str]]) -> Claim[HandedOut]:
            wait_ms, schedules = answer
            return Claim("idle", wait_ms=wait_ms, schedules=schedules)

        return Request("pass_on", jobs.pass_jobs(self.keys, self.worker, is_busy), read)

    def note(self, context: Context) -> Request | None:
        """In the order in which it was said. Only the last progress counts."""
        job = cast("JobContext", context)
        # The list stays the same, as the job may be about to add to it.
        lines = job.lines[:]
        del job.lines[: len(lines)]
        progress, job.new_progress = job.new_progress, b""
        if not lines and not progress:
            return None
        return Request(
            "note",
            lambda o: jobs.note_job(
                self.keys, o, self.worker, job.token, progress, lines[-_MOST_LINES:]
            ),
            lambda is_held: Claim("idle"),
            [context],
        )

    def has_note(self, context: Context) -> bool:
        job = cast("JobContext", context)
        return bool(job.lines or job.new_progress)

    def find_pushed(self, known: Sequence[int]) -> Request | None:
        return Request(
            "find_pushed",
            jobs.find_handed(self.keys, self.worker, known),
            lambda found: Claim("ok", found),
        )

    def find_cancelled(self) -> Request | None:
        return Request("find_cancelled", jobs.find_cancelled(self.keys, self.worker))

    def hear(self, channel: str, message: bytes) -> Woken | Cancelled | Context | None:
        if channel == self.keys.cancel_job:
            worker, _, process = message.decode().partition(" ")
            return Cancelled(int(process)) if worker == self.worker else None
        if channel == self.keys.hand + self.worker:
            return self.open_pushed(message)
        return WOKEN

    def open_pushed(self, message: bytes) -> JobContext:
        """The job in a message that hands it over."""
        job = open_handed_over(message)
        return JobContext(self, job, self._functions[job.type])

    def prepare(self, context: Context) -> None:
        # In the thread that ran it, as the store waits for the driver that sends reports.
        job = cast("JobContext", context)
        job.packed = pack_ahead(list(job.to_report()))

    def cancel(self, context: Context) -> None:
        if not cast("JobContext", context).is_cancel_asked:
            self._cancel(context)

    def close(self, held: Iterable[Context]) -> None:
        if self.lease.is_lost:
            # A child process cannot see the lease; another worker may have its job by now.
            for context in list(held):
                if cast("JobContext", context).function.in_process:
                    self.cancel(context)
        super().close(held)


def _packed(context: Context) -> Any:
    return cast("JobContext", context).packed
