"""How `penstock fsck` checks and mends queues of each kind, beside what it does for all queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client._async import (
    job_repair,
    job_scan,
    log_repair,
    log_scan,
    task_repair,
    task_scan,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from penstock.client._async.client import AsyncPenstock
    from penstock.connection.store import AsyncStore
    from penstock.model.invariants import Violation
    from penstock.store.keys import KeyName, QueueKeys


class KindCheck(NamedTuple):
    """How queues of one kind are checked."""

    read: Callable[[AsyncStore, QueueKeys, Collection[KeyName]], Awaitable[Any]] | None
    """reads what the field of `Snapshot` that is named as the kind has of such a queue; None if
    reading any queue finds it all
    """
    count_waiting: Callable[[AsyncStore, QueueKeys], Awaitable[int]]
    """how many a maximum length counts"""
    confirm: Callable[[AsyncPenstock, list[Violation]], Awaitable[list[Violation]]]
    """leaves out violations of such queues that are not so at this instant"""
    mend: Callable[[AsyncPenstock, list[Violation]], Awaitable[None]]
    """mends the violations of such queues that are repairable"""


async def _all_of_them(client: AsyncPenstock, violations: list[Violation]) -> list[Violation]:
    """Tasks and partitions are read at one instant, so what was seen twice is so."""
    return violations


KIND_CHECKS = {
    "tasks": KindCheck(
        read=None,
        count_waiting=task_scan.count_waiting,
        confirm=_all_of_them,
        mend=task_repair.mend_tasks,
    ),
    "jobs": KindCheck(
        read=job_scan.read_job_queue,
        count_waiting=job_scan.count_waiting,
        confirm=job_repair.confirm,
        mend=job_repair.mend_jobs,
    ),
    "logs": KindCheck(
        read=log_scan.read_log,
        count_waiting=log_scan.count_waiting,
        confirm=_all_of_them,
        mend=log_repair.mend_logs,
    ),
}
