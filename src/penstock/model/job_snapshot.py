"""Everything that is stored about a queue of jobs, as a value: what the invariants look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.jobs import STATE_CODES, JobState
from penstock.model.numbers import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.model.schedules import Schedule
    from penstock.model.snapshot import ForeignEntry

PAGE = 512
"""How many neighbouring numbers share a page of a listing, as `jobs/changes.lua` has it."""

HAS_ATTEMPTS, HAS_LOG, HAS_PROGRESS, KEPT_FOR_BATCH = 2, 4, 8, 16
"""Marks of a job: what else is kept about it, as `fragments/jobs/records.lua` has them."""

UNIQUE_MODES = {4: "queued", 8: "done", 16: "window", 32: "scheduled"}
"""Flag of a job -> until when its unique key is taken."""


@dataclass(frozen=True, slots=True)
class StoredHead:
    """What was said when a job was sent, as far as it decides where the job stands. Jobs that were
    sent alike share one.
    """

    flags: int
    priority: int
    attempts: int
    """how many may be made"""
    type: str
    tenant: str
    key: str
    """what its limits are counted by"""
    unique: bytes
    tags: tuple[str, ...]
    words: tuple[str, ...]
    """what it can be found by"""

    @property
    def line(self) -> str:
        return f"{self.priority}:{self.tenant}"

    @property
    def unique_mode(self) -> str:
        """Empty for a job without a unique key."""
        if not self.unique:
            return ""
        return next((mode for flag, mode in UNIQUE_MODES.items() if self.flags & flag), "")

    def listings(self, state: JobState) -> Iterator[str]:
        """The lists that a job in this state is counted in; a running one stands on none of their
        pages.
        """
        code = STATE_CODES[state]
        yield f"{code}A:"
        yield f"{code}T:{self.type}"
        if self.tenant:
            yield f"{code}N:{self.tenant}"
        for tag in self.tags:
            yield f"{code}G:{tag}"


class StoredJob(NamedTuple):
    """What is stored about one job."""

    id: str
    has_record: bool
    has_facts: bool
    state: JobState
    marks: int
    number: int
    turn: int
    failures: int
    crashes: int
    lapses: int
    since_ms: int
    """when it became ready, or is due"""
    updated_ms: int
    finished_ms: int
    process: int
    worker: str
    bytes: int
    outcome_bytes: int
    head: StoredHead

    @property
    def page(self) -> int:
        return self.number // PAGE

    @property
    def is_kept_for_batch(self) -> bool:
        return bool(self.marks & KEPT_FOR_BATCH)

    @property
    def moment(self) -> str:
        """The same as long as nothing has happened to the job."""
        return f"{self.id} {self.state} {self.turn} {self.process} {self.updated_ms}"


class DamagedJob(NamedTuple):
    """A job that cannot be read."""

    id: str
    what_is_left: str
    """for people"""
    is_set_aside: bool
    """whether it was taken out of the queue, byte for byte"""


class Entry(NamedTuple):
    """A place in a line. It is valid if its job is ready and still has this turn."""

    id: str
    turn: int | None
    """None: the job's first"""

    def is_of(self, job: StoredJob | None) -> bool:
        return (
            job is not None
            and job.id == self.id
            and job.state == "ready"
            and job.turn == (job.number if self.turn is None else self.turn)
        )


class Stranger(NamedTuple):
    """What stands where the id of a job should be, or the number of a page."""

    kind: str
    """of the key"""
    owner: str
    """of the key; empty if there is one of the kind"""
    field: bytes
    """what it is stored under, if that is not itself"""
    entry: bytes


@dataclass(frozen=True, slots=True)
class QueueTotals:
    """What is counted about a queue of jobs, at one instant."""

    now_ms: int = 0
    meta: Mapping[str, str] = field(default_factory=dict)
    """settings and counters"""
    members: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)
    """how many there are in `jobs`, `facts`, `due`, `finished` and `buried`"""
    held: Mapping[str, int] = field(default_factory=dict)
    """worker -> how many jobs it holds"""
    states: Mapping[JobState, int] = field(default_factory=dict)
    """state -> how many jobs are counted in it"""
    newest: str = ""
    """the greatest id that the queue has ever had; empty if that is not known"""

    @property
    def exists(self) -> bool:
        return "incarnation" in self.meta

    def count(self, name: str) -> int:
        """A counter of the queue."""
        return whole_number(self.meta.get(name, "0")) or 0


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """Everything that is stored about one queue of jobs; ids as people see them."""

    queue: str
    totals: QueueTotals = field(default_factory=QueueTotals)
    is_exact: bool = True
    """whether nothing was counted while it was read, so that recounting must come out right"""
    jobs: Mapping[str, StoredJob] = field(default_factory=dict)
    damaged: tuple[DamagedJob, ...] = ()
    levels: Mapping[str, float] = field(default_factory=dict)
    rings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """priority -> tenants"""
    lines: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    """priority and tenant, with a colon between -> entries"""
    unhandled_types: frozenset[str] = frozenset()
    unhandled: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    """type -> entries"""
    unparks: Mapping[str, float] = field(default_factory=dict)
    parked: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    """key -> entries"""
    due: Mapping[str, int] = field(default_factory=dict)
    finished: Mapping[str, int] = field(default_factory=dict)
    buried: Mapping[str, int] = field(default_factory=dict)
    running: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """worker -> process -> job"""
    counts: Mapping[str, int] = field(default_factory=dict)
    """listing -> jobs"""
    directories: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """listing -> numbers of its pages"""
    pages: Mapping[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    """listing and number of the page -> jobs"""
    unique: Mapping[bytes, str] = field(default_factory=dict)
    windows: Mapping[bytes, int] = field(default_factory=dict)
    busy: Mapping[str, int] = field(default_factory=dict)
    types: frozenset[str] = frozenset()
    """workers that have said what they handle"""
    """workers whose last report is remembered with the queue"""
    suspects: Mapping[str, str] = field(default_factory=dict)
    alarms: frozenset[str] = frozenset()
    """workers"""
    progress: frozenset[str] = frozenset()
    logs: frozenset[str] = frozenset()
    attempts: frozenset[str] = frozenset()
    """jobs of which something is written down"""
    schedules: Mapping[str, Schedule | None] = field(default_factory=dict)
    """by name; None for one that cannot be read"""
    slots: frozenset[str] = frozenset()
    """names of schedules"""
    marks: bool = False
    """whether readers of the history have left some"""
    foreign: tuple[ForeignEntry, ...] = ()
    strangers: tuple[Stranger, ...] = ()
    """what could not be read, and counts as if it were not there"""

    def places(self) -> Iterator[tuple[str, str, tuple[Entry, ...]]]:
        """Everywhere that ready jobs can stand: kind, name and entries."""
        for kind in ("line", "unhandled", "parked"):
            found = self.lines if kind == "line" else getattr(self, kind)
            for name, entries in found.items():
                yield kind, name, entries
