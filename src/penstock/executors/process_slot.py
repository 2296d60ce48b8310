"""One slot for jobs in processes: its child, and what is under way in it."""

from __future__ import annotations

import signal
import socket
import time
from contextlib import suppress
from functools import partial
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from penstock.codec.failures import Failure, RaisedInChild
from penstock.errors import JobCancelled, JobCrashed, JobTimeout
from penstock.executors.backlog import LEASE_POLL_S
from penstock.executors.child_process import ChildProcess

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.errors import PenstockError
    from penstock.executors.death import Death
    from penstock.executors.pipe import Message

    Tell = Callable[[], None]

_START_S = 60.0
_TRIES = 3
_KILL_S = 1.0
"""between SIGTERM and SIGKILL"""


class ProcessJob(Protocol):
    """What is used of the context of a job, or of messages for a consumer."""

    token: int
    timeout_s: float
    moved_at: float
    cpu_s: float

    @property
    def path(self) -> str:
        """module:qualname of an object whose `run_in_child` is called"""

    @property
    def for_child(self) -> bytes:
        """What `run_in_child` is given."""

    @property
    def worker(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def job(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def queue(self) -> str: ...
    @property
    def must_wait(self) -> bool: ...
    @property
    def is_void(self) -> bool: ...
    @property
    def must_stop(self) -> bool:
        """It is to begin nothing more, if it does several things."""

    def skipped(self) -> None: ...
    def returned(self, value: object, began_at: float) -> None: ...
    def raised(self, error: BaseException, began_at: float) -> None: ...
    def crashed(self, death: Death, began_at: float) -> None: ...
    def report(self, kind: str, payload: object) -> None: ...


class ProcessSlot:
    """Used by the thread that serves it; other threads may only call `cancel` and `close`."""

    def __init__(self, modules: list[str], cancel_grace_s: float) -> None:
        self._modules = modules
        self._cancel_grace_s = cancel_grace_s
        self._child: ChildProcess | None = None
        self._death: Death | None = None
        """of the child before"""
        self._job: object = None
        self._cancelled: object = None
        self._is_closing = False
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)

    def cancel(self, job: object) -> None:
        """Has no effect unless the job is under way here."""
        if self._job is job:
            self._cancelled = job
            self._wake()

    def close(self) -> None:
        """Stop using the child. The thread that serves the slot gets `Closing`, also while it
        waits.
        """
        self._is_closing = True
        self._wake()

    def perform(self, job: ProcessJob) -> Tell:
        """Run a job, and return how to tell what came of it."""
        began_at = perf_counter()
        # A cancel that came before this shows in `is_void`; one that comes later reaches the slot.
        self._job = job
        try:
            for _ in range(_TRIES):
                child = None if job.is_void else self._ready_child()
                self._wait_for_lease(job)
                if job.is_void:
                    return job.skipped
                began_at = perf_counter()
                if child is not None and (tell := self._run(child, job, began_at)):
                    return tell
            raise JobCrashed(
                f"{_TRIES} processes died before the job had begun in them, the last with "
                f"{self._death}; see what kills them, such as a lack of memory"
            )
        except Exception as error:
            self._end_child()
            return partial(job.raised, error, began_at)
        finally:
            self._job = self._cancelled = None

    def end(self) -> None:
        self._end_child()
        self._woken.close()
        self._waker.close()

    def _end_child(self) -> None:
        if self._child is not None:
            self._death = self._child.end()
            self._child = None

    def _ready_child(self) -> ChildProcess | None:
        """None if it died before it was ready."""
        if self._child is not None and self._child.is_gone:
            self._end_child()
        if self._is_closing:
            raise Closing
        if self._child is None:
            self._child = ChildProcess(self._modules, self._woken.fileno())
        child = self._child
        deadline = perf_counter() + _START_S
        while not child.is_ready:
            for message in self._hear(child, deadline):
                if message.kind == "unready":
                    raise self._unready("{type}: {message}".format_map(message.header))
            if child.is_gone:
                self._end_child()
                return None
            if perf_counter() >= deadline:
                raise self._unready(f"it took more than {_START_S:g} s")
        return child

    def _unready(self, reason: str) -> JobCrashed:
        return JobCrashed(
            f"no process could be made ready for the job ({reason}); "
            f"see that {', '.join(map(repr, self._modules))} can be imported in a new process"
        )

    def _wait_for_lease(self, job: ProcessJob) -> None:
        while job.must_wait and not self._is_closing:
            time.sleep(LEASE_POLL_S)
        if self._is_closing:
            raise Closing

    def _run(self, child: ChildProcess, job: ProcessJob, began_at: float) -> Tell | None:
        """None if the child died before the job had begun, as it may between two jobs."""
        child.begin(
            job.for_child,
            path=job.path,
            type=job.type,
            job=job.job,
            queue=job.queue,
            worker=job.worker,
            token=job.token,
            attempt=job.attempt,
            timeout_s=job.timeout_s,
        )
        timeout_at = began_at + job.timeout_s if job.timeout_s > 0 else inf
        cancel_at = kill_at = inf
        has_begun = is_stopped = False
        verdict: PenstockError | None = None
        while not child.is_gone:
            # Read before the clock, so that a result that came in time counts.
            for message in self._hear(child, min(timeout_at, cancel_at, kill_at)):
                if message.kind == "begun":
                    has_begun = True
                elif message.kind == "report":
                    job.report(message.header["what"], message.header["payload"])
                elif verdict is None:
                    return _outcome(job, message, began_at)
            if timeout_at < inf:
                timeout_at = max(began_at, job.moved_at) + job.timeout_s
            if not is_stopped and job.must_stop:
                child.stop()
                is_stopped = True
            now = perf_counter()
            if now >= kill_at:
                child.signal(signal.SIGKILL)
                kill_at = inf
            elif verdict is None and now >= min(timeout_at, cancel_at):
                verdict = _timeout(job) if now >= timeout_at else self._cancellation()
                child.signal(signal.SIGTERM)
                timeout_at, cancel_at, kill_at = inf, inf, now + _KILL_S
            elif verdict is None and self._cancelled is job and cancel_at == inf:
                child.cancel()
                cancel_at = now + self._cancel_grace_s
        death = child.end()
        self._child, self._death = None, death
        job.cpu_s = death.cpu_s
        if verdict is not None:
            return partial(job.raised, verdict, began_at)
        if not has_begun:
            return None
        return partial(job.crashed, death, began_at)

    def _hear(self, child: ChildProcess, until: float) -> list[Message]:
        messages = child.hear(until)
        with suppress(BlockingIOError):
            self._woken.recv(64)
        if self._is_closing:
            raise Closing
        return messages

    def _wake(self) -> None:
        with suppress(OSError):  # it is awake as it is, or has ended
            self._waker.send(b"\0")

    def _cancellation(self) -> JobCancelled:
        return JobCancelled(
            f"the job was cancelled and still ran {self._cancel_grace_s:g} s later, so its process "
            "was ended; to end by itself, it has to look at "
            "`penstock.current().cancelled`"
        )


class Closing(BaseException):
    """The slot is being closed."""


def _timeout(job: ProcessJob) -> JobTimeout:
    return JobTimeout(
        f"the job ran longer than its timeout of {job.timeout_s:g} s and its process was ended; "
        "give it more time, or less to do"
    )


def _outcome(job: ProcessJob, message: Message, began_at: float) -> Tell:
    job.cpu_s = message.header["run_cpu_s"]
    if message.kind == "returned":
        return partial(job.returned, message.body, began_at)
    failure = Failure(*(message.header[name] for name in Failure._fields))
    return partial(job.raised, RaisedInChild(failure), began_at)
