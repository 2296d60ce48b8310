"""One job on its way through an executor, and what came of it."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, cast

from penstock.client.functions import VERDICT, Judgement, judge
from penstock.codec.attempts import pack_error
from penstock.codec.failures import RaisedInChild, crash_of, describe, shorten
from penstock.codec.progress import pack_progress
from penstock.codec.values import pack_result
from penstock.errors import JobCancelled, JobTimeout, PenstockError
from penstock.executors.backoffs import wait_ms
from penstock.executors.context import Context, work_log
from penstock.model.jobs import JobError, Report, make_progress
from penstock.model.queues import check_payload
from penstock.model.retries import Retry, decode_backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.client.functions import JobFunction
    from penstock.executors.context import Origin
    from penstock.executors.death import Death
    from penstock.model.jobs import HandedOut
    from penstock.model.queues import Side
    from penstock.store.command import Prepacked

log = logging.getLogger("penstock.worker")

MAX_LINE = 4096
_CANCELLED = describe(JobCancelled()).type
_RETRY = describe(Retry()).type


class JobOrigin(Protocol):
    """The queue of a job, as its worker serves it."""

    backoffs: Mapping[str, Callable[[int], float]]

    def noted(self, context: JobContext) -> None:
        """The job has said something about itself; called from wherever it runs."""


class JobContext(Context):
    """What a job is told about itself, and how it says how far it is."""

    __slots__ = (
        "_has_seen_cancel",
        "_is_told",
        "delay_ms",
        "function",
        "handed_out",
        "is_cancel_asked",
        "lines",
        "new_progress",
        "packed",
        "reason",
        "timeout_s",
    )

    def __init__(
        self, origin: Origin, handed_out: HandedOut, function: JobFunction[..., Any]
    ) -> None:
        # All of it here: with cold caches, to go through the class below takes as long again.
        self.origin = origin
        self.token = handed_out.process
        self.task = handed_out.data
        self._is_cancelled = False
        self.result = b""
        self.side = "front"
        self.took_s = 0.0
        self.cpu_s = 0.0
        self.handed_out = handed_out
        self.function = function
        self.timeout_s = handed_out.timeout_ms / 1000
        self._is_told = False
        self._has_seen_cancel = False
        self.outcome = "done"
        self.delay_ms = 0
        self.reason = ""
        self.is_cancel_asked = False
        self.new_progress = b""
        self.packed: Prepacked | None = None
        """what is said to the store, from when it is done"""
        self.lines: list[bytes] = []

    def __str__(self) -> str:
        return f"job {self.job} ({self.type}) of queue {self.queue!r}"

    @property
    def job(self) -> str:
        """Its id."""
        return self.handed_out.id

    @property
    def type(self) -> str:
        return self.handed_out.type

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        handed_out = self.handed_out
        return handed_out.failures + handed_out.crashes + handed_out.lapses + 1

    @property
    def cancelled(self) -> bool:
        """True as soon as the result is of no use any more; return soon then.

        A job that has seen it and returns is cancelled; one that never looked, and came to its end
        all the same, is done.
        """
        is_cancelled = super().cancelled
        self._has_seen_cancel = self._has_seen_cancel or is_cancelled
        return is_cancelled

    def progress(self, done: float, total: float = 100, data: Any = None) -> None:
        """Say how far it is; `data` is anything that can be written as JSON."""
        packed = pack_progress(make_progress(done, total, data))
        if not self._is_told:
            self.new_progress = packed
            cast("JobOrigin", self.origin).noted(self)

    def log(self, message: object, *values: object) -> None:
        """Add a line to its log. `values` are put into the message as `%` does."""
        text = str(message) % values if values else str(message)
        if not self._is_told:
            self.lines.append(shorten(text, MAX_LINE).encode())
            cast("JobOrigin", self.origin).noted(self)

    def cancel(self) -> None:
        self.is_cancel_asked = True
        super().cancel()

    # What follows is for executors.

    @property
    def path(self) -> str:
        return self.function.path

    def report(self, kind: str, payload: Any) -> None:
        """What a child process says on behalf of the job."""
        if kind == "progress":
            self.progress(*payload)
        else:
            self.log(payload)

    def stop(self, side: Side = "front") -> None:
        """When the function returns, the job goes back to its place at no cost."""
        if not self._is_told:
            self.outcome = "stopped"

    def returned(self, value: object, began_at: float) -> None:
        self.took_s = perf_counter() - began_at
        if self._has_seen_cancel and self.is_cancel_asked:
            self._end_cancelled()
            return
        if self.function.in_process and isinstance(value, bytes) and value.startswith(VERDICT):
            is_final, after_ms, reason, *error = json.loads(value[1:])
            self._failed(Judgement(is_final, after_ms, reason), JobError(*error), None)
            return
        try:
            self.result = value if self.function.in_process else pack_result(value)  # type: ignore[assignment]
            check_payload("result", self.result, self.origin.max_payload)
        except BaseException as error:  # whatever becomes of it, the slot must go on
            self.raised(error, began_at)
            return
        self._note_end(logging.INFO)
        self._tell()

    def raised(self, error: BaseException, began_at: float) -> None:
        self.took_s = perf_counter() - began_at
        failure = describe(error)
        # It may also be another job that was cancelled, and this one waited for its result.
        if failure.type == _CANCELLED and self.is_cancel_asked:
            self._end_cancelled()
            return
        judgement = self._judgement(error)
        if isinstance(error, JobTimeout):
            judgement = judgement._replace(reason="timeout")
        self._failed(judgement, JobError(*failure), error)

    def crashed(self, death: Death, began_at: float) -> None:
        """The process of the job has died under it."""
        self.took_s = perf_counter() - began_at
        self.outcome = "crashed"
        self.result = pack_error(crash_of("process of the job", str(death)))
        self._note_end(logging.WARNING, " how=%s", death)
        self._tell()

    def skipped(self) -> None:
        # Nothing is heard of it if it is not ours any more.
        self._end_cancelled()

    def _end_cancelled(self) -> None:
        self.outcome = "cancelled"
        if not self.origin.is_closed and not self.origin.lease.is_lost:
            self._note_end(logging.INFO)
        self._tell()

    def _tell(self) -> None:
        """From here on nothing that the function still says counts; a thread that was given up
        may go on for a while.
        """
        self._is_told = True
        self.origin.done(self)

    def _note_end(
        self, level: int, more: str = "", *values: object, error: BaseException | None = None
    ) -> None:
        """Write the line of this attempt into the log of the worker."""
        if work_log.isEnabledFor(level):
            work_log.log(
                level,
                "job %s type=%s job=%s queue=%s attempt=%d took_ms=%.3f cpu_ms=%.3f" + more,
                *("dead" if self._is_last else self.outcome, self.type, self.job, self.queue),
                *(self.attempt, 1000 * self.took_s, 1000 * self.cpu_s, *values),
                exc_info=error,
            )

    @property
    def _is_last(self) -> bool:
        """It has failed, and is not tried again."""
        is_spent = self.handed_out.failures + 1 >= self.handed_out.attempts
        return self.outcome == "final" or (self.outcome == "failed" and is_spent)

    def _failed(self, judgement: Judgement, error: JobError, raised: BaseException | None) -> None:
        """`raised` is None if it was raised in another process."""
        self.outcome = "final" if judgement.is_final else "failed"
        self.reason = judgement.reason
        self.delay_ms = self._delay_ms(judgement)
        attempts = self.handed_out.attempts
        if error.type == _RETRY and self.handed_out.failures + 1 >= attempts:
            why = f"{error.message}; no attempt was left (attempts={attempts})"
            error = replace(error, message=why)
        self.result = pack_error(error)
        values: tuple[object, ...]
        more, values = " error=%s: %r", (error.type, error.message)
        if not self._is_last:
            more, values = " again_ms=%d" + more, (self.delay_ms, *values)
        if raised is None or isinstance(raised, RaisedInChild):
            more, values, raised = more + "\n%s", (*values, error.traceback.rstrip()), None
        self._note_end(logging.WARNING, more, *values, error=raised)
        self._tell()

    def _judgement(self, error: BaseException) -> Judgement:
        if isinstance(error, RaisedInChild):
            return Judgement()  # it was judged where its class is known
        try:
            return judge(error, self.function.rules)
        except BaseException:
            log.exception("an error could not be judged, it counts as any other job=%s", self.job)
            return Judgement()

    def _delay_ms(self, judgement: Judgement) -> int:
        if judgement.after_ms is not None:
            return judgement.after_ms
        try:
            backoff = decode_backoff(self.handed_out.backoff)
        except PenstockError as error:
            log.error("the backoff of a job cannot be read, using the default error=%s", error)
            backoff = decode_backoff("")
        strategies = cast("JobOrigin", self.origin).backoffs
        return wait_ms(backoff, self.handed_out.failures + 1, strategies)

    def to_report(self) -> Report:
        """What is said to the store."""
        return Report(
            self.token,
            self.outcome,  # type: ignore[arg-type]
            round(self.took_s * 1e6),
            round(self.cpu_s * 1e6),
            self.delay_ms,
            self.reason,
            self.result,
        )
