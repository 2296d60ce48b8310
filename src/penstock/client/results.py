"""Waiting for jobs to end: any number of them, on one connection (on a cluster, one for each
queue).

A thread listens to the channels of the jobs that somebody waits for. It looks at each job once when
its channel is open, and again after every reconnect, so nothing is missed and nobody polls. A job
that was sent just now has hardly ended before that, so the look is put off for a moment: often the
end comes first, and the look is saved.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from penstock.client._sync.store import Store
from penstock.client._sync.transport import Listener, pause
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
    from penstock.model.jobs import JobInfo
    from penstock.store.keys import QueueKeys

log = logging.getLogger("penstock.client")

_SILENCE_S = 15.0
_BATCH = 200
_FRESH_S = 0.1
_PUT_OFF_S = 0.003


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


class _Job:
    """One job, and everybody who waits for it."""

    def __init__(self, keys: QueueKeys, id_number: int) -> None:
        self.keys = keys
        self.number = id_number
        self.channel = keys.job_channel(id_number)
        self.futures: list[Future[Ending]] = []
        self.was_absent = False


class _Watch:
    """One connection and the thread that reads it."""

    def __init__(self, settings: Settings, keys: QueueKeys, is_sharded: bool) -> None:
        self._store = Store(settings.address, None, settings.timeout_s, settings.dialect)
        self._key = keys.meta
        self._words = ("SSUBSCRIBE", "SUNSUBSCRIBE") if is_sharded else ("SUBSCRIBE", "UNSUBSCRIBE")
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        self._new: deque[_Job] = deque()
        self._seen: deque[_Job] = deque()
        self._look_at = 0.0
        """when to look at what is in `_seen`"""
        self._forgotten: deque[str] = deque()
        self._awaited: set[str] = set()
        """the channels by which queues know that somebody waits, as far as they are open"""
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

    def add(self, keys: QueueKeys, id_number: int) -> Future[Ending]:
        future: Future[Ending] = Future()
        channel = keys.job_channel(id_number)
        with self._lock:
            if self._is_closed:
                raise _closed()
            job = self._jobs.get(channel)
            if job is None:
                job = self._jobs[channel] = _Job(keys, id_number)
                self._new.append(job)
            job.futures.append(future)
        self._call()
        return future

    def forget(self, keys: QueueKeys, id_number: int, future: Future[Ending]) -> None:
        with self._lock:
            job = self._jobs.get(keys.job_channel(id_number))
            if job is None or future not in job.futures:
                return
            job.futures.remove(future)
            if job.futures:
                return
            del self._jobs[job.channel]
            self._forgotten.append(job.channel)
        self._call()

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
        self._subscribe()
        is_pinged = False
        while not self._is_closed:
            must_look = bool(self._seen) and not self._is_busy()
            wait_s = self._look_at - time.monotonic() if must_look else _SILENCE_S
            if wait_s <= 0:
                self._look()
                continue
            message = self._listener.receive_unless(self._called, wait_s)
            if message is not None:
                is_pinged = False
                self._take(message)
            elif self._drain():
                self._subscribe()
            elif must_look:
                continue
            elif is_pinged:
                raise ConnectionLost("the server is silent")
            else:
                is_pinged = True
                self._listener.send(pack("PING"))

    def _is_busy(self) -> bool:
        """More confirmations are about to come, and can be looked at together."""
        with self._lock:
            return len(self._seen) < min(_BATCH, self._unconfirmed)

    _unconfirmed = 0

    def _connect(self) -> None:
        listener = Listener(self._store.router.channel_for(self._key))
        listener.open()
        self._listener = listener
        self._unconfirmed = 0
        self._awaited.clear()
        self._seen.clear()
        with self._lock:
            self._new = deque(self._jobs.values())

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

    def _subscribe(self) -> None:
        assert self._listener is not None
        with self._lock:
            new = [job for job in self._new if self._jobs.get(job.channel) is job]
            self._new.clear()
            forgotten = [name for name in self._forgotten if name not in self._jobs]
            self._forgotten.clear()
        if forgotten:
            self._listener.send(pack(self._words[1], *forgotten))
        for first in range(0, len(new), _BATCH):
            batch = new[first : first + _BATCH]
            # Before the jobs themselves: where nobody is known to wait, nothing is said of them.
            awaited = {job.keys.awaited for job in batch} - self._awaited
            self._awaited |= awaited
            channels = [*awaited, *(job.channel for job in batch)]
            self._unconfirmed += len(channels)
            self._listener.send(pack(self._words[0], *channels))

    def _take(self, message: list[bytes] | bytes | ReplyError) -> None:
        if isinstance(message, ReplyError):
            if str(message).startswith("MOVED") or is_passing(message):
                raise ConnectionLost(str(message))
            raise store_error(message, self._store.address)
        if not isinstance(message, list):
            return  # a PONG, as it comes before the first channel is open
        word, channel = message[0], message[1].decode(errors="replace")
        job = self._jobs.get(channel)
        if word in (b"subscribe", b"ssubscribe"):
            self._unconfirmed -= 1
            self._patience = Patience(None)
            if job is not None:
                is_fresh = age_of(job.number) < _FRESH_S and not job.was_absent
                self._look_soon(job, _PUT_OFF_S if is_fresh else 0.0)
        elif word in (b"message", b"smessage") and job is not None:
            notice = open_notice(message[2])
            if notice.state == "-":
                self._resolve(job, _REMOVED)
            elif notice.outcome is None:
                self._look_soon(job, 0.0)
            else:
                state = STATES_BY_CODE[notice.state]
                self._resolve(job, Ending(state, notice.reason, notice.outcome))

    def _look_soon(self, job: _Job, put_off_s: float) -> None:
        look_at = time.monotonic() + put_off_s
        self._look_at = min(look_at, self._look_at) if self._seen else look_at
        self._seen.append(job)

    def _look(self) -> None:
        """See whether jobs have ended already."""
        by_queue: dict[QueueKeys, list[_Job]] = {}
        for _ in range(min(_BATCH, len(self._seen))):
            job = self._seen.popleft()
            if self._jobs.get(job.channel) is not job:
                continue  # how it ended has come meanwhile
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
                    with self._lock:
                        self._new.append(job)
                    self._subscribe()

    def _resolve(self, job: _Job, ending: Ending) -> None:
        with self._lock:
            self._jobs.pop(job.channel, None)
            futures, job.futures = job.futures, []
        for future in futures:
            if future.set_running_or_notify_cancel():
                future.set_result(ending)
        # Last, as the connection may be lost by now.
        if self._listener is not None:
            self._listener.send(pack(self._words[1], job.channel))

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._is_closed = True
            jobs = list(self._jobs.values())
            self._jobs.clear()
        for job in jobs:
            for future in job.futures:
                if future.set_running_or_notify_cancel():
                    future.set_exception(error)


def _closed() -> StoreUnavailable:
    return StoreUnavailable(
        "the client was closed while somebody waited for the end of a job; the job itself goes on, "
        "so ask for its result with another client"
    )
