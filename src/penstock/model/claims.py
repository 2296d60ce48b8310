"""What a worker is given when it asks for work."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Claim(Generic[T]):
    """The answer to a request for work, which may have reported other work before."""

    word: str
    """ok; empty: nothing is ready; apart: what is next must run alone; again: ask once more;
    limited: a limit of the queue is reached; idle: nothing was asked for; or why nothing is handed
    out: paused, not_working, too_many
    """
    found: Sequence[T] = ()
    """plain tasks, or jobs"""
    first_process: int = 0
    """the process of the first; those of the others follow it one by one"""
    refused: list[int] = field(default_factory=list)
    """processes of this request that the worker did not hold any more"""
    wait_ms: int = -1
    """when to ask again; -1: when woken"""
    schedules: list[str] = field(default_factory=list)
    """schedules that are due"""
    damaged: list[str] = field(default_factory=list)
    """ids of jobs that could not be read and were set aside"""

    @property
    def size(self) -> int:
        return len(self.found)
