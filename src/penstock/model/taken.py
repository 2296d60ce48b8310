"""What a member of a group is told when it takes a partition of a log."""

from __future__ import annotations

from typing import NamedTuple


class Deaths(NamedTuple):
    """Of owners of a partition, since the offset of their group was moved."""

    crashes: int = 0
    how: str = ""
    """the last one has died"""


NO_DEATHS = Deaths()


class Taken(NamedTuple):
    """A partition that a member of a group owns from now on."""

    epoch: int
    offset: str
    """the message after which it goes on"""
    before: int
    """the epoch until now; 0 if there was none"""
    deaths: Deaths = NO_DEATHS
