"""Properties of the async client: read where they are awaited, and of no other use.

A forgotten `await` must be found at once: a comparison that is silently False, or an empty object
in a response, is found much later.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

S = TypeVar("S")
T = TypeVar("T")


class awaited_property(Generic[S, T]):
    """Makes a coroutine method a property whose value is awaited: `await job.state`."""

    def __init__(self, read: Callable[[S], Coroutine[Any, Any, T]]) -> None:
        self._read = read
        self.__doc__ = read.__doc__

    @overload
    def __get__(self, instance: None, owner: type[S]) -> Self: ...
    @overload
    def __get__(self, instance: S, owner: type[S]) -> Awaitable[T]: ...
    def __get__(self, instance: S | None, owner: type[S]) -> Self | Awaitable[T]:
        return self if instance is None else Unawaited(self._read, instance)


class Unawaited(Generic[T]):
    """The value of such a property. Nothing is read, and no coroutine made, before the `await`."""

    __slots__ = ("_instance", "_read")

    def __init__(self, read: Callable[[S], Coroutine[Any, Any, T]], instance: S) -> None:
        self._read: Callable[[Any], Coroutine[Any, Any, T]] = read
        self._instance = instance

    def __await__(self) -> Generator[Any, Any, T]:
        return self._read(self._instance).__await__()

    def __repr__(self) -> str:
        return f"<{self._name} of {self._instance!r}, not awaited>"

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"{self._name} has not been awaited, so it has no {name!r}; "
            f"write `(await {self._name}).{name}`"
        )

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError(f"{self._name} has not been awaited; write `await {self._name}`")

    # What a value would be used for. Without these, most would answer something wrong.
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __str__ = __format__ = _refuse
    __iter__ = __len__ = __contains__ = __getitem__ = _refuse

    def __hash__(self) -> int:
        # `job.state in {"done", "dead"}` would be False, but gather() puts it into a dict.
        if sys._getframe(1).f_globals.get("__name__") != "asyncio.tasks":
            self._refuse()
        return id(self)

    @property
    def _name(self) -> str:
        noun = type(self._instance).__name__.removeprefix("Async").lower()
        return f"{noun}.{self._read.__name__}"
