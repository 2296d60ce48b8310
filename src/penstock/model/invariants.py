"""What is true of a store at every instant, and what is true once nothing is under way.

The checks are pure: they look at a `Snapshot` and name what is wrong with it. `penstock fsck`, the
simulation and the chaos tests all ask the same ones. They stand in `task_invariants.py`,
`worker_invariants.py` and `queue_invariants.py`; those of jobs in `job_invariants.py`.

I1 to I13 are the names used in ARCHITECTURE.md; a name without a check is one that a single
snapshot cannot show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from penstock.model.queue_invariants import (
    entries_make_sense,
    figures_are_numbers,
    keys_are_as_they_should_be,
    layouts_are_known,
    live_queues_are_registered,
    registrations_belong_to_queues,
)
from penstock.model.snapshot import Snapshot
from penstock.model.task_invariants import (
    counters_are_not_negative,
    empty_queues_are_empty,
    failures_belong_to_tasks,
    tasks_are_conserved,
    unique_keys_belong_to_tasks,
)
from penstock.model.violations import Violation
from penstock.model.worker_invariants import (
    dead_workers_are_recovered,
    holders_can_be_recovered,
    members_are_known,
    members_list_their_queues,
    processes_have_one_holder,
    processes_were_given_out,
    traces_belong_to_workers,
)

__all__ = ["AT_EVERY_INSTANT", "AT_REST", "Violation", "effects_are_single", "violations"]

Check = Callable[[Snapshot], Iterable[Violation]]

AT_EVERY_INSTANT: tuple[Check, ...] = (
    tasks_are_conserved,
    processes_have_one_holder,
    counters_are_not_negative,
    figures_are_numbers,
    layouts_are_known,
    processes_were_given_out,
    failures_belong_to_tasks,
    unique_keys_belong_to_tasks,
    holders_can_be_recovered,
    live_queues_are_registered,
    empty_queues_are_empty,
    keys_are_as_they_should_be,
    entries_make_sense,
)
"""True between any two operations, also if clients, workers or the server have crashed."""

AT_REST: tuple[Check, ...] = (
    members_are_known,
    members_list_their_queues,
    traces_belong_to_workers,
    registrations_belong_to_queues,
    dead_workers_are_recovered,
)
"""True once every operation has ended and every dead worker was recovered."""


def violations(
    snapshot: Snapshot,
    checks: Iterable[Check] = AT_EVERY_INSTANT + AT_REST,
) -> list[Violation]:
    """Everything that the checks find."""
    return [violation for check in checks for violation in check(snapshot)]


def effects_are_single(effects: Iterable[tuple[str, str, int]]) -> list[Violation]:
    """I7, of a history: no operation (key, lane, number) took effect twice."""
    return [
        Violation(
            "I7", "", f"operation {number} of lane {lane!r} took effect {count} times at {at}"
        )
        for (at, lane, number), count in Counter(effects).items()
        if count > 1
    ]
