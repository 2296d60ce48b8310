"""Sends much in batches. The next one is packed while the store is busy with the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import length_hint
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.errors import InvalidArgument
from penstock.model.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
P = TypeVar("P")
B = TypeVar("B")

_BATCH_BYTES = 1024 * 1024
_FIRST_PART = 4


def check_items(items: object, parts: str) -> None:
    """Refuse what is one item by mistake: of a text every letter would be sent, of a dict every
    key. `parts` says what there should be a list of.
    """
    is_one = isinstance(items, str | bytes | bytearray | memoryview | Mapping)
    if is_one or not isinstance(items, Iterable):
        raise InvalidArgument(
            f"{shown(items)} is no list; give a list with {parts}, also if it is only one"
        )


def _size(items: object) -> int:
    """How many there are; 0 if that cannot be said beforehand."""
    try:
        return length_hint(items)
    except Exception:  # their `__len__` may raise anything, and they can still be read
        return 0


class Batches(Generic[T, P, B]):
    """What `pack` makes of each item: up to `max_items` in a batch, and about 1 MiB by what
    `size_of` says of each. `seal` makes of a batch what is sent.

    If there are more than go in one batch, the first is smaller, as the store has nothing to do
    until it comes.

    An item is packed as soon as it is read, as the program that makes the items may use the same
    object again.
    """

    def __init__(
        self,
        items: Iterable[T],
        pack: Callable[[T], P],
        size_of: Callable[[P], int],
        max_items: int,
        seal: Callable[[list[P]], B],
    ) -> None:
        self._items = iter(items)
        self._pack = pack
        self._size_of = size_of
        self._max_items = max_items
        self._room = max_items if _size(items) <= max_items else max(1, max_items // _FIRST_PART)
        self._seal = seal
        self._is_prepared = False
        self._next: B | None = None
        self._error: Exception | None = None
        self._left_over: list[P] = []

    def prepare(self) -> None:
        """Pack the next batch, unless that was done. An error of an item is raised by `take`, so
        that it does not interrupt the batch that is being sent.
        """
        if self._is_prepared:
            return
        self._is_prepared = True
        try:
            batch = self._gather()
            self._next = self._seal(batch) if batch else None
        except Exception as error:
            self._error = error

    def take(self) -> B | None:
        """The next batch; None if there are no more items."""
        self.prepare()
        self._is_prepared = False
        batch, self._next = self._next, None
        error, self._error = self._error, None
        if error is not None:
            raise error
        return batch

    def _gather(self) -> list[P]:
        batch, self._left_over = self._left_over, []
        pack, size_of, room = self._pack, self._size_of, self._room
        self._room = self._max_items
        size = sum(map(size_of, batch))
        for item in self._items:
            packed = pack(item)
            size += size_of(packed)
            if size > _BATCH_BYTES and batch:
                self._left_over = [packed]
                break
            batch.append(packed)
            if len(batch) >= room:
                break
        return batch
