"""Makes ids for jobs, before they are sent, so that sending again is harmless."""

from __future__ import annotations

import os
import secrets
import threading
import time

from penstock.codec.ids import id_text

_EPOCH_MS = 1_735_689_600_000  # 2025
_RANDOM_BITS = 22


class _Numbers:
    """Numbers that only grow, also when the clock is set back."""

    def __init__(self) -> None:
        self.new_lock()
        self._last = 0

    def new_lock(self) -> None:
        """For a child process too: if another thread held it at the fork, nobody would ever give
        it back.
        """
        self._lock = threading.Lock()

    def take(self, count: int) -> int:
        """The first of `count` consecutive numbers."""
        now_ms = time.time_ns() // 1_000_000 - _EPOCH_MS
        wanted = (now_ms << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            first = max(wanted, self._last + 1)
            self._last = first + count - 1
        return first


_numbers = _Numbers()
os.register_at_fork(after_in_child=_numbers.new_lock)


def new_ids(count: int = 1) -> range:
    """Numbers for new jobs."""
    first = _numbers.take(count)
    return range(first, first + count)


def new_job_id() -> str:
    """An id for a job that is to be sent later, or perhaps more than once, with `id=...`."""
    return id_text(new_ids()[0])


def age_of(number: int) -> float:
    """For how many seconds an id has existed, by the clock of whoever made it."""
    return time.time() - ((number >> _RANDOM_BITS) + _EPOCH_MS) / 1000
