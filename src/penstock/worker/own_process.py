"""The process of `penstock worker run`, which ends with its worker, whatever that still runs."""

from __future__ import annotations

import logging
import os
import sys
import threading
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, NoReturn

from penstock.worker.giving_back import give_back
from penstock.worker.stop_requests import StopDeadline

if TYPE_CHECKING:
    from penstock.connection.settings import Settings
    from penstock.errors import WorkerBroken
    from penstock.worker.shared_memory import SharedMemory

log = logging.getLogger("penstock.worker")


class OwnProcess:
    """If it has a supervisor, that ends it when it does not end by itself, and gives back what was
    still held. Without one a thread does it, as well as that can be done from inside: what runs in
    other threads may go on for a moment after it was given back, and nothing helps if C code does
    not let other threads run.
    """

    def __init__(self, settings: Settings, shared: SharedMemory, grace_s: float) -> None:
        self._settings = settings
        self._shared = shared
        self._deadline = StopDeadline(grace_s)
        self._stops: SimpleQueue[int] = SimpleQueue()
        if not shared.has_supervisor:
            threading.Thread(target=self._guard, name="penstock-guard", daemon=True).start()

    def stop_asked(self, times: int) -> None:
        """May be called by a signal handler."""
        self._shared.stop_asked(times)
        self._stops.put(times)

    def give_up(self) -> None:
        """The worker has ended without leaving, as something ran beyond the grace time."""
        if self._shared.has_supervisor:
            self._shared.give_up()
        else:
            self._end()

    def break_off(self, error: WorkerBroken) -> NoReturn:
        """A job has ended the event loop: as if it had ended the process."""
        log.error("%s", error)
        cause = error.__cause__
        status = cause.code if isinstance(cause, SystemExit) else 1
        if not self._shared.has_supervisor and self._shared.worker:
            give_back(self._settings, self._shared.worker, how=f"{cause!r} on its event loop")
        _exit(status if isinstance(status, int) else 1)

    def _guard(self) -> None:
        deadline = self._deadline
        while (left_s := deadline.at - monotonic()) > 0:
            with suppress(Empty):
                deadline.asked(self._stops.get(timeout=None if left_s == inf else left_s))
        log.warning("the worker has had its time to stop, so its process ends")
        self._end()

    def _end(self) -> NoReturn:
        if self._shared.worker:
            give_back(self._settings, self._shared.worker)
        _exit(0)


def _exit(status: int) -> NoReturn:
    """Without waiting for threads that may never end."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)
