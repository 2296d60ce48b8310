"""Tasks that a worker holds."""

from __future__ import annotations

from typing import Literal, NamedTuple

ClaimWord = Literal["ok", "empty", "apart", "idle", "paused", "not_working", "too_many"]


class Claim(NamedTuple):
    """What a worker got when it asked for tasks."""

    word: ClaimWord
    """ok; empty: nothing is ready; apart: what is next must run alone; idle: nothing was asked
    for; or why nothing is handed out
    """
    first_process: int
    """The id of the first task's process; the others follow it one by one."""
    tasks: list[bytes]
    refused: list[int]
    """Processes of this request that the worker did not hold any more."""

    @property
    def size(self) -> int:
        return len(self.tasks)


class Failed(NamedTuple):
    """What became of tasks whose handler failed."""

    dead: int
    """how many had failed too often and went to the dead list"""
    refused: list[int]
