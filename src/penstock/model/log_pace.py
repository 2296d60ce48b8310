"""How fast messages come and are handled, and what follows from it: when a reader will have caught
up, and how many workers it takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

KEEPS_UP_S = 2.0
"""A reader whose next message has waited no longer keeps up: offsets are committed every half
second, so that one that is never behind shows messages of that time.
"""


@dataclass(frozen=True, slots=True)
class Look:
    """A reader in all partitions that it has begun, at one instant."""

    at: float
    added: int
    """messages that were ever appended there"""
    lag: int
    """of those, the ones that it has still to read"""
    seconds: float
    """for how long the oldest of them has waited"""

    @property
    def keeps_up(self) -> bool:
        return not self.lag or self.seconds <= KEEPS_UP_S


class Pace(NamedTuple):
    """What two looks say."""

    arriving: float
    """messages appended, each second"""
    handled: float
    """messages committed, each second"""
    catch_up_s: float | None
    """until nothing is left, if both go on like that; None: it never will be"""
    workers_needed: int | None
    """to handle what arrives, at the pace of the present ones; None: nobody can tell"""


def pace(before: Look, after: Look, workers: int, partitions: int) -> Pace | None:
    """What can be said after two looks; None if no time has passed between them, or the log was
    made anew.

    A worker is taken to do its share of what is handled. That is all it can do only if the reader
    is behind; one that keeps up may need fewer workers than it has. More workers than partitions
    are of no use.
    """
    passed_s = after.at - before.at
    appended = after.added - before.added
    if passed_s <= 0 or appended < 0:
        return None
    arriving = appended / passed_s
    handled = max(0, appended - (after.lag - before.lag)) / passed_s
    if after.keeps_up:
        return Pace(arriving, handled, 0.0, workers or None)
    catch_up_s = after.lag / (handled - arriving) if handled > arriving else None
    needed = None
    if handled and workers:
        needed = min(partitions, max(1, ceil(arriving / (handled / workers))))
    return Pace(arriving, handled, catch_up_s, needed)
