"""Makes ids for jobs, before they are sent, so that sending again is harmless."""

from __future__ import annotations

import os
import random
import secrets
import threading
import time

from penstock.codec.ids import SENDERS, id_text

_EPOCH_MS = 1_735_689_600_000  # 2025
_RANDOM_BITS = 22
_TIME_BITS = 63 - _RANDOM_BITS


class _Numbers:
    """Numbers that only grow, also when the clock is set back, and all end with this sender."""

    def __init__(self) -> None:
        self.begin()
        self._last = 0

    def begin(self) -> None:
        """Also called in a child process, which is a sender of its own. The lock is made anew: if
        another thread held it at the fork, no thread of the child would release it.
        """
        self._lock = threading.Lock()
        self._sender = secrets.randbelow(SENDERS)

    def take(self, count: int = 1) -> int:
        """The first of `count` numbers."""
        now_ms = time.time_ns() // 1_000_000 - _EPOCH_MS
        wanted = (now_ms << _RANDOM_BITS) | random.getrandbits(_RANDOM_BITS)
        with self._lock:
            first = max(wanted, self._last + SENDERS)
            first += (self._sender - first) % SENDERS
            self._last = first + (count - 1) * SENDERS
        return first


_numbers = _Numbers()
os.register_at_fork(after_in_child=_numbers.begin)


new_id = _numbers.take
"""A number for one job, as of `new_ids`."""


def new_ids(count: int = 1) -> range:
    """Numbers for new jobs, greater than all that this process has made before."""
    first = _numbers.take(count)
    return range(first, first + count * SENDERS, SENDERS)


def new_job_id() -> str:
    """An id for a job that is to be sent later, or perhaps more than once, with `id=...`."""
    return id_text(new_id())


def derived_id(at_ms: int, digest: bytes) -> int:
    """A number that begins with a time (ms since 1970) as all ids do, and is the same whenever it
    is made of the same. That of another digest may be the same too.
    """
    since_ms = min(max(1, at_ms - _EPOCH_MS), (1 << _TIME_BITS) - 2)
    return since_ms << _RANDOM_BITS | int.from_bytes(digest[:4]) % (1 << _RANDOM_BITS)


def age_of(number: int) -> float:
    """For how many seconds an id has existed, by the clock of the process that made it."""
    return time.time() - ((number >> _RANDOM_BITS) + _EPOCH_MS) / 1000
