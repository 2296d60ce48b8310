"""Tasks that wait until one of a fixed number of threads takes them."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.executors.context import Context

LEASE_POLL_S = 0.02


class Backlog:
    """The half of an executor that faces the worker: what waits, and what runs."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.moved_at = perf_counter()
        """when a task was last done, or began to wait where none did"""
        self._backlog: SimpleQueue[Context | None] = SimpleQueue()
        self._running: set[Context] = set()

    def submit(self, contexts: Iterable[Context]) -> None:
        if not self.waiting:
            self.moved_at = perf_counter()
        put = self._backlog.put
        for context in contexts:
            put(context)

    @property
    def load(self) -> int:
        """Tasks that wait or run, also those whose worker has lost them meanwhile."""
        return self._backlog.qsize() + len(self._running)

    @property
    def waiting(self) -> int:
        """Tasks that no thread has begun."""
        return self._backlog.qsize()

    def recall(self) -> list[Context]:
        """Take back every task that no thread has begun."""
        recalled: list[Context] = []
        while True:
            try:
                context = self._backlog.get_nowait()
            except Empty:
                return recalled
            if context is not None:
                recalled.append(context)
