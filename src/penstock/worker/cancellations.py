"""What was cancelled before it was known here that this worker holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.queues import MAX_HELD

if TYPE_CHECKING:
    from penstock.executors.context import Context
    from penstock.worker.source import Cancelled


class Cancellations:
    """Messages can overtake the answer, or the message, by which work comes."""

    def __init__(self) -> None:
        self._processes: dict[int, None] = {}
        """the last ones; each is this worker's, and may come at any time"""
        self._others: list[Cancelled] = []
        """those that a claim under way, or unopened, may have started"""
        self._known = 0
        """how many of them came before the last claim was sent"""

    def add(self, cancelled: Cancelled, is_asking: bool) -> None:
        if cancelled.process:
            self._processes[cancelled.process] = None
            if len(self._processes) > MAX_HELD:
                del self._processes[next(iter(self._processes))]
        elif is_asking:
            self._others.append(cancelled)

    def apply(self, contexts: list[Context]) -> None:
        """Mark those of them that are to end. None has begun, so none will."""
        if not self._processes and not self._others:
            return
        for context in contexts:
            is_meant = any(cancelled.includes(context) for cancelled in self._others)
            if is_meant or context.token in self._processes:
                context.cancel()

    def asked(self) -> None:
        """A claim is being sent. What it starts was started later than what is known by now."""
        self._known = len(self._others)

    def opened(self, is_asking: bool) -> None:
        """A claim was unpacked. `is_asking`: the next one is under way."""
        del self._others[: self._known if is_asking else None]
        self._known = 0
