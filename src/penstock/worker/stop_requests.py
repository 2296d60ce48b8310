"""Requests to stop a worker: which signals are some, how often it was asked, and when it has to be
gone.
"""

from __future__ import annotations

import ctypes
import os
import signal
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.worker.shared_memory import SharedMemory

LEAVE_S = 5.0
"""how long a worker may take to leave, after the grace time of what it runs"""
_EXIT_S = 2.0
"""how much longer its process may be there"""
_SAME_S = 0.5
_PR_GET_PDEATHSIG = 2


def stop_signals() -> set[signal.Signals]:
    """Those that ask a worker to stop. A hang-up is ignored under nohup, and stays so."""
    signals = {signal.SIGTERM, signal.SIGINT}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signals.add(signal.SIGHUP)
    return signals


class StopDeadline:
    """When a worker that was asked to stop has to be gone, whatever it runs."""

    def __init__(self, grace_s: float) -> None:
        self.at = inf
        self._grace_s = grace_s
        self._asked = 0

    def asked(self, times: int) -> None:
        """So often in all. The second request takes the grace time away."""
        for time in range(self._asked + 1, min(times, 2) + 1):
            grace_s = self._grace_s if time == 1 else 0.0
            self.at = min(self.at, monotonic() + grace_s + LEAVE_S + _EXIT_S)
        self._asked = max(self._asked, times)

    def given_up(self) -> None:
        """The worker has done what it could, and only its process is still there."""
        self.at = min(self.at, monotonic() + _EXIT_S)

    @property
    def was_asked(self) -> bool:
        return self._asked > 0


class StopRequests:
    """Counts requests to stop, in the worker. A signal to a whole group reaches it twice: directly,
    and through its supervisor. That is one request.
    """

    def __init__(self, shared: SharedMemory) -> None:
        self._shared = shared
        self._passed_on = 0
        self._was_direct: bool | None = None
        """how the last one came; None if its other half has come too"""
        self._heard_at = -inf

    def heard(self) -> int:
        """How many requests the signal that has come stands for."""
        now, before = monotonic(), self._passed_on
        self._passed_on = self._shared.passed_on
        is_direct = self._passed_on == before
        if self._was_direct is (not is_direct) and now - self._heard_at < _SAME_S:
            self._was_direct = None
            return max(0, self._passed_on - before - 1)
        self._was_direct, self._heard_at = is_direct, now
        return max(1, self._passed_on - before)


class Starter:
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
        """Whether a request to stop says what the one before has said."""
        if not self._is_told_of_death or sent.si_pid != self._pid:
            return False
        before, self._heard_at = self._heard_at, monotonic()
        has_died = os.getppid() != self._pid
        return before > -inf and (has_died or self._heard_at - before < _SAME_S)
