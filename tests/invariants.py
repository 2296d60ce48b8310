"""The invariants, as tests ask them; what each proves is said where it is defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.fsck import take_snapshot
from penstock.model.invariants import (
    AT_EVERY_INSTANT,
    AT_REST,
    effects_are_single,
    violations,
)
from penstock.model.job_invariants import all_violations
from penstock.model.snapshot import Snapshot
from penstock.model.task_invariants import failures_stay_below_the_limit, tasks_have_an_origin
from penstock.model.violations import Violation
from penstock.model.worker_invariants import finishes_are_single, tokens_only_grow

if TYPE_CHECKING:
    import penstock

__all__ = [
    "AT_EVERY_INSTANT",
    "AT_REST",
    "Snapshot",
    "Violation",
    "assert_invariants",
    "effects_are_single",
    "failures_stay_below_the_limit",
    "finishes_are_single",
    "take_snapshot",
    "tasks_have_an_origin",
    "tokens_only_grow",
    "violations",
]


def assert_invariants(client: penstock.Penstock) -> Snapshot:
    """Everything that must be true at rest is true of the client's namespace."""
    snapshot = take_snapshot(client)
    found = all_violations(snapshot)
    assert not found, "\n".join(f"{v.invariant} {v.queue}: {v.message}" for v in found)
    return snapshot
