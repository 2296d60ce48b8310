"""Runs plain functions, in threads."""

from __future__ import annotations

import threading
import time
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Protocol

from penstock.executors.backlog import LEASE_POLL_S, Backlog
from penstock.executors.context import Context
from penstock.executors.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.errors import JobTimeout


class Handoff(Protocol):
    """Where jobs come in that were not asked for; see penstock.worker.handoff."""

    is_closed: bool

    def wait(self) -> Context | None: ...
    def call(self) -> None: ...
    def close(self) -> None: ...
    def let_go(self) -> None: ...


class ThreadExecutor(Backlog):
    """A fixed number of threads that take tasks from one backlog.

    If there is a handoff, one of the idle threads waits there instead, and is called back when the
    others do not suffice.

    They are daemons: a handler that never returns must not keep the process from ending, and its
    task is given back by then.

    A thread cannot be ended. A job past its timeout is reported as such all the same, and a new
    thread takes the place of the one that it occupies.
    """

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self._watchdog = Watchdog(slots, self._start_thread, self._timed_out)
        self._threads = 0
        self._is_closing = False
        self._handoff: Handoff | None = None
        self._waiting_thread = threading.Lock()
        """held by the one that waits at the handoff"""
        self._is_attended = False

    def start(self) -> None:
        for _ in range(self.slots):
            self._start_thread()

    def submit(self, contexts: Iterable[Context]) -> None:
        super().submit(contexts)
        # A thread that goes to the handoff says so first, and then looks for tasks once more.
        if self._is_attended and self.load >= self.slots:
            self._call()

    def attend(self, handoff: Handoff) -> None:
        """From now on jobs come in here too."""
        self._handoff = handoff
        if self.load < self.slots:
            # An idle thread takes this as the sign to go there, at once.
            self._call_threads(1)

    def dismiss(self, handoff: Handoff) -> None:
        """From now on they do not."""
        self._handoff = None
        handoff.close()
        self._let_go(handoff)

    @property
    def stuck(self) -> int:
        """Slots that are kept by jobs past their timeout."""
        return self._watchdog.stuck

    def cancel(self, context: Context) -> None:
        """Tell the handler; it ends when it chooses to."""
        context.cancel()

    @property
    def running(self) -> list[Context]:
        """What runs, and what has run since its timeout though another thread has its place."""
        return [*self._running, *self._watchdog.replaced]

    @property
    def is_running(self) -> bool:
        """Whether something runs whose outcome counts."""
        return bool(self._running)

    def close(self) -> None:
        """Let threads end after what they are doing; they are not waited for."""
        self._watchdog.close()
        self._is_closing = True
        self._call_threads(self.slots)
        self._call()

    def _start_thread(self) -> None:
        threading.Thread(target=self._serve, name=f"penstock-{self._threads}", daemon=True).start()
        self._threads += 1

    def _serve(self) -> None:
        while not self._is_closing:
            context = self._next()
            if context is None:
                continue
            self._running.add(context)
            if self._is_attended and self.waiting and self.load >= self.slots:
                self._call()  # `submit` could not count this one yet
            if not context.may_begin and not self._wait_to_begin(context):
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
            # Free before the outcome is told, so that the driver that hears of it finds it free.
            self._running.discard(context)
            if error is None:
                context.returned(value, began_at)
            else:
                context.raised(error, began_at)

    def _wait_to_begin(self, context: Context) -> bool:
        """Until the lease is known to be valid, or lost; False if nothing is to be run then."""
        while context.must_wait:
            time.sleep(LEASE_POLL_S)
        if context.is_void:
            self._running.discard(context)
            context.skipped()
            return False
        return True

    def _next(self) -> Context | None:
        """What is next; None: look around."""
        if self._handoff is not None:
            if (context := self._take()) is not None:
                return context
            if self._waiting_thread.acquire(blocking=False):
                return self._wait_for_handoff()
        return self._wait_and_take()

    def _wait_for_handoff(self) -> Context | None:
        handoff, context = self._handoff, None
        try:
            self._is_attended = True
            if (
                handoff is not None
                and not handoff.is_closed
                and not self._is_closing
                and not self.waiting
            ):
                context = handoff.wait()
        finally:
            self._is_attended = False
            self._waiting_thread.release()
        if handoff is not None and handoff.is_closed:
            if self._handoff is handoff:
                self._handoff = None
            self._let_go(handoff)
        return context

    def _let_go(self, handoff: Handoff) -> None:
        """If no thread waits there; else the one that does is about to leave, and comes here."""
        if self._waiting_thread.acquire(blocking=False):
            handoff.let_go()
            self._waiting_thread.release()

    def _call(self) -> None:
        handoff = self._handoff
        if handoff is not None:
            handoff.call()

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
