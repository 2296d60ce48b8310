"""How the demo ended, and whether the counts agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.fsck import Report
    from penstock.demo.records import Ledger
    from penstock.model.queues import QueueState


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final table."""

    accepted: int
    """tasks whose enqueue was acknowledged"""
    finished: int
    """finishes that the store accepted"""
    lost: int
    """accepted tasks that no handler brought to its end"""
    refused: int
    """finishes refused because the worker no longer held the task"""
    run_more_than_once: int
    recovery_s: float
    """from the kill until the tasks of the killed worker were back"""
    tasks_per_s: float
    """from the first enqueue to the last finish, kill and freeze included"""
    seconds: float
    """of the whole demo"""
    disagreements: tuple[str, ...] = ()

    @property
    def exit_status(self) -> int:
        return 1 if self.disagreements else 0


def find_disagreements(
    accepted: int, state: QueueState, ledger: Ledger, report: Report
) -> tuple[str, ...]:
    """What does not fit together, after all workers have stopped; nothing if all is well."""
    counters = state.counters
    claims = {
        f"{accepted:,} tasks were accepted, but the queue counted {counters.enqueued:,}": (
            counters.enqueued == accepted
        ),
        f"{accepted:,} tasks were accepted, but {counters.finished:,} finished": (
            counters.finished == accepted
        ),
        f"{count_lost(accepted, ledger):,} tasks were accepted and never run to their end": (
            count_lost(accepted, ledger) == 0
        ),
        f"{len(ledger.begun):,} different tasks were run, but {accepted:,} were accepted": (
            len(ledger.begun) == accepted
        ),
        f"the queue is not empty: {state.ready:,} wait, {state.running:,} are held, "
        f"{state.dead:,} are dead": state.ready + state.running + state.dead == 0,
    }
    broken = [f"{v.invariant}: {v.message}" for v in report.violations]
    return (*(claim for claim, is_true in claims.items() if not is_true), *broken)


def count_lost(accepted: int, ledger: Ledger) -> int:
    return sum(task not in ledger.ended for task in range(accepted))
