"""Watches a worker from outside, so that somebody is left to tell when it is killed.

What takes the worker's process down cannot be reported by the worker: a crash in C code, `os._exit`
in a job, the kernel out of memory. Its parent learns the signal and the peak memory from the
kernel. It writes both to the records of the jobs that the worker held, and gives them back at once,
where peers would have to wait until the lease ends.

Linux only: elsewhere the worker runs alone.
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
import signal
import sys
from dataclasses import replace
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from penstock.client.client import Penstock
from penstock.errors import PenstockError
from penstock.executors.death import RSS_UNIT, Death, death_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connection.settings import Settings

log = logging.getLogger("penstock.worker")

CAN_SUPERVISE = sys.platform == "linux"
_PASSED_ON = frozenset(
    {
        *(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT),
        *(signal.SIGUSR1, signal.SIGUSR2),
    }
)
_STOPPING = (signal.SIGTERM, signal.SIGINT)
_ENDING = (*_STOPPING, signal.SIGHUP)
_FROM_KEYS = (signal.SIGINT, signal.SIGQUIT)
_SAME_S = 0.5
_BURY_S = 5.0
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG = 1, 2
_SHARED_BYTES = 4096


class SharedMemory:
    """What worker and supervisor tell each other, in memory that both have."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _SHARED_BYTES)

    @property
    def worker(self) -> str:
        """The id under which the worker is registered; empty before, and when it has left."""
        return self._memory[1:].rstrip(b"\0").decode()

    def name_worker(self, worker: str) -> None:
        self._memory[1:] = worker.encode().ljust(_SHARED_BYTES - 1, b"\0")

    @property
    def passed_on(self) -> int:
        """How many requests to stop the supervisor has passed on."""
        return self._memory[0]

    def pass_on(self) -> None:
        self._memory[0] = min(255, self._memory[0] + 1)


class StopRequests:
    """Counts requests to stop, in the worker. A signal to a whole group reaches it twice: directly,
    and through its supervisor. That is one request.
    """

    def __init__(self, shared: SharedMemory | None) -> None:
        self._shared = shared
        self._passed_on = 0
        self._was_direct: bool | None = None
        """how the last one came; None if its other half has come too"""
        self._heard_at = -inf

    def heard(self) -> int:
        """How many requests the signal that has come stands for."""
        now, before = monotonic(), self._passed_on
        self._passed_on = 0 if self._shared is None else self._shared.passed_on
        is_direct = self._passed_on == before
        if self._was_direct is (not is_direct) and now - self._heard_at < _SAME_S:
            self._was_direct = None
            return max(0, self._passed_on - before - 1)
        self._was_direct, self._heard_at = is_direct, now
        return max(1, self._passed_on - before)


def supervise(settings: Settings, work: Callable[[SharedMemory], int]) -> int:
    """Run `work` in a child process. This returns in both: in the child what `work` returns, in the
    parent how the child has ended, as a shell says it.

    For a process that has no other threads yet, and nothing to do afterwards but to exit.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the program that started this may ignore it
    # Blocked from before the child exists, so that none is missed on the way to it.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    shared = SharedMemory()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    supervisor = os.getpid()
    child = os.fork()
    if child == 0:
        _end_with(supervisor)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return work(shared)
    death = _watch(child, shared)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # from here on they end this process
    if shared.worker:
        _bury(settings, shared.worker, death)
    if death.signal in _ENDING:
        # Somebody has asked for it, and is to see that it was so.
        signal.signal(death.signal, signal.SIG_DFL)
        os.kill(os.getpid(), death.signal)
    if death.signal:
        return 128 + death.signal
    return death.exit_status or int(shared.worker != "")  # a job may end its worker with any status


def _end_with(supervisor: int) -> None:
    """A supervisor that is killed takes the worker along, as the kill is meant for both."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # it was too quick for that
        os._exit(1)


def _watch(child: int, shared: SharedMemory) -> Death:
    """Pass signals on until the child ends. Those of a terminal's keys it gets by itself."""
    parent = _Parent()
    while True:
        sent = signal.sigwaitinfo({*_PASSED_ON, signal.SIGCHLD})
        if sent.si_signo != signal.SIGCHLD:
            if parent.repeats(sent):
                continue
            is_from_process = sent.si_code <= 0
            if is_from_process or sent.si_signo not in _FROM_KEYS:
                if sent.si_signo in _STOPPING:
                    shared.pass_on()
                os.kill(child, sent.si_signo)
            continue
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            return death_of(os.waitstatus_to_exitcode(status), usage.ru_maxrss * RSS_UNIT)


class _Parent:
    """The process that has started this one. If the kernel was asked for a signal when it dies
    (as on Spark executors), it sends one for each of its threads. That is one request.
    """

    def __init__(self) -> None:
        self._pid = os.getppid()
        self._heard_at = -inf
        asked = ctypes.c_int(0)
        ctypes.CDLL(None).prctl(_PR_GET_PDEATHSIG, ctypes.byref(asked))
        self._is_told_of_death = asked.value != 0

    def repeats(self, sent: signal.struct_siginfo) -> bool:
        """Whether a signal says what the one before has said."""
        is_its_own = sent.si_pid == self._pid and sent.si_signo in _STOPPING
        if not self._is_told_of_death or not is_its_own:
            return False
        before, self._heard_at = self._heard_at, monotonic()
        has_died = os.getppid() != self._pid
        return before > -inf and (has_died or self._heard_at - before < _SAME_S)


def _bury(settings: Settings, worker: str, death: Death) -> None:
    log.error("worker died id=%s how=%s", worker, death)
    try:
        with Penstock(replace(settings, retry_for_s=_BURY_S)) as client:
            client.open()
            returned = client.fail_worker(worker, str(death))
    except PenstockError as error:
        log.error("peers give its work back when its lease ends, as this failed: %s", error)
    else:
        log.info("gave its work back id=%s returned=%d dead=%d", worker, *returned)
