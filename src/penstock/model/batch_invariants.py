"""What is true of batches on their way into a queue; `model/invariants.py` has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.snapshot import Snapshot

_MOVE_GRACE_MS = 60_000
"""How long a decided batch may stand still, though there is room, before that is a violation."""


def batch_violations(snapshot: Snapshot) -> list[Violation]:
    """Everything that is wrong with the batches of a namespace."""
    checks = (
        decided_rows_are_there,
        decided_rows_are_counted,
        stages_belong_to_batches,
        decided_batches_are_moved,
    )
    return [violation for check in checks for violation in check(snapshot)]


def decided_rows_are_there(snapshot: Snapshot) -> Iterator[Violation]:
    """I1: what was decided to be in the queue is in its stage until it is moved. Proves that
    nothing that a writer was promised has been lost.
    """
    for queue, batches in snapshot.batches.items():
        for stage in batches.missing:
            yield Violation(
                "I1",
                queue,
                f"stage {stage!r} was decided to be in the queue but is not there, so its rows are "
                "lost; write them again under another batch_id",
                kind="decided_stage_is_missing",
                subject=stage,
            )


def decided_rows_are_counted(snapshot: Snapshot) -> Iterator[Violation]:
    """I12: as long as a decided batch is to be moved, its rows are counted."""
    for queue, batches in snapshot.batches.items():
        if batches.moving and batches.rows <= 0:
            yield Violation(
                "I12",
                queue,
                f"{batches.rows} rows are counted that are to be moved into the queue, though "
                "there are some; the count is right again when all are moved",
                kind="decided_rows_are_not_counted",
            )


def stages_belong_to_batches(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: a stage stays only if its batch was decided; all others expire."""
    for queue, batches in snapshot.batches.items():
        for stage in sorted(batches.lasting.difference(batches.moving)):
            yield Violation(
                "I13",
                queue,
                f"stage {stage!r} belongs to no decided batch but will never expire",
                is_repairable=True,
                kind="stage_of_no_batch",
                subject=stage,
            )


def decided_batches_are_moved(snapshot: Snapshot) -> Iterator[Violation]:
    """I1: what was decided gets into its queue as long as that has room."""
    for queue, batches in snapshot.batches.items():
        still_s = (snapshot.now_ms - batches.moved_at_ms) // 1000
        if batches.moving and batches.has_room and still_s * 1000 > _MOVE_GRACE_MS:
            yield Violation(
                "I1",
                queue,
                f"{batches.rows} rows of a decided batch have not been moved into the queue for "
                f"{still_s} s, though it has room",
                is_repairable=not batches.missing,
                kind="decided_batch_is_not_moved",
            )
