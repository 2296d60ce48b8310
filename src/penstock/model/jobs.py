"""A job: a task with a record. Its states, and the moves between them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, get_args

from penstock.errors import InvalidArgument
from penstock.model.names import shown

if TYPE_CHECKING:
    from penstock.model.unique_keys import UniqueScope

JobState = Literal["scheduled", "blocked", "ready", "running", "done", "dead", "cancelled"]
JOB_STATES: tuple[JobState, ...] = get_args(JobState)

STATE_CODES: dict[JobState, str] = {
    "scheduled": "s",
    "blocked": "b",
    "ready": "r",
    "running": "u",
    "done": "d",
    "dead": "x",
    "cancelled": "c",
}
"""What a state is in the store."""

STATES_BY_CODE: dict[str, JobState] = {code: state for state, code in STATE_CODES.items()}

MOVES: dict[JobState, tuple[JobState, ...]] = {
    "scheduled": ("ready", "scheduled", "dead", "cancelled"),
    "blocked": ("ready", "scheduled", "dead", "cancelled"),
    "ready": ("running", "ready", "scheduled", "dead", "cancelled"),
    "running": ("done", "dead", "cancelled", "ready", "scheduled"),
    "done": (),
    "dead": ("ready",),
    "cancelled": ("ready",),
}
"""Every allowed move. The scripts are given this table and refuse every other move."""

FINAL_STATES: tuple[JobState, ...] = ("done", "dead", "cancelled")
WAITING_STATES: tuple[JobState, ...] = ("scheduled", "blocked", "ready")

LAYOUT = 3
"""The version of all records that this version writes; any other is refused."""

MAX_CRASHES = 3
"""How often a job may take its worker down before it is dead."""

MAX_LAPSES = 10
"""How often the lease of its worker may lapse under a job before it is dead. More than crashes, as
nobody knows whether the worker died: it may have been too busy to answer.
"""

SUSPECT_FROM = 2
"""After so many crashes and lapses together, a job is handed out alone, so that it takes no others
down with it.
"""

WHY_ABSENT = (
    "check the id; if it is right, the job was removed, or it has ended and is not kept any more "
    "(keep=False, or the keep_s of its queue)"
)
"""What a message says of a job that is not there."""

DeathReason = Literal[
    "failed", "timeout", "expired", "lost", "poison", "lapsed", "rejected", "impossible"
]
DEATH_REASONS: tuple[DeathReason, ...] = get_args(DeathReason)

PRIORITIES = {"low": 10, "normal": 0, "medium": -5, "high": -10, "critical": -15}
"""The names that can be given instead of a number; the lower number runs first."""

Priority = Literal["low", "normal", "medium", "high", "critical"] | int

JobEventKind = Literal[
    "enqueued",
    "started",
    "progress",
    "retried",
    "done",
    "dead",
    "cancelled",
    "promoted",
    "removed",
]
JOB_EVENT_KINDS: tuple[JobEventKind, ...] = get_args(JobEventKind)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something that happened to a job. Live only: a client that does not listen at that moment
    misses it.
    """

    kind: JobEventKind
    queue: str
    id: str
    type: str
    at: float
    attempt: int
    """how many attempts had not gone well by then"""
    worker: str = ""
    detail: bytes = b""
    """retried: the error; dead: the reason; progress: what was reported"""


@dataclass(frozen=True, slots=True)
class JobError:
    """Why an attempt failed."""

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt that did not end well, as the record keeps it."""

    number: int
    outcome: str
    """failed, crashed (it took its process down), lost (the whole worker died) or lapsed (it did
    not renew its lease, and nobody has reported its death)
    """
    worker: str
    started_at: float
    ended_at: float
    error: JobError | None


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """One attempt that has ended, or a job that ended without one, as the history of a queue has
    it. An entry that an older version has written lacks the fields that may be None.
    """

    place: str
    """where it stands in the history; what comes after it is asked for with this"""
    job: str
    type: str
    tenant: str
    attempt: int
    """counted from 1; 0 if the job ended without an attempt"""
    outcome: str
    """done, failed, crashed, lost, lapsed or cancelled; without an attempt expired, cancelled or
    removed
    """
    waited_ms: int
    ran_us: int
    cpu_us: int
    worker: str
    bytes: int
    """of its data"""
    ended_at: float
    created_at: float | None = None
    """when the job was sent"""
    priority: int | None = None
    state: str | None = None
    """what followed: done, dead, ready, scheduled, cancelled, or removed"""
    error_type: str | None = None
    """empty if there was no error, or it is not known"""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job says it has come."""

    percent: float
    data: Any = None


def make_progress(done: float, total: float = 100, data: Any = None) -> Progress:
    """So much of so much, as a percentage from 0 to 100."""
    try:
        percent = 100 * done / total
    except (TypeError, ArithmeticError):
        percent = math.nan
    if not math.isfinite(percent):
        raise InvalidArgument(
            f"progress is {shown(done)} of {shown(total)}; give two numbers, the second above 0"
        )
    return Progress(min(100.0, max(0.0, percent)), data)


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job at one instant. Times are seconds since 1970; 0 stands for not yet."""

    id: str
    queue: str
    type: str
    state: JobState
    data: bytes
    priority: int
    tenant: str
    tags: tuple[str, ...]
    key: str
    """what its limits are counted by"""
    unique: str
    """its unique key; the digest of a long one"""
    unique_scope: UniqueScope
    """which jobs of the queue have no other of this key beside them: those of its type, or all"""
    attempts: int
    """how many may be made"""
    failures: int
    """how many ended with an error"""
    crashes: int
    """how many took the worker down"""
    lapses: int
    """how many ended because the lease of the worker lapsed, with no word of its death"""
    timeout_s: float
    created_at: float
    due_at: float
    """when it became ready, or will"""
    updated_at: float
    started_at: float
    finished_at: float
    worker: str
    reason: str
    """why it is dead"""
    outcome: bytes = b""
    progress: Progress | None = None
    error: JobError | None = None
    is_cancel_asked: bool = False
    process: int = 0
    words: tuple[str, ...] = ()
    """what it can be searched by"""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def attempts_made(self) -> int:
        """How many were begun: those that failed, crashed or lapsed, and the one that runs, went
        well or was ended by a cancel. One that was stopped and given back does not count.
        """
        is_cut_short = self.state == "cancelled" and self.process > 0
        is_begun = self.state in ("running", "done") or is_cut_short
        return self.failures + self.losses + is_begun

    @property
    def losses(self) -> int:
        """Attempts that are not counted among those that the job may have: crashes and lapses."""
        return self.crashes + self.lapses


class JobPage(NamedTuple):
    """A page of jobs in the order in which they were sent."""

    jobs: list[JobInfo]
    cursor: str
    """where the next page begins; empty after the last"""
    total: int | None
    """how many there are in all; None if several of type, tenant and tag were given, as these are
    not counted together
    """


class HandedOut(Protocol):
    """A job that a worker was given."""

    @property
    def process(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def data(self) -> bytes: ...
    @property
    def failures(self) -> int: ...
    @property
    def crashes(self) -> int: ...
    @property
    def lapses(self) -> int: ...
    @property
    def timeout_ms(self) -> int: ...
    @property
    def attempts(self) -> int: ...
    @property
    def backoff(self) -> str: ...


class Report(NamedTuple):
    """What a worker says about a job that it held."""

    process: int
    outcome: Literal["done", "failed", "final", "crashed", "stopped", "cancelled"]
    ran_us: int = 0
    cpu_us: int = 0
    delay_ms: int = 0
    reason: str = ""
    payload: bytes = b""


def check_event_kind(kind: str) -> None:
    if kind not in JOB_EVENT_KINDS:
        known = ", ".join(JOB_EVENT_KINDS)
        raise InvalidArgument(f"there is no event {kind!r} of jobs; there are {known}")


def check_state(state: str) -> JobState:
    """Return the state, or refuse a word that is none."""
    if state not in JOB_STATES:
        raise InvalidArgument(f"there is no job state {state!r}; there are {', '.join(JOB_STATES)}")
    return state
