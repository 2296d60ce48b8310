"""What can be known about a queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Side = Literal["front", "back"]

MAX_PAYLOAD = 1024 * 1024
"""Bytes a task may have unless the client was told otherwise."""

MAX_HELD = 10_000
"""How many tasks of one queue one worker may hold, which bounds the work of recovering it."""

MAX_BATCH = 5_000
"""How many tasks one script accepts."""

DEFAULT_MAX_FAILURES = 5
"""Failed deliveries after which a task is dead, for a queue without a setting of its own."""


class Enqueued(NamedTuple):
    """The answer to an enqueue."""

    is_new: bool
    """False if a task with the same unique key was there already; then nothing was added."""
    task: bytes
    """The task that is in the queue: the given one, or the one that holds the key."""


class Page(NamedTuple):
    """A page of tasks, oldest first."""

    tasks: list[bytes]
    total: int
    """How many there are in all."""


class Deleted(NamedTuple):
    """The answer to deleting a queue."""

    removed: int
    running: int
    """Tasks that are still running; while there are any, the queue itself stays, empty."""


class Returned(NamedTuple):
    """Where the tasks of a worker went."""

    returned: int
    dead: int


@dataclass(frozen=True, slots=True)
class Counters:
    """What has happened in a queue since it was created."""

    enqueued: int = 0
    started: int = 0
    finished: int = 0
    stopped: int = 0
    """given back at no cost"""
    failed: int = 0
    """given back because the handler failed"""
    lost: int = 0
    """given back because the worker died"""
    cancelled: int = 0
    deleted: int = 0
    refused: int = 0
    """finishes, stops and failures refused because the worker no longer held the task"""


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue at one instant."""

    name: str
    incarnation: str
    ready: int
    dead: int
    is_paused: bool
    max_length: int | None
    max_failures: int
    idle: int
    """workers that wait for a wake-up"""
    unique: int
    """unique keys that are taken"""
    failures: int
    """tasks with failed deliveries"""
    held: dict[str, int] = field(default_factory=dict)
    """worker -> tasks it holds, for every worker that serves the queue"""
    counters: Counters = Counters()

    @property
    def running(self) -> int:
        return sum(self.held.values())
