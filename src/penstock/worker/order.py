"""Which queue of a worker goes first where several have work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.worker.feed import Feed

_ALL = 1_000_000
"""more slots than there are"""


class QueueOrder:
    """By turns; strictly in the order given; or so that what is started keeps to the weights."""

    def __init__(self, queues: Sequence[str], strict: bool, weights: Mapping[str, int]) -> None:
        _check(queues, strict, weights)
        self._strict = strict
        self._places = {queue: place for place, queue in enumerate(queues)}
        self._weights = weights

    def owed(self, feed: Feed, feeds: Sequence[Feed]) -> int:
        """How many free slots `feed` leaves to others that go first and may have work."""
        others = [
            other
            for other in feeds
            if other.wants_work and not other.is_holding and self._goes_first(other, feed)
        ]
        if self._strict or self._weights:
            # Nothing is taken while one of them may have work, also if it has no room for it now.
            return _ALL if others else 0
        # By turns, each gets a slot.
        return sum(other.slots is feed.slots and other.room() > 0 for other in others)

    def work_found(self, feed: Feed, feeds: Sequence[Feed]) -> None:
        """A queue that was empty does not get what was started meanwhile on top of its share."""
        shares = [self._share(other) for other in feeds if other is not feed and other.wants_work]
        if self._weights and shares:
            feed.started = max(feed.started, int(min(shares) * self._weight(feed)))

    def _goes_first(self, other: Feed, feed: Feed) -> bool:
        if self._strict:
            return self._place(other) < self._place(feed)
        if self._weights:
            return self._share(other) < self._share(feed)
        return other.claimed_at < feed.claimed_at

    def _place(self, feed: Feed) -> int:
        """Queues that are not named come last."""
        return self._places.get(feed.queue, len(self._places))

    def _share(self, feed: Feed) -> float:
        return feed.started / self._weight(feed)

    def _weight(self, feed: Feed) -> int:
        return self._weights.get(feed.queue, 1)


def _check(queues: Sequence[str], strict: bool, weights: Mapping[str, int]) -> None:
    if strict and weights:
        raise InvalidArgument("queues are served strictly in order or by weights; give one of them")
    for queue, weight in weights.items():
        if queue not in queues:
            raise InvalidArgument(f"there is a weight for queue {queue!r}, which is not served")
        if type(weight) is not int or not 1 <= weight <= 1000:
            raise InvalidArgument(
                f"the weight of queue {queue!r} is {weight!r}; give a whole number from 1 to 1000"
            )
