"""Much to send, in batches. The next one is prepared while the store is busy with the last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

_BATCH_BYTES = 1024 * 1024


class Batches(Generic[T]):
    """What `pack` makes of each item: up to `max_items` in a batch, and about 1 MiB."""

    def __init__(self, items: Iterable[T], pack: Callable[[T], bytes], max_items: int) -> None:
        self._items = iter(items)
        self._pack = pack
        self._max_items = max_items
        self._next: tuple[list[T], list[bytes]] | Exception | None = None
        self._left_over: tuple[T, bytes] | None = None

    def prepare(self) -> None:
        """Pack the next batch, unless that was done. What is wrong with an item is said by `take`,
        so that it does not disturb whoever is sending.
        """
        if self._next is None:
            try:
                self._next = self._gather()
            except Exception as error:
                self._next = error

    def take(self) -> tuple[list[T], list[bytes]]:
        """The next batch, as it was given and packed; empty if there are no more items."""
        self.prepare()
        batch, self._next = self._next, None
        if isinstance(batch, Exception):
            raise batch
        assert batch is not None
        return batch

    def _gather(self) -> tuple[list[T], list[bytes]]:
        items: list[T] = []
        batch: list[bytes] = []
        size = 0
        pack, max_items = self._pack, self._max_items
        if self._left_over is not None:
            item, packed = self._left_over
            items.append(item)
            batch.append(packed)
            size, self._left_over = len(packed), None
        for item in self._items:
            packed = pack(item)
            size += len(packed)
            if size > _BATCH_BYTES and batch:
                self._left_over = item, packed
                break
            items.append(item)
            batch.append(packed)
            if len(batch) >= max_items:
                break
        return items, batch
