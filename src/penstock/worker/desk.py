"""Where a thread that has nothing else to do waits for jobs that are handed over.

It hears of a job, runs it, and says what came of it, alone: each thread more that a job passes
through has to be woken first.
"""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any

from penstock.connection.retry import Patience
from penstock.connection.store import Store
from penstock.connection.subscription import Subscription
from penstock.connection.waker import Waker
from penstock.connection.wire import ConnectionLost
from penstock.model.jobs import Report
from penstock.store.commands.jobs import report_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connection.settings import Settings
    from penstock.executors.context import Context
    from penstock.executors.job_context import JobContext
    from penstock.model.jobs import JobClaim
    from penstock.store.command import Command, Operation
    from penstock.store.keys import QueueKeys

_NO_MORE: list[object] = [[], b"empty", -1, []]
_MESSAGES = (b"message", b"smessage")
_NEW = b"the subscription is new"
"""told apart from a message that says the same by being this object"""
_SILENCE_S = 15.0


class Desk:
    """One thread at a time waits here; see ThreadExecutor."""

    def __init__(
        self,
        settings: Settings,
        keys: QueueKeys,
        worker: str,
        take: Callable[[bytes], Context | None],
        opened: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        """`take` makes what is run of a message, or nothing; `opened` is told when jobs can be
        heard of, and may have been missed before; `failed` if that can never be.
        """
        self._store = Store(settings.address, None, settings.timeout_s, settings.dialect)
        self._keys = keys
        self._worker = worker
        self.is_closed = False
        self._take = take
        self._opened = opened
        self._failed = failed
        self._waker = Waker()
        self._messages = _Messages(self._store, keys.meta, keys.hand + worker, self._waker)

    def wait(self) -> Context | None:
        """What to run; None if the thread was called, or should come again for another reason."""
        try:
            message = self._messages.next()
            if message is None or self.is_closed:
                return None
            if message is not _NEW:
                return self._take(message)
            self._opened()
        except Exception as error:
            # It cannot be told whether jobs come, so nobody may count on this worker.
            self.close()
            self._failed(error)
        return None

    def report(self, context: JobContext, limit: int) -> JobClaim | None:
        """Say that a job is done, and ask for up to `limit` more, or to be handed the next. None:
        there are none.
        """
        # As text with no digits after the point, which is to round it.
        said = (
            b"%d" % context.token,
            b"%.0f" % (1e6 * context.took_s),
            b"%.0f" % (1e6 * context.cpu_s),
            context.result,
        )
        try:
            claim = self._store.run_once(lambda operation: self._command(limit, operation, *said))
            is_all = claim.word == "empty" and not claim.refused and not claim.schedules
            return None if is_all and claim.wait_ms < 0 else claim
        finally:
            if self.is_closed:
                self._store.close()  # it was let go of meanwhile

    def _command(self, limit: int, operation: Operation, *said: Any) -> Command[JobClaim]:
        process, ran_us, cpu_us, result = said
        report = Report(process, "done", ran_us, cpu_us, 0, "", result)
        return report_jobs(self._keys, operation, self._worker, [report], limit, wait=True, offer=1)

    def call(self) -> None:
        """Whoever waits is needed elsewhere."""
        self._waker.wake()

    def close(self) -> None:
        """Nobody shall wait here any more. Whoever still does lets go of it afterwards."""
        self.is_closed = True
        self._store.give_up()
        self._waker.wake()

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
                # Whoever listens to one channel need not look which it is.
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
