"""What is true of the schedules of a queue of jobs, and of what else goes by the clock there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.schedules import next_slot_ms
from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.job_snapshot import JobSnapshot


def slots_belong_to_schedules(queue: JobSnapshot) -> Iterator[Violation]:
    """I13: each schedule that is not over has a slot at which it is due, and no other has one.
    Proves that every schedule fires.
    """
    for name in queue.slots - queue.schedules.keys():
        yield Violation(
            "I13",
            queue.queue,
            f"a slot is kept of schedule {name!r}, which is not there",
            is_repairable=True,
            kind="slot_of_no_schedule",
            subject=name,
        )
    for name, schedule in queue.schedules.items():
        if schedule is None:
            yield Violation(
                "I13",
                queue.queue,
                f"schedule {name!r} cannot be read, so it never fires; add it again with `penstock "
                "schedule add`, or remove it",
                kind="schedule_cannot_be_read",
                subject=name,
            )
        elif name not in queue.slots and next_slot_ms(schedule, queue.totals.now_ms) is not None:
            yield Violation(
                "I13",
                queue.queue,
                f"schedule {name!r} has no slot, so it never fires; repair lets it fire when it is "
                "due next",
                is_repairable=True,
                kind="slot_is_missing",
                subject=name,
            )


def settings_are_there(queue: JobSnapshot) -> Iterator[Violation]:
    """I13: a queue of jobs says in which layout they are, and until when its history is kept for
    its readers.
    """
    if "kind" in queue.totals.meta and "layout" not in queue.totals.meta:
        yield Violation(
            "I13",
            queue.queue,
            "the queue does not say in which layout its jobs are, though all could be read",
            is_repairable=not queue.damaged,
            kind="layout_is_missing",
        )
    if queue.marks and "marked_until" not in queue.totals.meta:
        yield Violation(
            "I13",
            queue.queue,
            "readers of the history have left marks, but it is not kept for them; they set that "
            "right when they read on",
            kind="history_is_not_kept",
        )
