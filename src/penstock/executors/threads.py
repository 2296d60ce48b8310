"""Runs plain functions, in threads."""

from __future__ import annotations

import threading
import time
from queue import Empty
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Protocol

from penstock.executors.context import Context
from penstock.executors.line import LEASE_POLL_S, Line
from penstock.executors.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.errors import JobTimeout


class Desk(Protocol):
    """Where jobs come in that were not asked for; see penstock.worker.desk."""

    is_closed: bool

    def wait(self) -> Context | None: ...
    def call(self) -> None: ...
    def close(self) -> None: ...
    def let_go(self) -> None: ...


class ThreadExecutor(Line):
    """A fixed number of threads that take tasks from one line.

    If there is a desk, one of those that have nothing to do waits there instead. It is called when
    the others do not suffice.

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
        self._desk: Desk | None = None
        self._at_desk = threading.Lock()
        """held by the thread that waits at the desk"""
        self._is_attended = False

    def start(self) -> None:
        for _ in range(self.slots):
            self._start_thread()

    def submit(self, contexts: Iterable[Context]) -> None:
        super().submit(contexts)
        # Whoever goes to the desk says so first, and then looks at the line once more.
        if self._is_attended and self.load >= self.slots:
            self._call()

    def attend(self, desk: Desk) -> None:
        """From now on jobs come in here too."""
        self._desk = desk
        if self.load < self.slots:
            # Somebody has time to go there. This counts as a task until then, which is at once.
            self._line.put(None)

    def dismiss(self, desk: Desk) -> None:
        """From now on they do not."""
        self._desk = None
        desk.close()
        self._let_go(desk)

    @property
    def stuck(self) -> int:
        """Slots that are kept by jobs past their timeout."""
        return self._watchdog.stuck

    def cancel(self, context: Context) -> None:
        """Tell the handler; it ends when it chooses to."""
        context.cancel()

    def close(self) -> None:
        """Let threads end after what they are doing; they are not waited for."""
        self._watchdog.close()
        self._is_closing = True
        for _ in range(self.slots):
            self._line.put(None)
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
                self._call()  # whoever submitted more could not count this one yet
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
            # Free before the outcome is told, so that whoever hears of it finds the slot free.
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
        if self._desk is not None:
            try:
                return self._line.get_nowait()
            except Empty:
                pass
            if self._at_desk.acquire(blocking=False):
                return self._wait_at_desk()
        return self._line.get()

    def _wait_at_desk(self) -> Context | None:
        desk, context = self._desk, None
        try:
            self._is_attended = True
            if (
                desk is not None
                and not desk.is_closed
                and not self._is_closing
                and not self.waiting
            ):
                context = desk.wait()
        finally:
            self._is_attended = False
            self._at_desk.release()
        if desk is not None and desk.is_closed:
            if self._desk is desk:
                self._desk = None
            self._let_go(desk)
        return context

    def _let_go(self, desk: Desk) -> None:
        """If nobody waits there; else whoever does is about to leave, and comes here."""
        if self._at_desk.acquire(blocking=False):
            desk.let_go()
            self._at_desk.release()

    def _call(self) -> None:
        desk = self._desk
        if desk is not None:
            desk.call()

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
