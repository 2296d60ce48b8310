"""What is true of plain tasks: none is lost or made twice, and their keys and failures are theirs.

The checks look at a snapshot; `model/invariants.py` says when they are asked.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from penstock.model.queues import Counters
from penstock.model.snapshot import DIGEST_BYTES, Snapshot
from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.model.snapshot import QueueSnapshot


def tasks_are_conserved(snapshot: Snapshot) -> Iterator[Violation]:
    """I1: every task ever accepted is waiting, held, dead or recorded as gone; every start is held
    or recorded as ended. Proves that no task was lost or made twice, since each operation changes
    its counter and the lists in one step.
    """
    for queue in _queues_of_tasks(snapshot):
        count = queue.counters
        places = queue.ready + queue.held + queue.dead
        gone = count.finished + count.cancelled + count.deleted
        if count.enqueued != places + gone:
            yield Violation(
                "I1",
                queue.name,
                f"{count.enqueued} tasks were enqueued but {places + gone} are accounted for "
                f"({queue.ready} ready, {queue.held} running, {queue.dead} dead, {count.finished} "
                f"finished, {count.cancelled} cancelled, {count.deleted} deleted)",
                kind="enqueued_tasks_add_up",
            )
        ended = count.finished + count.stopped + count.failed + count.lost
        if count.started != queue.held + ended:
            yield Violation(
                "I1",
                queue.name,
                f"{count.started} tasks were started but {queue.held + ended} are accounted for "
                f"({queue.held} running, {count.finished} finished, {count.stopped} stopped, "
                f"{count.failed} failed, {count.lost} lost)",
                kind="started_tasks_add_up",
            )


def counters_are_not_negative(snapshot: Snapshot) -> Iterator[Violation]:
    """I3: nothing was counted down. Counters only ever grow by what a script really did, so a
    negative one means that something else wrote to them.
    """
    for queue in _queues_of_tasks(snapshot):
        for name in Counters.__dataclass_fields__:
            value = getattr(queue.counters, name)
            if value < 0:
                yield Violation(
                    "I3",
                    queue.name,
                    f"the counter {name!r} is {value}",
                    kind="counter_is_negative",
                    subject=name,
                )


def failures_stay_below_the_limit(snapshot: Snapshot) -> Iterator[Violation]:
    """I5: no task in circulation has failed as often as it may. Proves that poison ends up dead.

    Not for `fsck`: lowering the limit of a queue makes this false without any fault.
    """
    for queue in snapshot.queues.values():
        for digest, count in queue.failures.items():
            if not 0 < count < queue.max_failures:
                yield Violation(
                    "I5",
                    queue.name,
                    f"a task has failed {count} times and {queue.max_failures} is the limit",
                    kind="failures_stay_below_the_limit",
                    subject=digest,
                )


def failures_belong_to_tasks(snapshot: Snapshot) -> Iterator[Violation]:
    """I5: failures are counted only of tasks that wait or are held. Proves that the table does not
    grow for ever, and that a new task does not inherit the failures of an old one.
    """
    for queue in snapshot.queues.values():
        if queue.waiting is None:
            continue
        present = {element.digest for element in queue.elements()}
        for digest in queue.failures.keys() - present:
            yield Violation(
                "I5",
                queue.name,
                f"{queue.failures[digest]} failures are counted of a task that is not there "
                f"(digest {digest})",
                is_repairable=True,
                kind="failures_of_no_task",
                subject=digest,
            )


def unique_keys_belong_to_tasks(snapshot: Snapshot) -> Iterator[Violation]:
    """I6: every taken key belongs to exactly one task that waits or is held, and the index by task
    names exactly the taken keys. Proves that no key stays taken for ever and none is taken twice.
    """
    for queue in snapshot.queues.values():
        if queue.waiting is None:
            continue
        owners = Counter((e.key, e.holder) for e in queue.elements() if e.key is not None)
        for key, (holder, _) in queue.unique.items():
            count = owners[key, holder]
            if count != 1:
                yield Violation(
                    "I6",
                    queue.name,
                    f"unique key {key!r} is taken but {count or 'no'} tasks hold it",
                    is_repairable=count == 0,
                    kind="unique_key_of_no_task" if count == 0 else "unique_key_taken_twice",
                    subject=(holder + key).decode("latin-1"),
                )
        expected = {unique_entry(key, task) for key, (_, task) in queue.unique.items()}
        for entry in expected - queue.unique_tasks:
            yield Violation(
                "I6",
                queue.name,
                f"unique key {entry[DIGEST_BYTES:]!r} is missing in the index by task, so "
                "cancelling its task would not find it",
                is_repairable=True,
                kind="unique_key_not_indexed",
                subject=entry.decode("latin-1"),
            )
        for entry in queue.unique_tasks - expected:
            yield Violation(
                "I6",
                queue.name,
                f"the index by task names the unique key {entry[DIGEST_BYTES:]!r}, which is not "
                "taken",
                is_repairable=True,
                kind="index_of_no_unique_key",
                subject=entry.decode("latin-1"),
            )


def empty_queues_are_empty(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: a queue without tasks keeps no unique keys and no failures, and one that was deleted
    keeps no tasks either. Proves that used queues cost nothing.
    """
    for queue in snapshot.queues.values():
        if not queue.exists and queue.ready + queue.dead + queue.held:
            yield Violation(
                "I13",
                queue.name,
                f"{queue.ready + queue.dead + queue.held} tasks are in a queue that does not exist",
                kind="tasks_without_a_queue",
            )
        if queue.ready + queue.held:
            continue
        for name, left in (("unique keys", queue.unique), ("failures", queue.failures)):
            # Where the tasks were read, the checks of I5 and I6 name each of these.
            if left and queue.waiting is None:
                yield Violation(
                    "I13",
                    queue.name,
                    f"{len(left)} {name} are left in a queue without tasks",
                    kind=f"{name.replace(' ', '_')}_left_behind",
                )


def tasks_have_an_origin(seen: Iterable[bytes], enqueued: Iterable[bytes]) -> list[Violation]:
    """I6, of a history: every task seen anywhere was enqueued."""
    return [
        Violation("I6", "", f"task {task!r} was never enqueued", kind="phantom")
        for task in set(seen) - set(enqueued)
    ]


def _queues_of_tasks(snapshot: Snapshot) -> Iterator[QueueSnapshot]:
    """Those whose counters are of plain tasks; `model/job_invariants.py` is for the others."""
    return (queue for queue in snapshot.queues.values() if not queue.holds_jobs)


def unique_entry(key: bytes, task: bytes) -> bytes:
    """How the index by task names a key; as `scripts/fragments/tasks/element.lua` has it."""
    return hashlib.sha1(task, usedforsecurity=False).hexdigest().encode() + key
