"""Tasks that a worker holds."""

from __future__ import annotations

from typing import NamedTuple


class Failed(NamedTuple):
    """What became of tasks whose handler failed."""

    dead: int
    """how many had failed too often and went to the dead list"""
    refused: list[int]


class PastFailures(NamedTuple):
    """How often tasks had failed before their handler failed now."""

    most: int
    """with this many failures a task is dead"""
    counts: list[int]
    """one for each task that was asked for"""
