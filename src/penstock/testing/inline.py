"""An async store that belongs to no event loop.

Requests are answered before they are waited for, by a blocking client. So the same coroutines serve
tests with a loop and, run by `drive`, tests without one, and nothing has to be closed on a loop
that may be gone by then. A test waits for its Redis anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from penstock.connection.store import AsyncStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from penstock.connection.store import Store
    from penstock.connection.wire import Meanwhile
    from penstock.store.command import Command, Operation, Page

R = TypeVar("R")


class InlineStore(AsyncStore):
    """Passes everything on to a store for threads."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.address, store.retry_for_s, dialect=store.dialect)
        self._inner = store

    async def run(self, command: Command[R] | Page[R]) -> R:
        return self._inner.run(command)

    async def run_soon(self, command: Command[R]) -> R:
        return self._inner.run_soon(command)

    async def run_once(
        self, build: Callable[[Operation], Command[R]], meanwhile: Meanwhile = None
    ) -> R:
        return self._inner.run_once(build, meanwhile)

    async def call(self, key: str, *parts: bytes | str | int) -> Any:
        return self._inner.call(key, *parts)


def drive(coroutine: Coroutine[Any, Any, R]) -> R:
    """The result of a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    coroutine.close()
    raise AssertionError(f"{coroutine!r} waits for something, and no loop is there")
