"""Waits for the ends of jobs on one connection.

A caller that waits for one job reads from the connection itself at first, unless another thread
reads: to be told by another thread would take longer. For all other callers a thread of the watch
reads. It keeps away for a while after a caller has read, and comes back when callers stop reading.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from math import inf
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from penstock.client.results.awaited_jobs import AwaitedJobs, closed
from penstock.client.results.ending_channel import REMOVED, Ending, ending_of
from penstock.client.results.ending_listener import EndingListener
from penstock.client.results.reader_lock import ReaderLock
from penstock.codec.notices import done_notice, open_notice
from penstock.connection.job_ids import age_of
from penstock.connection.retry import Patience
from penstock.connection.store import Store
from penstock.connection.transport import pause
from penstock.connection.waker import Waker
from penstock.connection.wire import ConnectionLost, ReplyError
from penstock.errors import PenstockError, StoreUnavailable
from penstock.model.jobs import STATES_BY_CODE
from penstock.store.commands.job_records import read_jobs

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock.client.results.ending_channel import AwaitedJob, EndingChannel
    from penstock.connection.settings import Settings
    from penstock.store.keys import QueueKeys

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("penstock.client")

_SILENCE_S = 15.0
_ROUND_S = 15.0
_BATCH = 200
_FRESH_S = 0.1
_PUT_OFF_S = 0.003
_LINGER_S = 2.0
_KEEP_AWAY_S = 0.5
_READ_S = 1.0
_NOTICES = (b"message", b"smessage")


class Watch:
    """One connection, and all callers that wait for something to be told there."""

    def __init__(self, settings: Settings, keys: QueueKeys, is_sharded: bool) -> None:
        self._store = Store(
            settings.address, None, settings.timeout_s, settings.dialect, settings.server
        )
        self._key = keys.meta
        self._is_sharded = is_sharded
        self._awaited = AwaitedJobs()
        self._seen: deque[AwaitedJob] = deque()
        """jobs that are looked at next"""
        self._look_at = 0.0
        self._round_at = 0.0
        self._patience = Patience(None)
        self._connect_at = 0.0
        self._listener: EndingListener | None = None
        self._waker = Waker()
        self._reader = ReaderLock()
        """only the thread that holds it may call `_step` and what that calls"""
        self._thread = threading.Thread(target=self._run, name="penstock-results", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return not self._awaited.is_closed

    def add(self, keys: QueueKeys, number: int) -> Future[Ending]:
        """A future of how a job ends, for which the thread reads."""
        if self._reader.caller == threading.get_ident():
            raise RuntimeError(
                "a signal has interrupted a wait for a job, and its handler cannot wait for one in "
                "the same thread; let it note down what to wait for, and wait when it has returned"
            )
        future, must_look = self._awaited.add(keys, number)
        if must_look:
            self._waker.wake()
        self._reader.call_thread()
        return future

    def read_for(
        self, keys: QueueKeys, number: int, now: float, timeout_s: float | None
    ) -> Ending | None:
        """How a job ends, if that is told soon and the calling thread can read it: then no other
        thread has to be woken for it, and nothing to be written down.
        """
        name = keys.ending_channel(number)
        channel = self._awaited.channels.get(name)
        if channel is None:
            return None
        # Keeps the channel open, as this caller is not among those that are known to wait.
        channel.idle_since = now
        deadline = now + (_READ_S if timeout_s is None or timeout_s > _READ_S else timeout_s)
        return self._read_here(self._read_ending, name, channel, number, now, deadline)

    def forget_ending(self, keys: QueueKeys, number: int) -> None:
        """An id is sent again; how a job has ended that had it before, and is gone, does not count.
        That may not have been read yet.
        """
        self._read_here(self._read_all)
        channel = self._awaited.channels.get(keys.ending_channel(number))
        if channel is not None:
            channel.take_ending(number)

    def _read_here(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Let the calling thread read, unless another one does."""
        try:
            # If reading is cut off, something may have been read and not been passed on. After a
            # reconnect all of it is told again.
            return self._reader.read_here(self._disconnect, read, *args, **kwargs)
        finally:
            # The lock may be held by what a signal has interrupted. A tuple is made in one step.
            for channel in tuple(self._awaited.channels.values()):
                if channel.jobs:
                    self._reader.call_thread()

    def _read_ending(
        self, name: str, channel: EndingChannel, number: int, now: float, deadline: float
    ) -> Ending | None:
        # Prepared while there is nothing else to do: from when the end is told, every step counts.
        wanted_name, wanted = name.encode(), done_notice(number)
        while True:
            if not channel.is_yet_to_end(number):
                ending = channel.take_ending(number)
                if ending is not None or number not in channel.absent:
                    return ending
            is_said_here = self._awaited.channels.get(name) is channel
            if now >= deadline or not is_said_here or not self._can_be_read:
                return None
            notice = self._hear(deadline - now, now)
            if not notice or notice[1] != wanted_name or not notice[2].startswith(wanted):
                if notice:
                    self._ended(notice)
                now = time.monotonic()
                continue
            with self._awaited.lock:
                is_for_nobody_else = number not in channel.jobs
                if is_for_nobody_else:
                    # Most often no other caller waits for it, so that none has to be told. A caller
                    # that asks later has to look, as the job may be removed until then.
                    channel.heard(number, None)
            if not is_for_nobody_else:
                self._ended(notice)
            # As Ending(...) is made, but without a function in Python.
            return tuple.__new__(Ending, ("done", "", notice[2][len(wanted) :]))

    def _read_all(self) -> None:
        """Read all messages that have come."""
        while self._can_be_read and self._step(0.0):
            pass

    @property
    def _can_be_read(self) -> bool:
        """A caller only reads; the thread connects and looks jobs up."""
        return self._listener is not None and not self._seen and not self._awaited.is_closed

    def forget(self, keys: QueueKeys, number: int, future: Future[Ending]) -> None:
        """The caller that has this future does not wait any more."""
        self._awaited.forget(keys, number, future)

    def close(self) -> None:
        self._close()
        me = threading.get_ident()
        # Neither by the thread itself, nor by a signal handler that keeps a reading caller waiting.
        if me not in (self._thread.ident, self._reader.caller):
            self._thread.join(5.0)

    def let_go(self) -> None:
        """Close the connections, and nothing else: in a child, they are still those of the
        parent.
        """
        self._disconnect()
        self._store.close()
        self._waker.close()

    def _run(self) -> None:
        try:
            while not self._awaited.is_closed:
                with self._reader.lock:
                    while not self._can_keep_away():
                        self._step(inf)
                self._reader.wait_for_call(_KEEP_AWAY_S)
            self._fail(closed())
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._awaited.is_closed = True
            with self._reader.lock:
                self.let_go()

    def _can_keep_away(self) -> bool:
        is_read = self._reader.has_read_here(_KEEP_AWAY_S)
        return self._awaited.is_closed or (is_read and not self._awaited.is_any())

    def _step(self, at_most_s: float) -> bool:
        """Wait for a message and handle it; returns whether one came."""
        notice = self._hear(at_most_s, time.monotonic())
        if notice:
            self._ended(notice)
        return notice is not None

    def _hear(self, at_most_s: float, now: float) -> list[bytes] | None:
        """Wait for a message. Returns one that says how a job has ended, for the caller to handle;
        an empty list for any other, which was handled here; None if there was no message.
        """
        try:
            listener = self._listener
            if listener is None:
                self._connect_within(at_most_s, now)
                return None
            if now >= self._round_at:
                self._go_round()
            silent_at = listener.break_silence(now, _SILENCE_S)
            if self._seen:
                wait_s = min(at_most_s, silent_at - now, self._look_at - now)
                if wait_s <= 0:
                    self._look()
                    return None
            else:
                linger_s = _LINGER_S if self._awaited.has_idle_channels else inf
                wait_s = min(at_most_s, silent_at - now, linger_s)
            message = listener.receive_unless(self._waker, wait_s)
            if message is not None:
                if type(message) is list and message[0] in _NOTICES:
                    return message
                self._take(listener, message)
                return []
            if self._waker.was_woken() or self._awaited.has_idle_channels:
                self._see_to_channels(listener)
        except ConnectionLost:
            self._disconnect()
            self._store.router.forget()
            self._connect_at = time.monotonic() + (self._patience.next_wait_s() or 0)
        except PenstockError as error:
            log.error("waiting for results failed error=%s", error)
            self._fail(error)
        return None

    def _connect_within(self, at_most_s: float, now: float) -> None:
        if now < self._connect_at:
            pause(min(self._connect_at - now, at_most_s))
        else:
            self._connect()

    def _go_round(self) -> None:
        """Look at what was not looked at before. An id may be from a clock that is ahead, so that
        its job only seems to be newer than the channel.
        """
        self._round_at = time.monotonic() + _ROUND_S
        with self._awaited.lock:
            for channel in self._awaited.channels.values():
                channel.unseen.update(
                    (job.number, job) for job in channel.jobs.values() if not job.is_seen
                )
                self._look_soon(channel)

    def _connect(self) -> None:
        self._listener = EndingListener(self._store, self._key, self._is_sharded)
        self._seen.clear()
        self._awaited.disconnected()
        self._see_to_channels(self._listener)

    def _disconnect(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _see_to_channels(self, listener: EndingListener) -> None:
        """Open channels that are new, close those on which no caller has waited for a while, and
        look at the jobs that were added to those that are open.
        """
        closing: list[str] = []
        now = time.monotonic()
        with self._awaited.lock:
            opening, self._awaited.new = list(self._awaited.new), set()
            for name in opening:
                listener.asked[name] += 1
                if (opened := self._awaited.channels.get(name)) and not opened.opens_with:
                    opened.opens_with = listener.asked[name]
            for name, channel in list(self._awaited.channels.items()):
                if not channel.jobs and now - channel.idle_since > _LINGER_S:
                    del self._awaited.channels[name]
                    closing.append(name)
                else:
                    self._look_soon(channel)
            self._awaited.has_idle_channels = any(
                not channel.jobs for channel in self._awaited.channels.values()
            )
        listener.close_channels(closing)
        listener.open_channels(opening)

    def _take(self, listener: EndingListener, message: list[bytes] | bytes | ReplyError) -> None:
        name = listener.find_confirmed(message)
        if name is None:
            return
        self._patience = Patience(None)
        with self._awaited.lock:
            channel = self._awaited.channels.get(name)
            if channel is not None:
                channel.confirmed(listener.confirmed[name])
                self._look_soon(channel)

    def _ended(self, message: list[bytes]) -> None:
        name, notice = message[1].decode(errors="replace"), open_notice(message[2])
        state, ending = STATES_BY_CODE.get(notice.state, ""), None
        if notice.state == "-":
            ending = REMOVED
        elif state == "done" and notice.outcome is not None:
            ending = Ending(state, notice.reason, notice.outcome)
        job = self._awaited.heard(name, notice.number, ending)
        if job is None:
            return
        if ending is not None:
            self._awaited.resolve(job, ending)
        else:
            # Too large to be told; or it did not go well, and may have been sent back to its queue
            # before the caller that waits for it began to wait.
            self._look_at = 0.0
            self._seen.append(job)

    def _look_soon(self, channel: EndingChannel) -> None:
        if not channel.unseen or not channel.is_open:
            return
        jobs, channel.unseen = list(channel.unseen.values()), {}
        for job in jobs:
            job.is_seen = True
        are_fresh = all(age_of(job.number) < _FRESH_S and not job.was_absent for job in jobs)
        look_at = time.monotonic() + (_PUT_OFF_S if are_fresh else 0.0)
        self._look_at = min(look_at, self._look_at) if self._seen else look_at
        self._seen.extend(jobs)

    def _look(self) -> None:
        """See whether jobs have ended already."""
        listener = self._listener
        assert listener is not None
        by_queue: dict[QueueKeys, list[AwaitedJob]] = {}
        for _ in range(min(_BATCH, len(self._seen))):
            job = self._seen.popleft()
            if job.futures:  # else how it ended has come meanwhile
                by_queue.setdefault(job.keys, []).append(job)
        for keys, jobs in by_queue.items():
            command = read_jobs(keys, [job.number for job in jobs], with_data=False)
            try:
                found = self._store.run_soon(command)
            except StoreUnavailable as error:
                # The caller that reads may have little time left. After a reconnect all jobs are
                # looked at again.
                raise ConnectionLost(str(error)) from error
            for job, info in zip(jobs, found, strict=True):
                ending = ending_of(info)
                if ending is not None and (info is not None or job.was_absent):
                    self._awaited.resolve(job, ending)
                elif info is None:
                    # It may have ended just now and not be kept: then how it ended is on its way,
                    # and comes before the answer to this.
                    job.was_absent = True
                    name = keys.ending_channel(job.number)
                    with self._awaited.lock:
                        if channel := self._awaited.channels.get(name):
                            channel.absent[job.number] = (listener.asked[name] + 1, job)
                            self._awaited.new.add(name)
                    self._see_to_channels(listener)

    def _close(self) -> None:
        self._awaited.is_closed = True
        self._waker.wake()
        self._reader.call_thread()

    def _fail(self, error: BaseException) -> None:
        self._close()
        self._awaited.fail(error)
