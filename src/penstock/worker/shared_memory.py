"""What a worker and its supervisor tell each other."""

from __future__ import annotations

import mmap
import os
import signal

from penstock.worker.beats import Beats

_SIZE = 4096
_PASSED_ON, _STOPS, _GAVE_UP, _NAME = 0, 1, 2, 3


class SharedMemory:
    """Memory that both have, as it was made before the worker was forked. What the worker writes is
    made known to `supervisor`, a process id, by the signal that tells of children; 0: there is
    none.
    """

    def __init__(self, supervisor: int = 0) -> None:
        self._memory = mmap.mmap(-1, _SIZE)
        self._supervisor = supervisor
        self.beats = Beats()

    @property
    def has_supervisor(self) -> bool:
        return self._supervisor != 0

    @property
    def worker(self) -> str:
        """The id under which the worker is registered; empty before, and when it has left."""
        return self._memory[_NAME:].rstrip(b"\0").decode()

    def name_worker(self, worker: str) -> None:
        self._memory[_NAME:] = worker.encode().ljust(_SIZE - _NAME, b"\0")
        self._tell()

    @property
    def stops(self) -> int:
        """How many requests to stop the worker has had."""
        return self._memory[_STOPS]

    def stop_asked(self, times: int) -> None:
        """At least this often, as far as the worker knows."""
        if times > self.stops:
            self._memory[_STOPS] = min(255, times)
            self._tell()

    @property
    def has_given_up(self) -> bool:
        """The worker ends without having left, as it cannot end what it runs."""
        return self._memory[_GAVE_UP] != 0

    def give_up(self) -> None:
        self._memory[_GAVE_UP] = 1
        self._tell()

    @property
    def passed_on(self) -> int:
        """How many requests to stop the supervisor has passed on."""
        return self._memory[_PASSED_ON]

    def pass_on(self) -> None:
        self._memory[_PASSED_ON] = min(255, self._memory[_PASSED_ON] + 1)

    def _tell(self) -> None:
        if self._supervisor:
            os.kill(self._supervisor, signal.SIGCHLD)
