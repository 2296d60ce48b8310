"""What can be known about a queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypedDict

from penstock.errors import InvalidArgument, PayloadTooLarge

Side = Literal["front", "back"]
KindName = Literal["tasks", "jobs", "logs"]
"""What a queue can hold."""
QueueKind = Literal["tasks", "jobs", "logs", "undecided"]
"""What a queue holds; the first thing that comes in decides."""

MAX_PAYLOAD = 1024 * 1024
"""Bytes a task may have unless the client was told otherwise."""

MAX_HELD = 10_000
"""How many tasks of one queue one worker may hold, which bounds the work of recovering it."""

DEFAULT_MAX_FAILURES = 5
"""Failed deliveries after which a task is dead, for a queue without a setting of its own."""


class QueueSettings(TypedDict, total=False):
    """What can be set for a queue; None stands for the default."""

    max_length: int | None
    max_failures: int | None


def check_settings(given: QueueSettings) -> dict[str, int | None]:
    """Return the settings if each is known and makes sense."""
    checked: dict[str, int | None] = {}
    for name, value in given.items():
        if name not in QueueSettings.__annotations__:
            known = ", ".join(QueueSettings.__annotations__)
            raise InvalidArgument(f"a queue has no setting {name!r}; it has {known}")
        if value is not None and (type(value) is not int or value < 1):
            raise InvalidArgument(f"{name} is {value!r}; give a whole number from 1 up, or None")
        checked[name] = value
    return checked


def check_side(side: Side) -> None:
    """Refuse anything that is neither end of a queue."""
    if side not in ("front", "back"):
        raise InvalidArgument(f"a task goes back to the 'front' or the 'back', not to {side!r}")


def check_bytes(kind: str, payload: bytes) -> None:
    """Refuse a task or result that is not bytes, before anything is sent."""
    if type(payload) is not bytes:
        raise InvalidArgument(
            f"a {kind} is bytes, not {type(payload).__name__}; "
            "encode it first, for example with str.encode()"
        )


def check_payload(kind: str, payload: bytes, max_payload: int) -> None:
    """Refuse a task or result that is not bytes, or too long, before anything is sent."""
    if type(payload) is bytes and len(payload) <= max_payload:
        return
    check_bytes(kind, payload)
    raise PayloadTooLarge(
        f"the {kind} is {len(payload)} bytes long and {max_payload} is the limit; "
        "store it elsewhere and pass a reference, or connect with a higher max_payload"
    )


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
    """tasks that were put in, or jobs that were sent"""
    started: int = 0
    finished: int = 0
    stopped: int = 0
    """given back at no cost"""
    failed: int = 0
    """given back because the handler failed"""
    lost: int = 0
    """given back because the worker died, or its lease lapsed"""
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
    kind: QueueKind = "undecided"

    @property
    def running(self) -> int:
        return sum(self.held.values())
