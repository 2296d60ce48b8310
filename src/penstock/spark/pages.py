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

PAGE = 2000


def read_pages(
    store: Store, key: str, start: str, end: str, open_page: Open
) -> Iterator[pa.RecordBatch]:
    """The entries after `start` up to `end`. Asks for the next page before it opens the one that
    has come.
    """
    with _without_garbage_collection():
        found = store.call(key, "XRANGE", key, f"({start}", end, "COUNT", PAGE)
        while found:
            page = _Page(found, open_page)
            if len(found) < PAGE:
                yield page.batch()
                return
            parts = ("XRANGE", key, f"({found[-1][0].decode()}", end, "COUNT", PAGE)
            found = call_meanwhile(store, key, parts, page)
            yield page.batch()


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
