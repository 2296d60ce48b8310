"""Waiting for jobs to end: any number of them, on one connection (on a cluster, one for each
queue).

A thread listens to the channels on which it is told how jobs end: one for all jobs that were sent
by the same process. It looks at each job once when the channel is open, and again after every
reconnect, so nothing is missed and nobody polls. A job that was sent just now has hardly ended
before that, so the look is put off for a moment: often the end comes first, and the look is saved.
A job that was made while the channel was open needs none. The channel stays open for a while when
nobody waits any more, as whoever has waited for a job is likely to wait for another.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import Counter, deque
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from penstock.client._sync.store import Store
from penstock.client._sync.transport import Listener, pause
from penstock.client.ending_channel import AwaitedJob, EndingChannel
from penstock.client.job_ids import age_of
from penstock.client.retry import Patience
from penstock.client.wire import ConnectionLost, ReplyError, is_passing, pack, store_error
from penstock.codec.records import open_notice
from penstock.errors import PenstockError, StoreUnavailable
from penstock.model.jobs import STATES_BY_CODE
from penstock.store.commands.job_records import read_jobs
from penstock.store.script import CLUSTER

if TYPE_CHECKING:
    from penstock.client.settings import Settings
    from penstock.codec.records import Notice
    from penstock.model.jobs import JobInfo
    from penstock.store.keys import QueueKeys

log = logging.getLogger("penstock.client")

_SILENCE_S = 15.0
_ROUND_S = 15.0
_BATCH = 200
_FRESH_S = 0.1
_PUT_OFF_S = 0.003
_LINGER_S = 2.0


class Ending(NamedTuple):
    """How a job has ended."""

    state: str
    """done, dead, cancelled; or removed"""
    reason: str
    outcome: bytes


_REMOVED = Ending("removed", "", b"")


def ending_of(info: JobInfo | None) -> Ending | None:
    """How a job has ended that was read, or found to be gone; None if it has not."""
    if info is None:
        return _REMOVED
    return Ending(info.state, info.reason, info.outcome) if info.is_final else None


class Results:
    """Everything that one client waits for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._is_sharded = settings.dialect is not None and (
            settings.dialect.channels == CLUSTER.channels
        )
        self._by_process = {os.getpid(): _Watches()}
        self._is_closed = False

    def watch(self, keys: QueueKeys, id_number: int) -> Future[Ending]:
        """A future of how a job ends; forget it when it is of no interest any more.

        Raises StoreUnavailable once the client is closed.
        """
        mine, place = self._mine(), self._place(keys)
        with mine.lock:
            if self._is_closed:
                raise StoreUnavailable(
                    "the client was closed, so it cannot wait for jobs any more; ask for the "
                    "result with another client"
                )
            watch = mine.by_place.get(place)
            if watch is None or not watch.is_alive:
                watch = mine.by_place[place] = _Watch(self._settings, keys, self._is_sharded)
            return watch.add(keys, id_number)

    def forget(self, keys: QueueKeys, id_number: int, future: Future[Ending]) -> None:
        """Nobody waits for this any more."""
        mine = self._mine()
        with mine.lock:
            watch = mine.by_place.get(self._place(keys))
        if watch is not None:
            watch.forget(keys, id_number, future)

    def close(self) -> None:
        mine = self._mine()
        with mine.lock:
            self._is_closed = True
            watches, mine.by_place = mine.by_place, {}
        for watch in watches.values():
            watch.close()

    def _place(self, keys: QueueKeys) -> str:
        return keys.queue if self._is_sharded else ""

    def _mine(self) -> _Watches:
        """The watches of this process. After a fork they are new: a child has neither the threads
        of its parent nor a right to its connections, and if another thread held a lock at that
        moment, nobody in the child would ever give it back.
        """
        process = os.getpid()
        mine = self._by_process.get(process)
        if mine is None:
            # In one step, because several threads of the child may come here at once.
            mine = self._by_process.setdefault(process, _Watches())
            for other in set(self._by_process) - {process}:
                for watch in self._by_process.pop(other, _Watches()).by_place.values():
                    watch.let_go()
        return mine


class _Watches:
    """The connections of one process: one, or one for each queue."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_place: dict[str, _Watch] = {}


class _Watch:
    """One connection and the thread that reads it."""

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
        self._listener: Listener | None = None
        self._called, self._caller = socket.socketpair()
        self._called.setblocking(False)
        self._caller.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="penstock-results", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive() and not self._is_closed

    def add(self, keys: QueueKeys, number: int) -> Future[Ending]:
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
            self._call()
        return future

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
        self._is_closed = True
        self._call()
        if self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def let_go(self) -> None:
        """Close the connections, and nothing else: in a child, they are still those of the
        parent.
        """
        self._disconnect()
        self._store.close()
        self._called.close()
        self._caller.close()

    def _call(self) -> None:
        with suppress(OSError):  # enough calls are waiting already, or it is over
            self._caller.send(b"!")

    def _run(self) -> None:
        try:
            while not self._is_closed:
                try:
                    self._connect()
                    self._listen()
                except ConnectionLost:
                    self._disconnect()
                    self._store.router.forget()
                    pause(self._patience.next_wait_s() or 0)
            self._fail(_closed())
        except PenstockError as error:
            log.error("waiting for results failed error=%s", error)
            self._fail(error)
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._is_closed = True
            self.let_go()

    def _listen(self) -> None:
        assert self._listener is not None
        self._see_to_channels()
        heard_at, is_pinged = time.monotonic(), False
        while not self._is_closed:
            now = time.monotonic()
            if now >= self._round_at:
                self._go_round()
            if now - heard_at >= _SILENCE_S:
                if is_pinged:
                    raise ConnectionLost("the server is silent")
                heard_at, is_pinged = now, True
                self._listener.send(pack("PING"))
            wait_s = heard_at + _SILENCE_S - now
            if self._seen:
                wait_s = min(wait_s, self._look_at - now)
                if wait_s <= 0:
                    self._look()
                    continue
            elif self._has_idle_channels:
                wait_s = min(wait_s, _LINGER_S)
            message = self._listener.receive_unless(self._called, wait_s)
            if message is not None:
                heard_at, is_pinged = time.monotonic(), False
                self._take(message)
            elif self._drain() or self._has_idle_channels:
                self._see_to_channels()

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

    def _disconnect(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _drain(self) -> bool:
        """Whether somebody has called."""
        try:
            return bool(self._called.recv(4096))
        except BlockingIOError:
            return False

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
        elif word in (b"message", b"smessage"):
            self._ended(name, open_notice(message[2]))
        elif word in (b"unsubscribe", b"sunsubscribe"):
            if name not in self._leaving:
                raise ConnectionLost("the channel has moved to another node")
            self._leaving -= Counter([name])

    def _ended(self, name: str, notice: Notice) -> None:
        with self._lock:
            channel = self._channels.get(name)
            job = channel.jobs.get(notice.number) if channel is not None else None
            if channel is not None and job is None:
                channel.heard(notice.number)
        if job is None:
            return
        state = STATES_BY_CODE.get(notice.state, "")
        if notice.state == "-":
            self._resolve(job, _REMOVED)
        elif state == "done" and notice.outcome is not None:
            self._resolve(job, Ending(state, notice.reason, notice.outcome))
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
            found = self._store.run(read_jobs(keys, [job.number for job in jobs], with_data=False))
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
        with self._lock:
            channel = self._channels.get(job.keys.ending_channel(job.number))
            if channel is not None and channel.jobs.get(job.number) is job:
                self._drop(channel, job.number)
                channel.heard(job.number)
            futures, job.futures = job.futures, []
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(ending)

    def _drop(self, channel: EndingChannel, number: int) -> None:
        channel.unseen.pop(number, None)
        channel.absent.pop(number, None)
        del channel.jobs[number]
        if not channel.jobs:
            channel.idle_since = time.monotonic()
            self._has_idle_channels = True

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._is_closed = True
            jobs = [job for channel in self._channels.values() for job in channel.jobs.values()]
            self._channels.clear()
        for job in jobs:
            for future in job.futures:
                if future.set_running_or_notify_cancel():
                    future.set_exception(error)


def _closed() -> StoreUnavailable:
    return StoreUnavailable(
        "the client was closed while somebody waited for the end of a job; the job itself goes on, "
        "so ask for its result with another client"
    )
