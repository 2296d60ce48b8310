"""One connection on which it is told how jobs end, and whoever reads it.

Whoever waits for one job reads for itself at first, if nobody else does: to be told by another
thread would take longer. For everybody else a thread of its own reads. It keeps away for a while
when somebody has read without it, and comes back when that does not happen again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from penstock.client.results.ending_channel import (
    REMOVED,
    AwaitedJob,
    Ending,
    EndingChannel,
    ending_of,
)
from penstock.codec.notices import done_notice, open_notice
from penstock.connection.job_ids import age_of
from penstock.connection.retry import Patience
from penstock.connection.store import Store
from penstock.connection.transport import Listener, pause
from penstock.connection.waker import Waker
from penstock.connection.wire import ConnectionLost, ReplyError, is_passing, pack, store_error
from penstock.errors import PenstockError, StoreUnavailable
from penstock.model.jobs import STATES_BY_CODE
from penstock.store.commands.job_records import read_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """One connection, and everybody who waits for something to be said there."""

    def __init__(self, settings: Settings, keys: QueueKeys, is_sharded: bool) -> None:
        self._store = Store(settings.address, None, settings.timeout_s, settings.dialect)
        self._key = keys.meta
        self._words = ("SSUBSCRIBE", "SUNSUBSCRIBE") if is_sharded else ("SUBSCRIBE", "UNSUBSCRIBE")
        self._lock = threading.Lock()
        self._channels: dict[str, EndingChannel] = {}
        self._new: set[str] = set()
        """channels that are to be opened"""
        self._has_idle_channels = False
        self._asked: Counter[str] = Counter()
        self._confirmed: Counter[str] = Counter()
        """how often each channel was to be opened, and how often it was said to be"""
        self._leaving: Counter[str] = Counter()
        """channels that are about to be closed"""
        self._seen: deque[AwaitedJob] = deque()
        """jobs that are looked at next"""
        self._look_at = 0.0
        self._round_at = 0.0
        self._is_closed = False
        self._patience = Patience(None)
        self._connect_at = 0.0
        self._listener: Listener | None = None
        self._heard_at = 0.0
        self._is_pinged = False
        self._waker = Waker()
        # These two can be used by a thread that is interrupted at any instruction: an RLock knows
        # whether it is held by whoever releases it, and neither is written in Python.
        self._reading = threading.RLock()
        """held by whoever reads; only they may do what is below `_step`"""
        self._calls: SimpleQueue[None] = SimpleQueue()
        """nobody reads for those who wait"""
        self._guest = 0
        """the thread that reads for itself, if one does"""
        self._would_read_at = -inf
        """when somebody last read for itself, or would have"""
        self._thread = threading.Thread(target=self._run, name="penstock-results", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return not self._is_closed

    def add(self, keys: QueueKeys, number: int) -> Future[Ending]:
        """A future of how a job ends, for which the thread reads."""
        if self._guest == threading.get_ident():
            raise RuntimeError(
                "a signal has interrupted a wait for a job, and its handler cannot wait for one in "
                "the same thread; let it note down what to wait for, and wait when it has returned"
            )
        future: Future[Ending] = Future()
        name = keys.ending_channel(number)
        with self._lock:
            if self._is_closed:
                raise _closed()
            channel = self._channels.get(name)
            if channel is None:
                channel = self._channels[name] = EndingChannel()
                self._new.add(name)
            job = channel.jobs.get(number)
            if job is None:
                job = channel.jobs[number] = AwaitedJob(keys, number)
            job.futures.append(future)
            must_look = channel.must_look(number)
            if must_look:
                channel.unseen[number] = job
        if must_look:
            self._waker.wake()
        self._call()
        return future

    def read_for(
        self, keys: QueueKeys, number: int, now: float, timeout_s: float | None
    ) -> Ending | None:
        """How a job ends, if that is told soon and can be read by whoever asks: no other thread has
        to be woken for it, and nothing to be written down.
        """
        name = keys.ending_channel(number)
        channel = self._channels.get(name)
        if channel is None:
            return None
        # So long does the channel stay open although nobody is known to wait.
        channel.idle_since = now
        deadline = now + (_READ_S if timeout_s is None or timeout_s > _READ_S else timeout_s)
        return self._as_guest(self._read_ending, name, channel, number, now, deadline)

    def forget_ending(self, keys: QueueKeys, number: int) -> None:
        """An id is sent again; how a job has ended that had it before, and is gone, does not count.
        That may not have been read yet.
        """
        self._as_guest(self._read_all)
        channel = self._channels.get(keys.ending_channel(number))
        if channel is not None:
            channel.take_ending(number)

    def _as_guest(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Let whoever calls read, if nobody else does."""
        me = threading.get_ident()
        if self._guest == me:
            return None  # a signal has interrupted it
        try:
            if not self._reading.acquire(blocking=False):
                return None
            self._guest = me
            return read(*args, **kwargs)
        except BaseException:
            # Something may have been read and not been passed on: all of it is said again.
            if self._guest == me:
                self._disconnect()
            raise
        finally:
            if self._guest == me:
                self._guest = 0
            try:  # noqa: SIM105 -- anything before the release is where an interrupt could come
                self._reading.release()
            except RuntimeError:
                pass  # somebody else reads
            self._would_read_at = time.monotonic()
            for channel in tuple(self._channels.values()):  # in one step, so without the lock
                if channel.jobs:
                    self._call()

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
            is_said_here = self._channels.get(name) is channel
            if now >= deadline or not is_said_here or not self._can_be_read:
                return None
            notice = self._hear(deadline - now, now)
            if not notice or notice[1] != wanted_name or not notice[2].startswith(wanted):
                if notice:
                    self._ended(notice)
                now = time.monotonic()
                continue
            with self._lock:
                is_for_nobody_else = number not in channel.jobs
                if is_for_nobody_else:
                    # Most often nobody else waits for it, so that nobody has to be told. Whoever
                    # asks later has to look, as this may be removed until then.
                    channel.heard(number, None)
            if not is_for_nobody_else:
                self._ended(notice)
            # As Ending(...) is made, but without a function in Python.
            return tuple.__new__(Ending, ("done", "", notice[2][len(wanted) :]))

    def _read_all(self) -> None:
        """What was said up to now."""
        while self._can_be_read and self._step(0.0):
            pass

    @property
    def _can_be_read(self) -> bool:
        """A guest only reads: to connect and to look things up is for the thread."""
        return self._listener is not None and not self._seen and not self._is_closed

    def forget(self, keys: QueueKeys, number: int, future: Future[Ending]) -> None:
        with self._lock:
            channel = self._channels.get(keys.ending_channel(number))
            job = channel.jobs.get(number) if channel is not None else None
            if channel is None or job is None or future not in job.futures:
                return
            job.futures.remove(future)
            if not job.futures:
                self._drop(channel, number)

    def close(self) -> None:
        self._close()
        me = threading.get_ident()
        # Neither by the thread itself, nor by a signal handler that keeps a guest from going on.
        if me not in (self._thread.ident, self._guest):
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
            while not self._is_closed:
                with self._reading:
                    while not self._can_keep_away():
                        self._step(inf)
                with suppress(Empty):
                    # It may wait until it is called, if it is held up for so long before it waits
                    # (see Arrivals); nobody needs it before that.
                    self._calls.get(timeout=_KEEP_AWAY_S)
            self._fail(_closed())
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._is_closed = True
            with self._reading:
                self.let_go()

    def _is_anybody_waiting(self) -> bool:
        with self._lock:
            return any(channel.jobs for channel in self._channels.values())

    def _can_keep_away(self) -> bool:
        is_read = time.monotonic() - self._would_read_at < _KEEP_AWAY_S
        return self._is_closed or (is_read and not self._is_anybody_waiting())

    def _step(self, at_most_s: float) -> bool:
        """Wait for something to be said, and see to it. Whether something was."""
        notice = self._hear(at_most_s, time.monotonic())
        if notice:
            self._ended(notice)
        return notice is not None

    def _hear(self, at_most_s: float, now: float) -> list[bytes] | None:
        """Wait for something to be said. If that is how a job has ended, whoever calls sees to it;
        of anything else that was seen to here an empty list is left. None: nothing was said.
        """
        try:
            listener = self._listener
            if listener is None:
                self._connect_within(at_most_s, now)
                return None
            if now >= self._round_at:
                self._go_round()
            silent_at = self._heard_at + _SILENCE_S
            if now >= silent_at:
                silent_at = self._break_silence(listener, now)
            if self._seen:
                wait_s = min(at_most_s, silent_at - now, self._look_at - now)
                if wait_s <= 0:
                    self._look()
                    return None
            else:
                linger_s = _LINGER_S if self._has_idle_channels else inf
                wait_s = min(at_most_s, silent_at - now, linger_s)
            message = listener.receive_unless(self._waker, wait_s)
            if message is not None:
                self._heard_at, self._is_pinged = time.monotonic(), False
                if type(message) is list and message[0] in _NOTICES:
                    return message
                self._take(message)
                return []
            if self._waker.was_woken() or self._has_idle_channels:
                self._see_to_channels()
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

    def _break_silence(self, listener: Listener, now: float) -> float:
        """When it has been silent for too long again."""
        if self._is_pinged:
            raise ConnectionLost("the server is silent")
        self._heard_at, self._is_pinged = now, True
        listener.send(pack("PING"))
        return now + _SILENCE_S

    def _go_round(self) -> None:
        """Look at what was not looked at before. An id may be from a clock that is ahead, so that
        its job only seems to be newer than the channel.
        """
        self._round_at = time.monotonic() + _ROUND_S
        with self._lock:
            for channel in self._channels.values():
                channel.unseen.update(
                    (job.number, job) for job in channel.jobs.values() if not job.is_seen
                )
                self._look_soon(channel)

    def _connect(self) -> None:
        listener = Listener(self._store.router.channel_for(self._key))
        listener.open()
        self._listener = listener
        self._seen.clear()
        for counter in (self._asked, self._confirmed, self._leaving):
            counter.clear()
        with self._lock:
            self._channels = {
                name: channel for name, channel in self._channels.items() if channel.jobs
            }
            self._new = set(self._channels)
            for channel in self._channels.values():
                channel.closed()
        self._heard_at, self._is_pinged = time.monotonic(), False
        self._see_to_channels()

    def _disconnect(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _see_to_channels(self) -> None:
        """Open channels that are new, close those that nobody has needed for a while, and look at
        what came to those that are open.
        """
        assert self._listener is not None
        closing: list[str] = []
        now = time.monotonic()
        with self._lock:
            opening, self._new = list(self._new), set()
            for name in opening:
                self._asked[name] += 1
                if (opened := self._channels.get(name)) and not opened.opens_with:
                    opened.opens_with = self._asked[name]
            for name, channel in list(self._channels.items()):
                if not channel.jobs and now - channel.idle_since > _LINGER_S:
                    del self._channels[name]
                    closing.append(name)
                else:
                    self._look_soon(channel)
            self._has_idle_channels = any(not channel.jobs for channel in self._channels.values())
        if closing:
            self._leaving.update(closing)
            self._listener.send(pack(self._words[1], *closing))
        for first in range(0, len(opening), _BATCH):
            self._listener.send(pack(self._words[0], *opening[first : first + _BATCH]))

    def _take(self, message: list[bytes] | bytes | ReplyError) -> None:
        if isinstance(message, ReplyError):
            if str(message).startswith("MOVED") or is_passing(message):
                raise ConnectionLost(str(message))
            raise store_error(message, self._store.address)
        if not isinstance(message, list):
            return  # a PONG, as it comes before the first channel is open
        word, name = message[0], message[1].decode(errors="replace")
        if word in (b"subscribe", b"ssubscribe"):
            self._patience = Patience(None)
            self._confirmed[name] += 1
            with self._lock:
                channel = self._channels.get(name)
                if channel is not None:
                    channel.confirmed(self._confirmed[name])
                    self._look_soon(channel)
        elif word in (b"unsubscribe", b"sunsubscribe"):
            if name not in self._leaving:
                raise ConnectionLost("the channel has moved to another node")
            self._leaving -= Counter([name])

    def _ended(self, message: list[bytes]) -> None:
        name, notice = message[1].decode(errors="replace"), open_notice(message[2])
        state, ending = STATES_BY_CODE.get(notice.state, ""), None
        if notice.state == "-":
            ending = REMOVED
        elif state == "done" and notice.outcome is not None:
            ending = Ending(state, notice.reason, notice.outcome)
        with self._lock:
            channel = self._channels.get(name)
            job = channel.jobs.get(notice.number) if channel is not None else None
            if channel is not None and job is None:
                channel.heard(notice.number, ending)
        if job is None:
            return
        if ending is not None:
            self._resolve(job, ending)
        else:
            # Too large to be told; or it did not go well, and may have been sent back to its queue
            # before whoever waits for it began to.
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
                # Whoever reads may have little time. All are looked at after a reconnect.
                raise ConnectionLost(str(error)) from error
            for job, info in zip(jobs, found, strict=True):
                ending = ending_of(info)
                if ending is not None and (info is not None or job.was_absent):
                    self._resolve(job, ending)
                elif info is None:
                    # It may have ended just now and not be kept: then how it ended is on its way,
                    # and comes before the answer to this.
                    job.was_absent = True
                    name = keys.ending_channel(job.number)
                    with self._lock:
                        if channel := self._channels.get(name):
                            channel.absent[job.number] = (self._asked[name] + 1, job)
                            self._new.add(name)
                    self._see_to_channels()

    def _resolve(self, job: AwaitedJob, ending: Ending) -> None:
        # Those who wait are told before it is forgotten that they do: if this is interrupted, they
        # are told after the reconnect.
        while any(not future.done() for future in job.futures):
            for future in list(job.futures):
                with suppress(InvalidStateError):
                    future.set_result(ending)
        with self._lock:
            channel = self._channels.get(job.keys.ending_channel(job.number))
            if channel is not None and channel.jobs.get(job.number) is job:
                self._drop(channel, job.number)
                channel.heard(job.number, None)
            late, job.futures = job.futures, []
        for future in late:
            with suppress(InvalidStateError):
                future.set_result(ending)

    def _drop(self, channel: EndingChannel, number: int) -> None:
        channel.unseen.pop(number, None)
        channel.absent.pop(number, None)
        del channel.jobs[number]
        if not channel.jobs:
            channel.idle_since = time.monotonic()
            self._has_idle_channels = True

    def _close(self) -> None:
        self._is_closed = True
        self._waker.wake()
        self._call()

    def _call(self) -> None:
        """Somebody waits, and the thread has to read."""
        if self._calls.empty():
            self._calls.put(None)

    def _fail(self, error: BaseException) -> None:
        self._close()
        with self._lock:
            jobs = [job for channel in self._channels.values() for job in channel.jobs.values()]
            self._channels.clear()
        for job in jobs:
            for future in job.futures:
                with suppress(InvalidStateError):
                    future.set_exception(error)


def _closed() -> StoreUnavailable:
    return StoreUnavailable(
        "the client was closed while somebody waited for the end of a job; the job itself goes on, "
        "so ask for its result with another client"
    )
