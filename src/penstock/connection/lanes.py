"""Numbers for requests, so that one sent twice has one effect."""

from __future__ import annotations

import os
import secrets
from collections import deque
from itertools import count


class Lane:
    """A numbered sequence of requests, one under way at a time."""

    __slots__ = ("home", "name", "number")

    def __init__(self, name: str, home: deque[Lane]) -> None:
        self.name = name
        self.number = 0
        self.home = home


class Lanes:
    """The lanes of one client. As many as it ever had requests under way at once."""

    def __init__(self) -> None:
        self._supply = _Supply()

    def take(self) -> Lane:
        """Take a lane that no other request uses until it is given back."""
        supply = self._supply
        if supply.pid != os.getpid():
            # After a fork parent and child would number different requests alike, and one would be
            # taken for the other.
            supply = self._supply = _Supply()
        try:
            lane = supply.free.pop()
        except IndexError:
            lane = Lane(f"{supply.client}{next(supply.numbers):x}", supply.free)
        lane.number += 1
        return lane

    def give_back(self, lane: Lane) -> None:
        """Only after a reply: a request that may still be under way must keep its lane to
        itself.
        """
        lane.home.append(lane)


class _Supply:
    """The lanes of one process. Threads share it without a lock: each step is atomic in itself."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.client = secrets.token_hex(8) + "."
        self.numbers = count(1)
        self.free: deque[Lane] = deque()
