"""What running jobs have said about themselves and is not written down yet."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.executors.context import Context

_EVERY_S = 0.05


class Notes:
    """They go in batches, and one of each job at a time, so that its lines stay in order."""

    def __init__(self) -> None:
        self._noted: dict[Context, None] = {}
        self._being_written: set[Context] = set()
        self.due_at = inf

    def noted(self, context: Context, now: float) -> None:
        self._noted[context] = None
        self.due_at = min(self.due_at, now + _EVERY_S)

    def due(self, now: float) -> list[Context]:
        """Those to write down now."""
        if now < self.due_at:
            return []
        self.due_at = inf
        ready = [context for context in self._noted if context not in self._being_written]
        for context in ready:
            del self._noted[context]
        return ready

    def being_written(self, context: Context) -> None:
        self._being_written.add(context)

    def written(self, context: Context, now: float) -> None:
        self._being_written.discard(context)
        if context in self._noted:
            self.due_at = min(self.due_at, now + _EVERY_S)

    def is_any_being_written(self, contexts: Iterable[Context]) -> bool:
        return not self._being_written.isdisjoint(contexts)

    def has(self, context: Context) -> bool:
        return context in self._noted or context in self._being_written

    def forget(self, contexts: Iterable[Context]) -> None:
        """They have ended; what they have said goes with their report."""
        if self._noted:
            for context in contexts:
                self._noted.pop(context, None)
