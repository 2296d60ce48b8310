"""Decides which thread reads from a connection: a caller that waits, or one thread for all."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class ReaderLock:
    """Held by the one thread that reads.

    A caller takes it if it is free and reads for itself. The reading thread takes it when callers
    do not: it keeps away for a while after a caller has read, and is called when a caller waits
    that cannot read.
    """

    def __init__(self) -> None:
        # Callers can be interrupted at any instruction, by a signal or Ctrl-C. An RLock knows
        # whether the thread that releases it holds it, and neither of the two is written in Python.
        self.lock = threading.RLock()
        """held while reading; the reading thread takes it directly"""
        self._calls: SimpleQueue[None] = SimpleQueue()
        """one entry if the reading thread is called"""
        self.caller = 0
        """the calling thread that reads for itself; 0: none does"""
        self._tried_at = -inf
        """when a caller last read for itself, or would have"""

    def read_here(
        self, on_error: Callable[[], None], read: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Let the calling thread read; None if another thread reads already.

        `on_error` is called if `read` raises, while the lock is still held.
        """
        me = threading.get_ident()
        if self.caller == me:
            return None  # a signal handler that has interrupted the reading of its own thread
        try:
            if not self.lock.acquire(blocking=False):
                return None
            self.caller = me
            return read(*args, **kwargs)
        except BaseException:
            if self.caller == me:
                on_error()
            raise
        finally:
            if self.caller == me:
                self.caller = 0
            try:  # noqa: SIM105 -- anything before the release is where an interrupt could come
                self.lock.release()
            except RuntimeError:
                pass  # another thread reads
            self._tried_at = time.monotonic()

    def has_read_here(self, within_s: float) -> bool:
        """Whether a caller read for itself, or would have, in the last seconds."""
        return time.monotonic() - self._tried_at < within_s

    def call_thread(self) -> None:
        """A caller waits that does not read, so the reading thread has to."""
        if self._calls.empty():
            self._calls.put(None)

    def wait_for_call(self, at_most_s: float) -> None:
        with suppress(Empty):
            # It may wait until it is called, if it is held up for so long before it waits (see
            # Arrivals); no caller needs it before that.
            self._calls.get(timeout=at_most_s)
