"""What is stored for a namespace, as a value: what the invariants look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from penstock.model.numbers import whole_number
from penstock.model.queues import Counters

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.model.job_snapshot import JobSnapshot
    from penstock.model.log_snapshot import LogSnapshot
    from penstock.model.queues import QueueKind

DIGEST_BYTES = 40
"""how long the digest in front of an index entry is"""


_TEXTS = {"incarnation", "kind"}
"""what is stored of a queue and is no number"""


def no_numbers(meta: Mapping[str, str | bytes]) -> tuple[str, ...]:
    """The names of what should be a number among the settings and counters of a queue, and is
    none.
    """
    return tuple(n for n, v in meta.items() if n not in _TEXTS and whole_number(v) is None)


class Element(NamedTuple):
    """A task as it stands in a list, or as a worker holds it."""

    digest: str
    """what its failures are counted under"""
    task: bytes
    key: bytes | None = None
    """its unique key, if it has one"""
    holder: bytes | None = None


class ForeignEntry(NamedTuple):
    """What stands in a key and cannot be what a script has written there."""

    queue: str
    key: str
    type: str
    """of the key"""
    entry: bytes
    """the member, element or field"""
    wanted: str
    """what should stand there, or be stored under it"""
    is_removable: bool = True
    """whether nothing is lost if it goes"""


class Registration(NamedTuple):
    """An entry of the list of queues."""

    queue: str
    registered_at_ms: int
    """on the store's clock"""


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """One queue. The default is a queue that does not exist."""

    name: str
    incarnation: str = ""
    process: int = 0
    """the last process id given out"""
    kind: QueueKind = "undecided"
    """what it holds; if that is jobs, `Snapshot.jobs` tells the rest"""
    no_numbers: tuple[str, ...] = ()
    """settings and counters that cannot be read, and count as if they were not there"""
    is_paused: bool = False
    max_length: int | None = None
    max_failures: int = 0
    counters: Counters = field(default_factory=Counters)
    ready: int = 0
    held: int = 0
    dead: int = 0
    waiting: tuple[Element, ...] | None = None
    """the ready tasks, the next to run first; None if they were not read. A reader short of memory
    leaves out those that are neither unique nor have ever failed."""
    buried: tuple[bytes, ...] = ()
    """the dead tasks, oldest first, if they were read"""
    members: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    running: Mapping[str, Mapping[int, Element]] = field(default_factory=dict)
    """worker -> process id -> element"""
    unique: Mapping[bytes, tuple[bytes, bytes]] = field(default_factory=dict)
    """key -> holder, task"""
    unique_tasks: frozenset[bytes] = frozenset()
    """digest of the task, then key"""
    failures: Mapping[str, int] = field(default_factory=dict)
    """digest of an element -> failed deliveries"""
    foreign: tuple[ForeignEntry, ...] = ()

    @property
    def exists(self) -> bool:
        return bool(self.incarnation)

    @property
    def holds_jobs(self) -> bool:
        return self.kind == "jobs"

    def elements(self) -> Iterator[Element]:
        """Everything that waits or is held."""
        yield from self.waiting or ()
        for processes in self.running.values():
            yield from processes.values()


@dataclass(frozen=True, slots=True)
class BatchesSnapshot:
    """What was staged for one queue, and what of it was decided to be in the queue."""

    moving: tuple[str, ...] = ()
    """the decided stages, the next to be moved first"""
    missing: tuple[str, ...] = ()
    """of these, those that are not there"""
    lasting: frozenset[str] = frozenset()
    """every stage that does not expire"""
    rows: int = 0
    """tasks or jobs that are still to be moved, as the queue counts them"""
    moved_at_ms: int = 0
    """when something was last decided or moved"""
    foreign: tuple[ForeignEntry, ...] = ()
    """what is to be moved, but is no stage"""
    has_room: bool = True
    """whether the queue takes more"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is stored for one namespace."""

    queues: Mapping[str, QueueSnapshot] = field(default_factory=dict)
    """every queue of which anything was found, listed or not"""
    jobs: Mapping[str, JobSnapshot] = field(default_factory=dict)
    """what else there is of queues that hold jobs"""
    logs: Mapping[str, LogSnapshot] = field(default_factory=dict)
    """what else there is of logs"""
    batches: Mapping[str, BatchesSnapshot] = field(default_factory=dict)
    """what is on its way into queues, of those that have anything staged"""
    unread: Mapping[str, str] = field(default_factory=dict)
    """queue of jobs that this version cannot read -> its layout"""
    registry: Mapping[str, Registration] = field(default_factory=dict)
    """the list of queues, by incarnation"""
    leases: Mapping[str, int] = field(default_factory=dict)
    """registered worker -> end of its lease (ms)"""
    condemned: Mapping[str, int] = field(default_factory=dict)
    """failed worker -> when the next peer may try to recover it (ms)"""
    now_ms: int = 0
    """the store's clock, as leases have it; 0 if it was not read"""
    info: frozenset[str] = frozenset()
    """workers that said something about themselves"""
    work: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """worker -> the queues on its list"""
    foreign: tuple[ForeignEntry, ...] = ()
    """what could not be read, and counts as if it were not there"""
    unknown_keys: tuple[str, ...] = ()
    mistyped_keys: tuple[str, ...] = ()
    expiring_keys: tuple[str, ...] = ()
    """live state that has a time to live"""
    lasting_keys: tuple[str, ...] = ()
    """memories of operations that have none"""

    @property
    def known_workers(self) -> frozenset[str]:
        """Registered, or condemned and not yet recovered everywhere."""
        return frozenset(self.leases) | frozenset(self.condemned)
