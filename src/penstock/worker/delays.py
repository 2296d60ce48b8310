"""Failed work that a worker holds for a while before it gives it back."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.executors.context import Context
    from penstock.worker.source import Cancelled

_MOST = 1000
"""beyond this many, the one that would go next goes at once: a worker that fails at everything
must not gather the whole queue
"""


class Delays:
    """It takes no slot. A context is in here, or with those that are reported."""

    def __init__(self) -> None:
        self._by_time: list[tuple[float, int]] = []
        self._contexts: dict[int, Context] = {}

    def __len__(self) -> int:
        return len(self._contexts)

    def add(self, context: Context, until: float) -> None:
        heappush(self._by_time, (until, context.token))
        self._contexts[context.token] = context

    @property
    def due_at(self) -> float:
        while self._by_time and self._by_time[0][1] not in self._contexts:
            heappop(self._by_time)
        return self._by_time[0][0] if self._by_time else inf

    def due(self, now: float) -> list[Context]:
        """Those that were held long enough, and those that are too many."""
        due = []
        while self._contexts and (self.due_at <= now or len(self._contexts) > _MOST):
            due.append(self._contexts.pop(self._by_time[0][1]))
        return due

    def cancelled(self, cancelled: Cancelled) -> list[Context]:
        """Those that are meant; they are not held any more."""
        meant = [context for context in self._contexts.values() if cancelled.includes(context)]
        for context in meant:
            del self._contexts[context.token]
        return meant

    def clear(self) -> None:
        self._by_time.clear()
        self._contexts.clear()
