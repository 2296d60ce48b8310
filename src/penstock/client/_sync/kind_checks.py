# Generated from _async/kind_checks.py by tools/generate_sync.py. Edit that file instead.

"""How `penstock fsck` checks and mends queues of each kind, beside what it does for all queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client._sync import (
    job_repair,
    job_scan,
    log_repair,
    log_scan,
    task_repair,
    task_scan,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock.client._sync.client import Penstock
    from penstock.connection.store import Store
    from penstock.model.invariants import Violation
    from penstock.store.keys import KeyName, QueueKeys


class KindCheck(NamedTuple):
    """How queues of one kind are checked."""

    read: Callable[[Store, QueueKeys, Collection[KeyName]], Any] | None
    """reads what the field of `Snapshot` that is named as the kind has of such a queue; None if
    reading any queue finds it all
    """
    count_waiting: Callable[[Store, QueueKeys], int]
    """how many a maximum length counts"""
    confirm: Callable[[Penstock, list[Violation]], list[Violation]]
    """leaves out violations of such queues that are not so at this instant"""
    mend: Callable[[Penstock, list[Violation]], None]
    """mends the violations of such queues that are repairable"""


def _all_of_them(client: Penstock, violations: list[Violation]) -> list[Violation]:
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
