"""Drives a feed from a thread that waits for jobs: it hears of a job, runs it and reports it.

The event loop has no part in that, as each thread that a job passes through has to be woken first.
Everything else is left to the pump of the same feed.
"""

from __future__ import annotations

import select
from time import monotonic
from typing import TYPE_CHECKING, Any

from penstock.connection.retry import Patience
from penstock.connection.store import Store
from penstock.connection.subscription import Subscription
from penstock.connection.waker import Waker
from penstock.connection.wire import ConnectionLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connection.settings import Settings
    from penstock.executors.context import Context
    from penstock.executors.threads import ThreadExecutor
    from penstock.worker.pump import Pump
    from penstock.worker.sources.jobs import JobSource

_MESSAGES = (b"message", b"smessage")
_NEW = b"the subscription is new"
"""told apart from a message that says the same by being this object"""
_SILENCE_S = 15.0


class Handoff:
    """For the only queue of a worker, if all its jobs run in threads. One thread at a time waits
    here; see ThreadExecutor.
    """

    def __init__(
        self,
        pump: Pump,
        source: JobSource,
        settings: Settings,
        threads: ThreadExecutor,
        tasks_wait: Callable[[], None],
    ) -> None:
        """`tasks_wait` is told when something waits behind a job that came in here."""
        self._pump = pump
        self._feed = pump.feed
        self._source = source
        self._threads = threads
        self._tasks_wait = tasks_wait
        self._store = Store(
            settings.address, None, settings.timeout_s, settings.dialect, settings.server
        )
        self._last: Context | None = None
        """the job that came in here last"""
        self._waker = Waker()
        channel = source.keys.hand + source.worker
        source.channels.remove(channel)  # it is heard here instead
        source.done = self.done
        self._messages = _Messages(self._store, source.keys.meta, channel, self._waker)
        self.is_closed = False
        threads.attend(self)

    # From the thread that waits here.

    def wait(self) -> Context | None:
        """What to run; None if the thread was called, or should come again for another reason."""
        try:
            message = self._messages.next()
            if message is None or self.is_closed:
                return None
            if message is not _NEW:
                return self._take(message)
            self._pump.tell(self._pump.look_again)
        except Exception as error:
            # It cannot be told whether jobs come, so nobody may count on this worker.
            failure = error
            self.close()
            self._pump.tell(lambda: self._pump.fail(failure))
        return None

    def _take(self, message: bytes) -> Context | None:
        try:
            context = self._source.open_pushed(message)
        except Exception as error:
            self._pump.not_understood(error)
            return None
        pump = self._pump
        with pump.lock:
            is_ours = self._feed.pushed(context, monotonic())
            is_asking = not self._feed.is_between_requests
            is_due = self._feed.has_steps or self._feed.wake_at < pump.timer_at
        if is_due:
            pump.tell(pump.turn)
        if not is_ours:
            return None
        self._last = context
        if is_asking or self._threads.waiting:
            pump.tell(self._tasks_wait)  # behind this one, as nobody could foresee
        return context

    def done(self, context: Context) -> None:
        """Report a job that came in here, and wait for the next, if there is nothing else to be
        said or done; else the event loop does it.
        """
        if context is not self._last or not self._report(context):
            self._pump.done(context)

    def _report(self, context: Context) -> bool:
        self._last = None
        pump, feed = self._pump, self._feed
        if context.outcome != "done":
            return False
        self._source.prepare(context)
        with pump.lock:
            request = feed.report_alone(context, monotonic())
        if request is None:
            return False
        try:
            claim = self.send(request.command)
        except Exception:
            # The loop gets the same answer, and knows what to make of it.
            with pump.lock:
                feed.unanswered(request, monotonic())
            pump.tell(pump.turn)
            return True
        with pump.lock:
            now = monotonic()
            feed.answered(request, claim, now)
            step = feed.next(now)
            is_due = step is not None or feed.wake_at < pump.timer_at
        if is_due:
            pump.tell(lambda: pump.resume(step))
        return True

    def send(self, build: Any) -> Any:
        try:
            return self._store.run_once(build)
        finally:
            if self.is_closed:
                self._store.close()  # it was let go of meanwhile

    # From the executor and the worker.

    def call(self) -> None:
        """The thread that waits is needed elsewhere."""
        self._waker.wake()

    def close(self) -> None:
        """Nobody shall wait here any more. The thread that still does lets go of it afterwards."""
        self.is_closed = True
        self._store.give_up()
        self._waker.wake()

    def dismiss(self) -> None:
        """Close it, and have the executor forget it."""
        self._threads.dismiss(self)

    def let_go(self) -> None:
        """End the connections. Nobody must be waiting."""
        self._messages.close()
        self._store.close()
        self._waker.close()


class _Messages(Subscription):
    """Stops waiting when the waker rings, also while there is no connection."""

    def __init__(self, store: Store, key: str, channel: str, waker: Waker) -> None:
        super().__init__(store, key, [channel])
        self._waker = waker
        self._patience = Patience(None)
        self._pause_s = 0.0
        self._aside: list[Any] = []
        """what was heard, if it is none of the usual"""

    def next(self) -> bytes | None:
        """The next message, or `_NEW` as soon as there can be some. None: come again, as nothing
        came, or there is no connection; it is tried only once to make one.
        """
        try:
            if self._listener is None:
                return self._connect()
            heard = self._hear(_SILENCE_S)
            if type(heard) is list and heard[0] in _MESSAGES:
                # It listens to one channel alone, so there is no need to look which it is.
                self._is_pinged = False
                return heard[2]  # type: ignore[no-any-return]
            self._aside.append(heard)
            message = self._next()
            return message[1] if message is not None else None
        except _Rung:
            return None
        except ConnectionLost:
            self.close()
            self._store.router.forget()
            self._pause_s = self._patience.next_wait_s() or 0.0
            return None

    def _connect(self) -> bytes | None:
        if self._is_rung_within(self._pause_s):
            return None
        self._open()
        self._patience, self._pause_s = Patience(None), 0.0
        return _NEW

    def _hear(self, timeout_s: float) -> Any:
        if self._aside:
            return self._aside.pop()
        message = self._opened().receive_unless(self._waker, timeout_s)
        if message is None and self._waker.was_woken():
            raise _Rung
        return message

    def _is_rung_within(self, seconds: float) -> bool:
        ready = select.poll()
        ready.register(self._waker, select.POLLIN)
        return bool(ready.poll(1000 * seconds)) and self._waker.was_woken()


class _Rung(Exception):
    """The waker was rung before anything was said."""
