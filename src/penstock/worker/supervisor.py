"""Watches a worker from outside, so that somebody is left to tell when it is killed, and to end it
when it does not stop.

What takes the worker's process down cannot be reported by the worker: a crash in C code, `os._exit`
in a job, the kernel out of memory. Its parent learns the signal and the peak memory from the
kernel. It writes both to the records of the jobs that the worker held, and gives them back at once,
where peers would have to wait until the lease ends.

A worker that is too busy to renew its lease keeps it, see `late_beats.py`.

A worker that was asked to stop may be kept from it by what it runs. Its parent kills it when it has
had its time, and gives its work back at no cost.

Linux only: elsewhere the worker runs alone.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from penstock.executors.death import RSS_UNIT, Death, death_of
from penstock.worker.giving_back import give_back
from penstock.worker.late_beats import LateBeats
from penstock.worker.shared_memory import SharedMemory
from penstock.worker.stop_requests import Starter, StopDeadline, stop_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connection.settings import Settings

log = logging.getLogger("penstock.worker")

CAN_SUPERVISE = sys.platform == "linux"
RENEWED = 75
"""the exit status of a worker that has left in order, so that another takes its place"""
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PASSED_ON = frozenset({*_ENDING, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})
_FROM_KEYS = (signal.SIGINT, signal.SIGQUIT)
_PR_SET_PDEATHSIG = 1


def supervise(settings: Settings, grace_s: float, work: Callable[[SharedMemory], int]) -> int:
    """Run `work` in a child process, and again in another for as long as it returns RENEWED. This
    returns in both: in the child what `work` returns, in the parent how the last child has ended,
    as a shell says it.

    For a process that has no other threads yet, and nothing to do afterwards but to exit.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the program that started this may ignore it
    # Blocked from before the child exists, so that none is missed on the way to it, and in the
    # parent to the end: one more request to stop must not end it in another way than the first.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*_PASSED_ON, signal.SIGCHLD})
    supervisor = os.getpid()
    while True:
        shared = SharedMemory(supervisor)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        child = os.fork()
        if child == 0:
            _end_with(supervisor)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return work(shared)
        watch = _Watch(child, shared, grace_s)
        with LateBeats(settings, child, shared):
            death = watch.until_death()
        if death.exit_status != RENEWED or not watch.has_left or watch.was_stopped:
            break
    if shared.worker and (watch.has_killed or shared.has_given_up):
        give_back(settings, shared.worker)
    elif shared.worker:
        log.error("worker died id=%s how=%s", shared.worker, death)
        if not watch.was_stopped:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # from here on they end this process
        give_back(settings, shared.worker, how=str(death))
    return _status(watch, death, mask)


def _end_with(supervisor: int) -> None:
    """A supervisor that is killed takes the worker along, as the kill is meant for both."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # it was too quick for that
        os._exit(1)


class _Watch:
    """Passes signals on until the child ends, and sees to it that it does when it was asked to."""

    def __init__(self, child: int, shared: SharedMemory, grace_s: float) -> None:
        self.has_killed = False
        self._child = child
        self._shared = shared
        self._starter = Starter()
        self._stop_signals = stop_signals()
        self._stops = 0
        """requests to stop that came here"""
        self._has_given_up = False
        self._deadline = StopDeadline(grace_s)

    def until_death(self) -> Death:
        while (death := self._death()) is None:
            sent = _next_signal(until=self._deadline.at)
            if sent is not None and sent.si_signo != signal.SIGCHLD:
                self._hear(sent)
            self._deadline.asked(max(self._stops, self._shared.stops))
            if self._shared.has_given_up and not self._has_given_up:
                self._has_given_up = True
                self._deadline.given_up()
            if monotonic() >= self._deadline.at:
                self._kill()
        return death

    @property
    def was_stopped(self) -> bool:
        """Somebody has asked for the end."""
        return self._deadline.was_asked

    @property
    def has_left(self) -> bool:
        """The worker has left in order, as far as it could, or was never registered."""
        return not self._shared.worker or self._shared.has_given_up

    def _death(self) -> Death | None:
        ended, status, usage = os.wait4(self._child, os.WNOHANG)
        if not ended:
            return None
        return death_of(os.waitstatus_to_exitcode(status), usage.ru_maxrss * RSS_UNIT)

    def _hear(self, sent: signal.struct_siginfo) -> None:
        is_stop = sent.si_signo in self._stop_signals
        if is_stop and self._starter.repeats(sent):
            return
        self._stops += is_stop
        is_from_process = sent.si_code <= 0
        if not is_from_process and sent.si_signo in _FROM_KEYS:
            return  # a terminal sends those to the child too
        if is_stop:
            self._shared.pass_on()
        os.kill(self._child, sent.si_signo)

    def _kill(self) -> None:
        log.warning(
            "the worker has had its time to stop and is still there, so it is killed id=%s",
            self._shared.worker,
        )
        os.kill(self._child, signal.SIGKILL)
        self._deadline.at = inf
        self.has_killed = True


def _next_signal(until: float) -> signal.struct_siginfo | None:
    """None if none has come by then."""
    signals = {*_PASSED_ON, signal.SIGCHLD}
    if until == inf:
        return signal.sigwaitinfo(signals)
    return signal.sigtimedwait(signals, max(0.0, until - monotonic()))


def _status(watch: _Watch, death: Death, mask: set[int]) -> int:
    if watch.has_killed:
        return 0  # as was asked for
    if death.signal in _ENDING:
        # Somebody has asked for it before the worker listened, and is to see that it was so.
        signal.signal(death.signal, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.kill(os.getpid(), death.signal)
    if death.signal:
        return 128 + death.signal
    if death.exit_status == RENEWED and watch.has_left:
        return 0  # it was asked to stop as well
    return death.exit_status or int(not watch.has_left)  # a job may end its worker with any status
