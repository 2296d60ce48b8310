"""What is true of every queue and its keys: known layouts, numbers, types, and a place on the list.

The checks look at a snapshot; `model/invariants.py` says when they are asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.jobs import LAYOUT
from penstock.model.numbers import whole_number
from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.snapshot import Snapshot

FORGETTABLE = ("newest", "waiting_bytes", "kept_bytes", "turn")
"""Figures that a queue of jobs can do without: where the newest id is not known, every id that is
sent is looked for, bytes can be counted again, and the last turn is the greatest that a job has.
"""

_CONSEQUENCES = {
    "turn": ", so the queue takes no more jobs",
    "max_length": ", so any number may wait; set it with `penstock queue configure`",
}
_CREATION_GRACE_MS = 2 * 3_600_000


def figures_are_numbers(snapshot: Snapshot) -> Iterator[Violation]:
    """I3: what scripts count with is a number. Anything else was written by another program.
    Scripts pass it over, and fail where they cannot do without it.
    """
    for queue in snapshot.queues.values():
        for name in queue.no_numbers:
            yield Violation(
                "I3",
                queue.name,
                f"{name!r} is not a number{_CONSEQUENCES.get(name, '')}",
                is_repairable=queue.holds_jobs and name in FORGETTABLE,
                kind="figure_is_no_number",
                subject=name,
            )


def layouts_are_known(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: jobs are stored as this version stores them. What is stored otherwise is neither looked
    at nor changed.
    """
    for queue, layout in snapshot.unread.items():
        if whole_number(layout) is None:
            yield Violation(
                "I3",
                queue,
                f"'layout' is not a number but {layout!r}, so the queue was not checked and cannot "
                f"be used; write to its `meta` what it was (this version writes {LAYOUT})",
                kind="figure_is_no_number",
                subject="layout",
            )
        else:
            age = "older" if int(layout) < LAYOUT else "newer"
            writer = "an older penstock" if age == "older" else "a newer penstock"
            yield Violation(
                "I13",
                queue,
                f"the queue was written by {writer} (layout {layout}; this version knows "
                f"{LAYOUT}), so it was not checked; check it with that version",
                kind=f"layout_is_{age}",
                subject=layout,
            )


def live_queues_are_registered(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: every queue that exists is on the list of queues, under the incarnation that it has.
    Proves that no task waits where no worker looks, and that a delete takes the name off the list.
    """
    for queue in snapshot.queues.values():
        entry = snapshot.registry.get(queue.incarnation)
        if queue.exists and (entry is None or entry.queue != queue.name):
            yield Violation(
                "I13",
                queue.name,
                "the queue exists but is not on the list of queues",
                # Only what was read as it is stored can be listed.
                is_repairable="\\" not in queue.incarnation,
                kind="queue_not_registered",
                subject=queue.incarnation,
            )


def registrations_belong_to_queues(snapshot: Snapshot) -> Iterator[Violation]:
    """I13, at rest: every entry of the list of queues is that of a queue. (Between being listed and
    being created or taken off again it is not, and a client that crashes then leaves it behind.)

    Nobody can tell an entry left behind from one whose owner is about to create the queue, and to
    remove the latter would leave the queue unlisted. So an entry is taken for the former only when
    it is older than any request that could still create the queue: a client repeats a numbered
    request for less than an hour. The time is the store's own, from the server that is asked what
    time it is now, so no client's clock matters. A client that was
    stopped for two hours between two requests can still lose its entry;
    `live_queues_are_registered` then says so, and repair lists the queue again.
    """
    for incarnation, (name, registered_at_ms) in snapshot.registry.items():
        queue = snapshot.queues.get(name)
        is_used = queue is not None and queue.incarnation == incarnation
        if not is_used and snapshot.now_ms - registered_at_ms > _CREATION_GRACE_MS:
            yield Violation(
                "I13",
                name,
                f"the list of queues has an entry {incarnation!r} for this queue, left behind by "
                "somebody who did not come to create or delete it",
                is_repairable=True,
                kind="registration_of_no_queue",
                subject=incarnation,
            )


def entries_make_sense(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: where names, numbers and rules are kept stands nothing else. What another program wrote
    there is passed over by scripts; what it was put in the place of is lost.
    """
    found = [entry for queue in snapshot.queues.values() for entry in queue.foreign]
    found += [entry for batches in snapshot.batches.values() for entry in batches.foreign]
    found += [entry for queue in snapshot.jobs.values() for entry in queue.foreign]
    found += [entry for log in snapshot.logs.values() for entry in log.foreign]
    for queue, key, type, entry, wanted, is_removable in dict.fromkeys([*snapshot.foreign, *found]):
        yield Violation(
            "I13",
            queue,
            f"key {key!r} has {entry!r}, which is not {wanted}",
            is_repairable=is_removable,
            kind="foreign_entry",
            subject="\0".join((key, type, entry.hex())),
        )


def keys_are_as_they_should_be(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: only keys that penstock knows, of the right type; live state never expires and memories
    always do. Proves that nothing vanishes by itself and nothing stays by accident.
    """
    kinds = (
        ("unknown_key", snapshot.unknown_keys, "is none of penstock's"),
        ("mistyped_key", snapshot.mistyped_keys, "holds a value of another type"),
        ("live_state_expires", snapshot.expiring_keys, "is live state but will expire"),
        ("memory_stays", snapshot.lasting_keys, "remembers an operation but will never expire"),
    )
    for kind, keys, what in kinds:
        for key in keys:
            yield Violation(
                "I13",
                "",
                f"key {key!r} {what}",
                is_repairable=kind in ("live_state_expires", "memory_stays"),
                kind=kind,
                subject=key,
            )
