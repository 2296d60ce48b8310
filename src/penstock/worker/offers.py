"""What the store may hand over unasked, as far as a worker knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.queues import MAX_HELD

if TYPE_CHECKING:
    from collections.abc import Iterable


class Offers:
    """A worker that waits offers to take one job unasked. The message with the job may come before
    the answer to the request that made the offer, twice, or not at all.
    """

    def __init__(self, is_allowed: bool) -> None:
        self._is_allowed = is_allowed
        self._offered = self._left = 0
        self.must_review = False
        """look for what was handed over by a message that did not come"""
        self._settled: dict[int, None] = {}
        """processes that are held no more, or were found by looking: a late message about one of
        them is nothing new
        """

    def make(self, is_idle: bool) -> int:
        """How many to offer with a claim."""
        self._offered = self._left = int(self._is_allowed and is_idle)
        return self._offered

    def used(self) -> None:
        """Something was handed over."""
        self._left -= 1

    @property
    def is_over(self) -> bool:
        """The store does not count on this worker any more."""
        return self._is_allowed and self._left <= 0

    @property
    def was_used(self) -> bool:
        """Something was handed over since the offer was made."""
        return self._left < self._offered

    def is_news(self, process: int) -> bool:
        return process not in self._settled

    def settled(self, processes: Iterable[int]) -> None:
        """The last ones are enough."""
        self._settled.update(dict.fromkeys(processes))
        while len(self._settled) > MAX_HELD:
            del self._settled[next(iter(self._settled))]
