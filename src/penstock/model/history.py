"""The history of a queue: places in it, its bounds, and the marks of its readers."""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.errors import InvalidArgument
from penstock.model.names import shown

BEGINNING = "0-0"
"""Before every entry that there can be."""
MARK_KEPT_S = 7 * 86400
"""How long a mark counts after its reader last set it; `marks.lua` has the same."""
MOST_TRIMMED = 100_000
"""How many entries go at most when a mark is set; `marks.lua` has the same."""

_PLACE = re.compile(r"\d{1,20}-\d{1,20}", re.ASCII)
_LAST_NUMBER = 2**64 - 1


class Mark(NamedTuple):
    """How far a reader has come."""

    reader: str
    place: str
    seen_at: float
    """when it set the mark"""


class HistoryBounds(NamedTuple):
    """What the history of a queue has, and what was found at one place in it."""

    now: float
    incarnation: str
    """empty if the queue does not exist"""
    length: int
    added: int | None
    """how many entries there ever were; None if the server does not count them"""
    first: str
    """empty if there are none"""
    last: str
    anchor: str
    """the place that was looked at"""
    is_there: bool
    """whether there is an entry"""
    next: str
    """the first entry after it; empty if there is none"""
    cap: int
    marks: tuple[Mark, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every entry that was ever written after the anchor is there.

        Trimming removes the oldest entries first. So nothing is lost if the anchor is there, or
        the entry that would come right after it; and nothing after the beginning, if there are as
        many entries as there ever were.
        """
        if self.anchor == BEGINNING:
            return self.added is None or self.added == self.length
        return self.is_there or self.next == place_after(self.anchor)


def check_place(place: object) -> str:
    """Refuse what cannot be a place."""
    if not isinstance(place, str) or not _PLACE.fullmatch(place):
        raise InvalidArgument(
            f"{shown(place)} is no place in a history; give the `place` of an entry that was read"
        )
    return place


def place_key(place: str) -> tuple[int, int]:
    """By which places are sorted: the time in ms, and a number."""
    ms, _, number = place.partition("-")
    return int(ms), int(number)


def place_after(place: str) -> str:
    """The least place that is greater."""
    ms, number = place_key(place)
    return f"{ms}-{number + 1}" if number < _LAST_NUMBER else f"{ms + 1}-0"


def place_before(place: str) -> str:
    """The greatest place that is less."""
    ms, number = place_key(place)
    if number:
        return f"{ms}-{number - 1}"
    return f"{ms - 1}-{_LAST_NUMBER}" if ms else BEGINNING
