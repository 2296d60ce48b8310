"""Every kind of queue, as a value: what differs between a queue of tasks, one of jobs, and a log.

A new kind is an entry in `KINDS`. The client registers beside it what needs I/O: how
`penstock fsck` reads and mends such queues (`client/_async/kind_checks.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from penstock.errors import UnknownLayout
from penstock.store.commands import job_staging, jobs, queues, staging
from penstock.store.keys import (
    JobKeys,
    LogKeys,
    PartitionKeys,
    QueueKeys,
    TaskKeys,
    key_types,
)
from penstock.store.script import Script
from penstock.store.script import scripts as scripts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.queues import KindName, Returned
    from penstock.model.staging import Moved
    from penstock.store.command import Command, Operation


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of queue."""

    name: KindName
    """what the queue holds; scripts answer with this word if they are for another kind"""
    keys: type
    """declares the keys that only such queues have"""
    scripts: tuple[Script, ...]
    """the scripts that are about what it holds"""
    join: Join
    leave: Leave
    move: Move
    partition_keys: type | None = None
    """declares the keys of its partitions, if it has some; workers then share these instead
    of joining it as a whole, and batches for it are staged in these
    """

    @property
    def key_types(self) -> dict[str, str]:
        """Name -> type, of every key that such a queue can have."""
        if self.partition_keys is None:
            return key_types(QueueKeys, self.keys)
        shared = key_types(QueueKeys)
        of_all = {name: shared[name] for name in _OF_EVERY_KIND}
        return of_all | key_types(self.keys, self.partition_keys)


class Join(Protocol):
    """Lets a worker start what the queue holds."""

    def __call__(
        self,
        keys: QueueKeys,
        operation: Operation,
        worker: str,
        types: Sequence[str] | None,
        incarnation: str,
    ) -> Command[None]:
        """`types` are what the worker handles of it (None: all), where that has types."""


class Leave(Protocol):
    """Takes a worker off the queue and gives back what it holds."""

    def __call__(
        self,
        keys: QueueKeys,
        operation: Operation,
        worker: str,
        is_lost: bool,
        error: bytes,
        has_died: bool = False,
        known: Sequence[int] = (),
    ) -> Command[Returned | KindName]:
        """The answer is the name of another kind, and nothing has happened, if the queue holds
        that. `error` is kept with what was lost, where that has a record; `has_died` says that the
        worker is known to be dead, and has not only failed to renew its lease. `known` is what the
        worker itself says that it held, which a peer may have given back already.
        """


class Move(Protocol):
    """Moves the next chunk of a decided batch into the queue."""

    def __call__(self, keys: QueueKeys, operation: Operation, ids: Sequence[int]) -> Command[Moved]:
        """What comes without an id gets the first of `ids`, where it needs one."""


def _join_tasks(
    keys: QueueKeys,
    operation: Operation,
    worker: str,
    types: Sequence[str] | None,
    incarnation: str,
) -> Command[None]:
    return queues.join_queue(keys, operation, worker, incarnation)


def _leave_tasks(
    keys: QueueKeys,
    operation: Operation,
    worker: str,
    is_lost: bool,
    error: bytes,
    has_died: bool = False,
    known: Sequence[int] = (),
) -> Command[Returned | KindName]:
    return queues.leave_queue(keys, operation, worker, is_lost)


def _move_tasks(keys: QueueKeys, operation: Operation, ids: Sequence[int]) -> Command[Moved]:
    return staging.move_tasks(keys)


_OF_EVERY_KIND = ("meta", "memory", "batches", "batch_times")
_TASKS = Kind(
    name="tasks",
    keys=TaskKeys,
    scripts=tuple(scripts_of("tasks")),
    join=_join_tasks,
    leave=_leave_tasks,
    move=_move_tasks,
)
_JOBS = Kind(
    name="jobs",
    keys=JobKeys,
    scripts=tuple(scripts_of("jobs")),
    join=jobs.join_jobs,
    leave=jobs.leave_jobs,
    move=job_staging.move_jobs,
)
_LOGS = Kind(
    name="logs",
    keys=LogKeys,
    scripts=tuple(scripts_of("logs")),
    join=_join_tasks,  # which a log refuses
    leave=_leave_tasks,
    move=_move_tasks,
    partition_keys=PartitionKeys,
)
KINDS: dict[str, Kind] = {kind.name: kind for kind in (_TASKS, _JOBS, _LOGS)}
"""By name. A queue of which nothing is known is tried as the first."""


def stored_kind(name: str) -> Kind:
    """The kind that is written down somewhere; the first if none is.

    Raises UnknownLayout if this version has no such kind.
    """
    if not name:
        return _TASKS
    if name not in KINDS:
        raise UnknownLayout(
            f"a queue holds {name!r}, which this version of penstock does not know; upgrade this "
            "program"
        )
    return KINDS[name]
