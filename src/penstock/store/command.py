"""An atomic operation as a value, which a connection sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from penstock.errors import ProtocolError, WrongKind

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


class Prepacked(NamedTuple):
    """Arguments, and the form in which they go over the wire."""

    arguments: list[Argument]
    data: bytes


class Command(NamedTuple, Generic[R]):
    """One script with its keys and arguments, and how to read its reply."""

    script: Script
    keys: tuple[str, ...]
    args: tuple[Argument, ...]
    decode: Callable[[list[Any]], R]
    more: Prepacked | None = None
    """arguments after `args` that were packed beforehand"""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return self.args if self.more is None else (*self.args, *self.more.arguments)


class Page(NamedTuple, Generic[R]):
    """Something to be read by a command of Redis, and a script that says afterwards whether what
    was read counts. It is quicker than a script that hands it out.
    """

    key: str
    parts: tuple[Argument, ...]
    check: Command[Any]
    decode: Callable[[Any, Any], R]
    """reads both replies: that of the command, and what the check says"""


class QueueAbsent(Exception):
    """A reply: the queue does not exist; register it, then come again with an incarnation.

    Never seen by an application: the client handles this and `QueueTaken`.
    """


class QueueTaken(Exception):
    """A reply: the queue exists under another incarnation; unregister the one that was sent, then
    come again without.
    """


def check_queue(reply: list[Any]) -> None:
    """Raise what the reply says about the queue, if it says that the request cannot go on."""
    if reply[0] == b"no_queue":
        raise QueueAbsent
    if reply[0] == b"queue_exists":
        raise QueueTaken


def refuse_log(queue: str, kind: bytes) -> None:
    """Raise WrongKind if this is the kind of a log, as a reply has it."""
    if kind == b"logs":
        raise WrongKind(
            f"{queue!r} is a log, so it is no queue; append to it and read it as a log, or choose "
            "another name"
        )


def unexpected(script: Script, reply: object) -> ProtocolError:
    """A reply that the script's header does not list."""
    return ProtocolError(
        f"script {script.name!r} answered {reply!r}, which this version does not know; "
        "run the same version of penstock everywhere"
    )
