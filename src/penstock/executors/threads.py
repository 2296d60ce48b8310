"""Runs plain functions, in threads."""

from __future__ import annotations

import threading
import time
from time import perf_counter, thread_time
from typing import TYPE_CHECKING

from penstock.executors.assignment import Context
from penstock.executors.line import LEASE_POLL_S, Line
from penstock.executors.watchdog import Watchdog

if TYPE_CHECKING:
    from penstock.errors import JobTimeout


class ThreadExecutor(Line):
    """A fixed number of threads that take tasks from one line.

    They are daemons: a handler that never returns must not keep the process from ending, and its
    task is given back by then.

    A thread cannot be ended. A job past its timeout is reported as such all the same, and a new
    thread takes the place of the one that it occupies.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self._watchdog = Watchdog(slots, self._start_thread, self._timed_out)
        self._threads = 0

    def start(self) -> None:
        for _ in range(self.slots):
            self._start_thread()

    def cancel(self, context: Context) -> None:
        """Tell the handler; it ends when it chooses to."""
        context.cancel()

    def close(self) -> None:
        """Let threads end after what they are doing; they are not waited for."""
        self._watchdog.close()
        for _ in range(self.slots):
            self._line.put(None)

    def _start_thread(self) -> None:
        threading.Thread(target=self._serve, name=f"penstock-{self._threads}", daemon=True).start()
        self._threads += 1

    def _serve(self) -> None:
        get = self._line.get
        while (context := get()) is not None:
            self._running.add(context)
            while context.must_wait:
                time.sleep(LEASE_POLL_S)
            if context.is_void:
                self._running.discard(context)
                context.skipped()
                continue
            if type(context) is not Context:
                if not self._run_job(context):
                    return
                continue
            began_at = perf_counter()
            error: BaseException | None = None
            try:
                value = context.origin.handle(context.task, context)
            except BaseException as raised:
                error = raised
            self.moved_at = perf_counter()
            # Free before the outcome is told, so that whoever hears of it finds the slot free.
            self._running.discard(context)
            if error is None:
                context.returned(value, began_at)
            else:
                context.raised(error, began_at)

    def _run_job(self, context: Context) -> bool:
        """As for a plain task, and with a timeout; False if another thread has taken this one's
        place.
        """
        is_watched = context.timeout_s > 0
        began_at = perf_counter()
        if is_watched:
            self._watchdog.watch(context, began_at)
        error: BaseException | None = None
        cpu_began_s = thread_time()
        try:
            value = context.origin.handle(context.task, context)
        except BaseException as raised:
            error = raised
        cpu_s = thread_time() - cpu_began_s
        end = self._watchdog.release(context) if is_watched else "in_time"
        self.moved_at = perf_counter()
        self._running.discard(context)
        if end == "in_time":
            context.cpu_s = cpu_s
            if error is None:
                context.returned(value, began_at)
            else:
                context.raised(error, began_at)
        return end != "replaced"

    def _timed_out(
        self, context: Context, error: JobTimeout, began_at: float, is_replaced: bool
    ) -> None:
        if is_replaced:
            self.moved_at = perf_counter()
            self._running.discard(context)
        context.raised(error, began_at)
        # Only now, as it was not the cancel that ended it; a handler that looks may end at last.
        context.cancel()
