"""An atomic operation as a value, ready to be sent by whoever does I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from penstock.errors import ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.store.script import Script

R = TypeVar("R")

Argument = bytes | str | int


class Operation(NamedTuple):
    """Names one request, so that sending it again has no second effect.

    A lane has one request under way at a time and numbers its requests.
    """

    lane: str
    number: int


class Command(NamedTuple, Generic[R]):
    """One script with its keys and arguments, and how to read its reply."""

    script: Script
    keys: tuple[str, ...]
    args: tuple[Argument, ...]
    decode: Callable[[list[Any]], R]


def unexpected(script: Script, reply: object) -> ProtocolError:
    """A reply that the script's header does not list."""
    return ProtocolError(
        f"script {script.name!r} answered {reply!r}, which this version does not know; "
        "run the same version of penstock everywhere"
    )
