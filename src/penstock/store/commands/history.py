"""The history of a queue of jobs, and the marks that keep it for its readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.codec.attempts import open_ended_attempt
from penstock.errors import QueueFull
from penstock.model.history import HistoryBounds, Mark
from penstock.model.numbers import whole_number
from penstock.store.command import Command, Operation, unexpected
from penstock.store.commands.jobs import check_jobs
from penstock.store.script import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.jobs import EndedAttempt
    from penstock.store.keys import QueueKeys

READ_HISTORY = load("jobs/read_history")
DESCRIBE_HISTORY = load("jobs/describe_history")
STEP_HISTORY = load("jobs/step_history")
MARK_HISTORY = load("jobs/mark_history")

MOST_STEPS = 2000
"""How many entries one step may pass over."""


def read_history(
    keys: QueueKeys, after: str, limit: int, until: str = "+"
) -> Command[list[EndedAttempt]]:
    """Entries after a place ('-': from the oldest) up to another ('+': the newest)."""

    def decode(reply: list[Any]) -> list[EndedAttempt]:
        if reply[0] != b"ok":
            check_jobs(keys, READ_HISTORY, reply)
            raise unexpected(READ_HISTORY, reply)
        return [
            open_ended_attempt(place.decode(), packed)
            for place, packed in zip(reply[1::2], reply[2::2], strict=True)
        ]

    return Command(READ_HISTORY, (keys.meta,), (after, until, limit), decode)


def describe_history(keys: QueueKeys, anchor: str) -> Command[HistoryBounds]:
    """What there is, what may be missing after the anchor, and who reads it."""

    def decode(reply: list[Any]) -> HistoryBounds:
        if reply[0] != b"ok":
            check_jobs(keys, DESCRIBE_HISTORY, reply)
            raise unexpected(DESCRIBE_HISTORY, reply)
        now, incarnation, length, added, first, last, is_there, following, cap, marks = reply[1:]
        return HistoryBounds(
            now=int(now) / 1000,
            incarnation=incarnation.decode(),
            length=length,
            added=None if added < 0 else added,
            first=first.decode(),
            last=last.decode(),
            anchor=anchor,
            is_there=bool(is_there),
            next=following.decode(),
            cap=int(cap),
            marks=tuple(_open_marks(marks)),
        )

    return Command(DESCRIBE_HISTORY, (keys.meta,), (anchor,), decode)


class Step(NamedTuple):
    """Some entries that were passed over."""

    passed: int
    place: str
    """the last of them; empty if there was none"""


def step_history(keys: QueueKeys, after: str, until: str, limit: int) -> Command[Step]:
    """The place up to `limit` entries further on, at most at `until`."""

    def decode(reply: list[Any]) -> Step:
        if reply[0] != b"ok":
            check_jobs(keys, STEP_HISTORY, reply)
            raise unexpected(STEP_HISTORY, reply)
        return Step(reply[1], reply[2].decode())

    return Command(STEP_HISTORY, (keys.meta,), (after, until, limit), decode)


def mark_history(
    keys: QueueKeys, operation: Operation, reader: str, place: str
) -> Command[int | None]:
    """Note that a reader has read up to `place` ('': it reads no more). The answer is how many
    entries were removed that no reader needs; None if the queue does not exist.
    """

    def decode(reply: list[Any]) -> int | None:
        if reply[0] == b"ok":
            return int(reply[1])
        if reply[0] == b"absent":
            return None
        if reply[0] == b"too_many":
            raise QueueFull(
                f"the history of queue {keys.queue!r} has {reply[1]} readers, which is as many as "
                "it may have; use the name of one that is no longer needed"
            )
        check_jobs(keys, MARK_HISTORY, reply)
        raise unexpected(MARK_HISTORY, reply)

    return Command(
        MARK_HISTORY,
        (keys.memory(operation.lane), keys.meta),
        (operation.number, reader, place),
        decode,
    )


def _open_marks(flat: list[bytes]) -> Iterator[Mark]:
    """Those that are marks; the scripts pass over what is none, too."""
    for reader, text in zip(flat[::2], flat[1::2], strict=True):
        place, _, seen_ms = text.decode(errors="replace").partition(" ")
        if whole_number(seen_ms.encode()) is not None:
            yield Mark(reader.decode(errors="replace"), place, int(seen_ms) / 1000)
