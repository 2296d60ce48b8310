"""Events of a queue, as its listeners get them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EventKind = Literal["work", "done", "cancel", "delete"]
EVENT_KINDS: tuple[EventKind, ...] = ("work", "done", "cancel", "delete")


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a queue. Live only: a client that does not listen at that moment misses it."""

    kind: EventKind
    queue: str
    count: int = 0
    """work: how many tasks were added; delete: how many were removed"""
    task: bytes = b""
    """done, cancel: the task"""
    worker: str = ""
    """done: the worker that finished it"""
    result: bytes = b""
    """done: what the worker said about it"""
