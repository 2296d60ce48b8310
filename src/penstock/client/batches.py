"""Much to send, in batches. The next one is prepared while the store is busy with the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")
P = TypeVar("P")

_BATCH_BYTES = 1024 * 1024


class Batches(Generic[T, P]):
    """What `pack` makes of each item: up to `max_items` in a batch, and about 1 MiB by what
    `size_of` says of each.

    An item is packed as soon as it is read, as whoever makes them may use the same object again.
    """

    def __init__(
        self,
        items: Iterable[T],
        pack: Callable[[T], P],
        size_of: Callable[[P], int],
        max_items: int,
    ) -> None:
        self._items = iter(items)
        self._pack = pack
        self._size_of = size_of
        self._max_items = max_items
        self._next: list[P] | Exception | None = None
        self._left_over: list[P] = []

    def prepare(self) -> None:
        """Pack the next batch, unless that was done. What is wrong with an item is said by `take`,
        so that it does not disturb whoever is sending.
        """
        if self._next is None:
            try:
                self._next = self._gather()
            except Exception as error:
                self._next = error

    def take(self) -> list[P]:
        """The next batch; empty if there are no more items."""
        self.prepare()
        batch, self._next = self._next, None
        if isinstance(batch, Exception):
            raise batch
        assert batch is not None
        return batch

    def _gather(self) -> list[P]:
        batch, self._left_over = self._left_over, []
        pack, size_of, max_items = self._pack, self._size_of, self._max_items
        size = sum(map(size_of, batch))
        for item in self._items:
            packed = pack(item)
            size += size_of(packed)
            if size > _BATCH_BYTES and batch:
                self._left_over = [packed]
                break
            batch.append(packed)
            if len(batch) >= max_items:
                break
        return batch
