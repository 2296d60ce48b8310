"""Reads a range of a stream of Redis in pages, and makes Arrow batches of them."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.spark.store import call_meanwhile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from penstock.connection.store import Store

    Open = Callable[[list[Any]], pa.RecordBatch]

_FIRST_PAGE, _MOST_ENTRIES = 500, 10_000
_PAGE_BYTES = 1024 * 1024
"""What a page should have about: many small entries cost less together, and of large ones a page
must fit into memory, and not hold up the store.
"""


def read_pages(
    store: Store, key: str, start: str, end: str, open_page: Open
) -> Iterator[pa.RecordBatch]:
    """The entries after `start` up to `end`. Asks for the next page before it opens the one that
    has come.
    """
    with _without_garbage_collection():
        asked = following = _FIRST_PAGE
        found = store.call(key, "XRANGE", key, f"({start}", end, "COUNT", asked)
        while found:
            page, is_last = _Page(found, open_page), len(found) < asked
            if not is_last:
                asked = following
                parts = ("XRANGE", key, f"({found[-1][0].decode()}", end, "COUNT", asked)
                found = call_meanwhile(store, key, parts, page)
            batch = page.batch()
            following = _entries_like(batch) or following
            yield batch
            if is_last:
                return


def _entries_like(batch: pa.RecordBatch) -> int:
    """How many entries of this size make a page; 0 if nothing is known of their size."""
    rows: int = batch.num_rows
    size: int = batch.nbytes
    return max(1, min(_MOST_ENTRIES, _PAGE_BYTES * rows // size)) if rows and size else 0


class _Page:
    """Entries that are opened once, when they are first asked for."""

    def __init__(self, found: list[Any], open_page: Open) -> None:
        self._found = found
        self._open = open_page
        self._batch: pa.RecordBatch | None = None

    def __call__(self) -> None:
        self.batch()

    def batch(self) -> pa.RecordBatch:
        if self._batch is None:
            self._batch = self._open(self._found)
            self._found = []
        return self._batch


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Replies are lists of lists, which the collector would go through again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
