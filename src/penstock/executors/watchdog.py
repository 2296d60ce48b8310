"""Frees the slot of a job that keeps its thread past its timeout."""

from __future__ import annotations

import logging
import threading
import time
from math import inf
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Literal, NamedTuple

from penstock.errors import JobTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.executors.context import Context

log = logging.getLogger("penstock.worker")

End = Literal["in_time", "late", "replaced"]


class Watchdog:
    """Tells of every job that is not released before its deadline.

    The thread that runs it is replaced, unless `limit` replaced ones are still alive; then the slot
    stays occupied, because threads would pile up without end. The thread of the watchdog itself
    starts with the first job that has a timeout, and sleeps until the nearest deadline.
    """

    def __init__(
        self,
        limit: int,
        replace: Callable[[], None],
        tell: Callable[[Context, JobTimeout, float, bool], None],
    ) -> None:
        self._limit = limit
        self._replace = replace
        self._tell = tell
        self._watched: dict[Context, _Run] = {}
        self._replaced: set[Context] = set()
        """jobs past their deadline that still run in threads that were replaced"""
        self._late: set[Context] = set()
        """jobs past their deadline that keep their slot"""
        self._changed = threading.Condition()
        self._wakes_at = inf
        self._is_running = False
        self._is_closing = False

    def watch(self, context: Context, began_at: float) -> None:
        """Called by the thread that is about to run it."""
        deadline = began_at + context.timeout_s
        run = _Run(began_at, deadline, threading.get_ident(), thread_time())
        with self._changed:
            self._watched[context] = run
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="penstock-watchdog", daemon=True).start()
            elif deadline < self._wakes_at:
                self._changed.notify()

    def release(self, context: Context) -> End:
        """The job has ended by itself. Unless it did so in time, its outcome has been told."""
        with self._changed:
            if self._watched.pop(context, None) is not None:
                return "in_time"
            if context in self._replaced:
                self._replaced.remove(context)
                return "replaced"
            self._late.discard(context)
            return "late"

    @property
    def replaced(self) -> list[Context]:
        """Jobs past their deadline that still run in threads that were replaced."""
        with self._changed:
            return list(self._replaced)

    @property
    def stuck(self) -> int:
        """How many slots are kept by jobs past their deadline."""
        return len(self._late)

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def _run(self) -> None:
        while not self._is_closing:
            given_up = self._give_up()
            for context, began_at, is_replaced in given_up:
                if not is_replaced:
                    log.warning(
                        "a job past its timeout keeps its slot, too many others still run "
                        "queue=%s process=%d others=%d",
                        context.queue,
                        context.token,
                        self._limit,
                    )
                error = JobTimeout(
                    f"the job ran longer than its timeout of {context.timeout_s:g} s and was given "
                    "up, but a thread cannot be ended; give it more time, let it look at "
                    "`penstock.current().cancelled`, or run it in a process"
                )
                self._tell(context, error, began_at, is_replaced)
            if given_up and self.stuck >= self._limit:
                log.error(
                    "all slots are kept by jobs past their timeout, so nothing more is started "
                    "until one ends; start the worker again, and let such jobs look at "
                    "`penstock.current().cancelled` or run with process=True slots=%d",
                    self._limit,
                )

    def _give_up(self) -> list[tuple[Context, float, bool]]:
        """The jobs that are overdue now; if there are none, wait for the next deadline."""
        given_up: list[tuple[Context, float, bool]] = []
        with self._changed:
            now = perf_counter()
            for context, run in list(self._watched.items()):
                if run.deadline <= now < context.moved_at + context.timeout_s:
                    # It is at something else by now, which has its own time.
                    deadline = context.moved_at + context.timeout_s
                    self._watched[context] = run._replace(deadline=deadline)
                elif run.deadline <= now:
                    context.cpu_s = _cpu_s(run)
                    del self._watched[context]
                    is_replaced = len(self._replaced) < self._limit
                    if is_replaced:
                        self._replaced.add(context)
                        self._replace()
                    else:
                        self._late.add(context)
                    given_up.append((context, run.began_at, is_replaced))
            if not given_up and not self._is_closing:
                self._wakes_at = min((run.deadline for run in self._watched.values()), default=inf)
                wait_s = self._wakes_at - now
                self._changed.wait(min(wait_s, threading.TIMEOUT_MAX))
        return given_up


class _Run(NamedTuple):
    began_at: float
    deadline: float
    thread: int
    cpu_began_s: float


def _cpu_s(run: _Run) -> float:
    """The CPU time of a run in another thread, which must be alive: it is while it is watched."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return 0.0  # macOS does not say
    return time.clock_gettime(time.pthread_getcpuclockid(run.thread)) - run.cpu_began_s
