"""Offsets of a log: how far each partition was read, as checkpoints keep it and options say it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import InvalidArgument, PenstockError
from penstock.model.logs import check_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.model.logs import LogFacts

Given = str | dict[str, dict[str, str]]
"""earliest or latest; or of a log: partition -> one of these, or a message."""

Times = dict[str, dict[str, int]]
"""of a log: partition -> a time, in ms since 1970"""

_BORN, _LAG = "born", "lag"
_LAST_NUMBER = 10**16 - 1


class LogOffset(NamedTuple):
    """How far a log was read: which log of this name it was, and the last message of each
    partition.
    """

    born: str
    """empty if there was none yet"""
    places: dict[int, str]


class Lag(NamedTuple):
    """How far a query is behind, when the batch that it is about to run is done."""

    messages: int
    seconds: float
    """for how long the next message that it has to read has waited"""


class Bound(NamedTuple):
    """Where a read begins or ends, as the options say it."""

    given: Given
    times: int | Times | None = None
    """everything that was appended before this time, of all partitions or of each"""
    option: str = ""
    """which one says so; empty for the default"""

    def born(self, log: str) -> str:
        """Which log of this name is meant; empty if any is."""
        return "" if isinstance(self.given, str) else self.given[log].get(_BORN, "")

    def of(self, log: str, partition: int, default: str) -> str:
        """The place in one partition: earliest, latest or a message."""
        ms = self.ms_of(log, partition)
        if ms is not None:
            return f"{ms - 1}-{_LAST_NUMBER}" if ms > 0 else "earliest"
        if isinstance(self.given, str):
            return self.given
        return self.given[log].get(str(partition), default)

    def check(self, facts: LogFacts) -> None:
        """Refuse partitions that the log does not have."""
        said = self.times if isinstance(self.times, dict) else self.given
        for name in said[facts.name] if isinstance(said, dict) else ():
            if name != _BORN and int(name) >= facts.partitions:
                raise InvalidArgument(
                    f"option {self.option!r} is about partition {name}, and log {facts.name!r} has "
                    f"partitions 0 to {facts.partitions - 1}"
                )

    def ms_of(self, log: str, partition: int) -> int | None:
        """The time in one partition; None if it is not said by a time."""
        if isinstance(self.times, dict):
            return self.times[log].get(str(partition))
        return self.times


def open_offset(stored: Mapping[str, Mapping[str, str]], log: str) -> LogOffset:
    """An offset as Spark hands it over."""
    if log not in stored:
        raise InvalidArgument(
            f"the checkpoint is that of a stream of log {', '.join(stored)}, and not of {log}; use "
            "a checkpoint of its own for each"
        )
    places = dict(stored[log])
    places.pop(_LAG, None)
    born = places.pop(_BORN, "")
    return LogOffset(born, {int(number): place for number, place in places.items()})


def pack_offset(log: str, offset: LogOffset) -> dict[str, Any]:
    """An offset as Spark keeps it; it compares texts, so the order is always the same."""
    places = {str(number): offset.places[number] for number in sorted(offset.places)}
    return {log: {_BORN: offset.born, **places}}


def pack_latest(log: str, offset: LogOffset, lag: Lag | None) -> dict[str, Any]:
    """The newest offset as the progress of a query shows it, with how far the query is behind."""
    packed = pack_offset(log, offset)
    if lag is not None:
        packed[log][_LAG] = lag._asdict()
    return packed


def log_offsets(text: str) -> Given:
    """What an option with offsets says; raises ValueError."""
    if text in ("earliest", "latest"):
        return text
    [(log, values)] = _of_one_log(text, _BORN, _LAG)
    return {log: {name: _place(name, values[name]) for name in values if name != _LAG}}


def log_times(text: str, read: Callable[[str], int]) -> Times:
    """What an option with times says, each of them as `read` takes it; raises ValueError."""
    [(log, values)] = _of_one_log(text)
    return {log: {number: read(str(values[number])) for number in values}}


def _of_one_log(text: str, *others: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """What is said of the partitions of a log, and besides."""
    given = json.loads(text)
    if not isinstance(given, dict) or len(given) != 1:
        raise ValueError
    for values in given.values():
        if not isinstance(values, dict):
            raise ValueError
        for name in values.keys() - set(others):
            if not (name.isascii() and name.isdecimal()):
                raise ValueError
    return given.items()


def _place(name: str, place: object) -> str:
    if not isinstance(place, str):
        raise ValueError
    if name != _BORN and place not in ("earliest", "latest"):
        try:
            check_id(place)
        except PenstockError as error:
            raise ValueError from error
    return place


def make_bound(log: str, options: Mapping[str, Any], which: str, default: str) -> Bound:
    """What the options say about where to begin (`starting`) or to end (`ending`)."""
    names = (f"{which}Offsets", f"{which}Timestamp", f"{which}OffsetsByTimestamp")
    found = [name for name in names if options[name] is not None]
    if not found:
        return Bound(default)
    if len(found) > 1:
        raise InvalidArgument(
            f"options {' and '.join(map(repr, found))} both say where; give one of them"
        )
    [name] = found
    value = options[name]
    if isinstance(value, dict) and log not in value:
        raise InvalidArgument(
            f"option {name!r} is about log {', '.join(value)}, and option 'log' is {log}"
        )
    return Bound(value, None, name) if name == names[0] else Bound(default, value, name)
