"""One task on its way through an executor, and what came of it."""

from __future__ import annotations

import logging
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import PenstockError
from penstock.model.queues import check_payload, check_side

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.queues import Side
    from penstock.model.workers import Lease

log = logging.getLogger("penstock.worker")
work_log = logging.getLogger("penstock.work")
"""has a line for each task and job that has ended; by itself, as there can be many"""


class Origin(Protocol):
    """The queue of a task, as its worker serves it."""

    queue: str
    worker: str
    lease: Lease
    handle: Callable[[bytes, Context], Any]
    max_payload: int
    resources: Any
    is_closed: bool

    def done(self, context: Context) -> None:
        """Take note of an outcome; called from wherever the task ran."""


class Context:
    """What a handler is told about its task, and how it says what is to become of it."""

    __slots__ = (
        "_is_cancelled",
        "cpu_s",
        "origin",
        "outcome",
        "result",
        "side",
        "task",
        "token",
        "took_s",
    )

    timeout_s = 0.0
    """how long it may run; 0 is for ever"""
    moved_at = 0.0
    """when it began with what it does now, of several things that each have that time; 0: there is
    one thing
    """

    def __init__(self, origin: Origin, process: int, task: bytes) -> None:
        self.origin = origin
        self.token = process
        self.task = task
        self._is_cancelled = False
        self.outcome = "finished"
        self.result = b""
        self.side: Side = "front"
        self.took_s = 0.0
        self.cpu_s = 0.0

    def __str__(self) -> str:
        return f"process {self.token} of queue {self.queue!r}"

    @property
    def worker(self) -> str:
        """The id of the worker that holds the task."""
        return self.origin.worker

    @property
    def queue(self) -> str:
        return self.origin.queue

    @property
    def resources(self) -> Any:
        """What the lifespan hook of the worker has yielded; None without one."""
        return self.origin.resources

    @property
    def cancelled(self) -> bool:
        """True as soon as the result is of no use any more.

        The task was cancelled, its queue was deleted, or the worker lost it.
        """
        return self._is_cancelled or self.origin.lease.is_lost

    @property
    def holds_lease(self) -> bool:
        """False while somebody else may already be running this task."""
        return self.origin.lease.is_valid

    def finish(self, result: bytes = b"") -> None:
        """When the handler returns, the task is finished with this result (the default, with
        none).
        """
        check_payload("result", result, self.origin.max_payload)
        self.outcome, self.result = "finished", result

    def stop(self, side: Side = "front") -> None:
        """When the handler returns, the task goes back to its queue at no cost."""
        check_side(side)
        self.outcome, self.side = "stopped", side

    def cancel(self) -> None:
        self._is_cancelled = True

    # What follows is for executors.

    @property
    def for_child(self) -> bytes:
        """What a child process is given."""
        return self.task

    @property
    def must_stop(self) -> bool:
        """It is to begin nothing more, if it does several things."""
        return False

    @property
    def may_begin(self) -> bool:
        """It need not wait, and is not void: both in one question, as it is asked of every task."""
        origin = self.origin
        return origin.lease.is_valid and not origin.is_closed and not self._is_cancelled

    @property
    def must_wait(self) -> bool:
        """The lease has run out and nobody has said yet whether it is lost."""
        lease = self.origin.lease
        return not lease.is_valid and not lease.is_lost and not self.origin.is_closed

    @property
    def is_void(self) -> bool:
        """Nothing is to be run: the task was lost or given back, or it was cancelled before it
        began.
        """
        origin = self.origin
        return origin.is_closed or self._is_cancelled or origin.lease.is_lost

    def returned(self, value: object, began_at: float) -> None:
        """The handler returned `value`."""
        self.took_s = perf_counter() - began_at
        if value is not None:
            try:
                check_payload("result", value, self.origin.max_payload)  # type: ignore[arg-type]
            except PenstockError as error:
                self.raised(error, began_at)
                return
            self.result = value  # type: ignore[assignment]
        if work_log.isEnabledFor(logging.INFO):
            line = "task %s queue=%s process=%d took_ms=%.3f"
            work_log.info(line, self.outcome, self.queue, self.token, 1000 * self.took_s)
        self.origin.done(self)

    def raised(self, error: BaseException, began_at: float) -> None:
        """The handler raised `error`."""
        self.took_s = perf_counter() - began_at
        self.outcome = "failed"
        work_log.warning(
            "task failed queue=%s process=%d took_ms=%.3f error=%r",
            *(self.queue, self.token, 1000 * self.took_s, error),
            exc_info=error,
        )
        self.origin.done(self)

    def skipped(self) -> None:
        """Nothing was run: the task was cancelled before its handler began, or is ours no more."""
        self.origin.done(self)
