"""Numbers for requests, so that one sent twice has one effect."""

from __future__ import annotations

import os
import secrets
from collections import deque


class Lane:
    """A numbered sequence of requests, one under way at a time."""

    __slots__ = ("name", "number")

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0


class Lanes:
    """The lanes of one client. As many as it ever had requests under way at once."""

    def __init__(self) -> None:
        self._reset()

    def take(self) -> Lane:
        """A lane of one's own until it is given back."""
        if self._pid != os.getpid():
            # After a fork parent and child would number different requests alike, and one would be
            # taken for the other.
            self._reset()
        try:
            lane = self._free.pop()
        except IndexError:
            self._made += 1
            lane = Lane(f"{self._client}{self._made:x}")
        lane.number += 1
        return lane

    def give_back(self, lane: Lane) -> None:
        """Only after a reply: a request that may still be under way must keep its lane to
        itself.
        """
        self._free.append(lane)

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._client = secrets.token_hex(8) + "."
        self._made = 0
        self._free: deque[Lane] = deque()
