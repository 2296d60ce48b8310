"""Tasks that wait until one of a fixed number of threads takes them."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
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
        self._backlog: deque[Context] = deque()
        self._calls: SimpleQueue[None] = SimpleQueue()
        """one for each task that waits, at least. Tasks themselves do not go this way: since Python
        3.13 what is put there can be on its way to a thread, where nobody could count it.
        """
        self._running: set[Context] = set()

    def submit(self, contexts: Iterable[Context]) -> None:
        if not self.waiting:
            self.moved_at = perf_counter()
        for context in contexts:
            self._backlog.append(context)
            self._calls.put(None)

    @property
    def load(self) -> int:
        """Tasks that wait or run, also those whose worker has lost them meanwhile."""
        return len(self._backlog) + len(self._running)

    @property
    def waiting(self) -> int:
        """Tasks that no thread has begun."""
        return len(self._backlog)

    def recall(self) -> list[Context]:
        """Take back every task that no thread has begun."""
        recalled: list[Context] = []
        while (context := self._take()) is not None:
            recalled.append(context)
        return recalled

    def _take(self) -> Context | None:
        """The next task, if one waits."""
        try:
            context = self._backlog.popleft()
        except IndexError:
            return None
        with suppress(Empty):  # a thread that is called for nothing looks around once more
            self._calls.get_nowait()
        return context

    def _wait_and_take(self) -> Context | None:
        """The next task, when the thread is called; None if it was called for something else, or
        another thread has taken the task.
        """
        self._calls.get()
        try:
            return self._backlog.popleft()
        except IndexError:
            return None

    def _call_threads(self, count: int) -> None:
        """Let so many threads that wait look around."""
        for _ in range(count):
            self._calls.put(None)
