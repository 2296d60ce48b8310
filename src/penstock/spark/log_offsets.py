"""Offsets of a log: how far each partition was read, as checkpoints keep it and options say it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import InvalidArgument, PenstockError
from penstock.model.logs import check_id

if TYPE_CHECKING:
    from collections.abc import Mapping

Given = str | dict[str, dict[str, str]]
"""earliest or latest; or of a log: partition -> one of these, or a message."""

_BORN = "born"
_LAST_NUMBER = 10**16 - 1


class LogOffset(NamedTuple):
    """How far a log was read: which log of this name it was, and the last message of each
    partition.
    """

    born: str
    """empty if there was none yet"""
    places: dict[int, str]


class Bound(NamedTuple):
    """Where a read begins or ends, as the options say it."""

    given: Given
    ms: int | None = None
    """everything that was appended before this time"""

    def born(self, log: str) -> str:
        """Which log of this name is meant; empty if any is."""
        return "" if isinstance(self.given, str) else self.given[log].get(_BORN, "")

    def of(self, log: str, partition: int, default: str) -> str:
        """The place in one partition: earliest, latest or a message."""
        if self.ms is not None:
            return f"{self.ms - 1}-{_LAST_NUMBER}" if self.ms > 0 else "earliest"
        if isinstance(self.given, str):
            return self.given
        return self.given[log].get(str(partition), default)


def open_offset(stored: Mapping[str, Mapping[str, str]], log: str) -> LogOffset:
    """An offset as Spark hands it over."""
    if log not in stored:
        raise InvalidArgument(
            f"the checkpoint is that of a stream of log {', '.join(stored)}, and not of {log}; use "
            "a checkpoint of its own for each"
        )
    places = dict(stored[log])
    born = places.pop(_BORN, "")
    return LogOffset(born, {int(number): place for number, place in places.items()})


def pack_offset(log: str, offset: LogOffset) -> dict[str, Any]:
    """An offset as Spark keeps it; it compares texts, so the order is always the same."""
    places = {str(number): offset.places[number] for number in sorted(offset.places)}
    return {log: {_BORN: offset.born, **places}}


def log_offsets(text: str) -> Given:
    """What an option with offsets says; raises ValueError."""
    if text in ("earliest", "latest"):
        return text
    given = json.loads(text)
    if not isinstance(given, dict) or len(given) != 1:
        raise ValueError
    for places in given.values():
        if not isinstance(places, dict):
            raise ValueError
        for number, place in places.items():
            _check_place(number, place)
    return given


def _check_place(number: str, place: object) -> None:
    if number == _BORN and isinstance(place, str):
        return
    if not (number.isascii() and number.isdecimal()):
        raise ValueError
    if place not in ("earliest", "latest"):
        try:
            check_id(place)
        except PenstockError as error:
            raise ValueError from error


def make_bound(
    log: str, options: Mapping[str, Any], offsets: str, timestamp: str, default: str
) -> Bound:
    """What two options say, of which one may be given."""
    given: Given | None = options[offsets]
    if given is not None and options[timestamp] is not None:
        raise InvalidArgument(
            f"options {offsets!r} and {timestamp!r} both say where; give one of them"
        )
    if isinstance(given, dict) and log not in given:
        raise InvalidArgument(
            f"option {offsets!r} is about log {', '.join(given)}, and option 'log' is {log}"
        )
    return Bound(given or default, options[timestamp])
