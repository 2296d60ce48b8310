"""Tasks in the hands of a worker."""

from __future__ import annotations

from typing import NamedTuple


class Failed(NamedTuple):
    """What became of tasks whose handler failed."""

    dead: int
    """how many had failed too often and went to the dead list"""
    refused: list[int]
