"""What is true of a store at every instant, and what is true once things have come to rest.

The checks are pure: they look at a `Snapshot` and name what is wrong with it. `penstock fsck`, the
simulation and the chaos tests all ask the same ones. I1 to I13 are the names used in
ARCHITECTURE.md; a name without a check here is one that a single snapshot cannot show.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.model.jobs import LAYOUT
from penstock.model.numbers import whole_number
from penstock.model.queues import Counters
from penstock.model.snapshot import DIGEST_BYTES, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.model.snapshot import QueueSnapshot


_RECOVERY_GRACE_MS = 60_000
_CREATION_GRACE_MS = 2 * 3_600_000


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that should not be."""

    invariant: str
    """I1, I2, ..."""
    queue: str
    """empty for what belongs to no queue"""
    message: str
    is_repairable: bool = False
    """whether `penstock fsck --repair` can mend it without risk"""
    kind: str = ""
    """which check found it"""
    subject: str = ""
    """the worker, job, key (behind its holder) or digest concerned; bytes as latin-1"""
    excess: int = 0
    """by how much a count is too high"""

    @property
    def identity(self) -> tuple[str, str, str]:
        """The same for the same trouble seen twice, however the counts in the message change."""
        return self.kind, self.queue, self.subject


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


def processes_have_one_holder(snapshot: Snapshot) -> Iterator[Violation]:
    """I2: no process is held by two workers, and nobody holds or waits who has not started work
    there. Proves that a task runs in one place at a time, and that failing its worker finds it.
    """
    for queue in snapshot.queues.values():
        holders = Counter(process for held in queue.running.values() for process in held)
        for process, count in holders.items():
            if count > 1:
                yield Violation(
                    "I2",
                    queue.name,
                    f"process {process} is held by {count} workers",
                    kind="one_holder",
                    subject=str(process),
                )
        for worker, held in queue.running.items():
            if held and worker not in queue.members:
                yield Violation(
                    "I2",
                    queue.name,
                    f"worker {worker!r} holds {len(held)} tasks but has not started work here, so "
                    "nothing will ever give them back",
                    is_repairable=worker not in snapshot.known_workers,
                    kind="holder_is_no_member",
                    subject=worker,
                )
        for worker in queue.idle - queue.members:
            yield Violation(
                "I2",
                queue.name,
                f"worker {worker!r} waits for a wake-up but has not started work here",
                is_repairable=worker not in snapshot.known_workers,
                kind="waiter_is_no_member",
                subject=worker,
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


def figures_are_numbers(snapshot: Snapshot) -> Iterator[Violation]:
    """I3: what scripts count with is a number. Anything else was written by somebody else; it is
    not counted with, and where scripts cannot do without it they fail.
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


def processes_were_given_out(snapshot: Snapshot) -> Iterator[Violation]:
    """I4: every process held has an id that this queue has given out. Proves that the next id is
    higher than every token in use, so that a token never comes back.
    """
    for queue in snapshot.queues.values():
        for worker, held in queue.running.items():
            for process in held:
                if process > queue.process:
                    yield Violation(
                        "I4",
                        queue.name,
                        f"worker {worker!r} holds process {process}, but the last one given out is "
                        f"{queue.process}",
                        kind="process_from_the_future",
                        subject=str(process),
                    )


def tokens_only_grow(before: Snapshot, after: Snapshot) -> Iterator[Violation]:
    """I4, between two snapshots: ids and counters of a queue never go back while it lives, and a
    process that was not there before has a new id. Proves that fencing by token works.
    """
    for queue in after.queues.values():
        old = before.queues.get(queue.name)
        if old is None or not old.exists or old.incarnation != queue.incarnation:
            continue
        if queue.process < old.process:
            yield Violation(
                "I4",
                queue.name,
                f"the last process id went back from {old.process} to {queue.process}",
                kind="tokens_only_grow",
            )
        held_before = {process for held in old.running.values() for process in held}
        for held in queue.running.values():
            for process in held.keys() - held_before:
                if process <= old.process:
                    yield Violation(
                        "I4",
                        queue.name,
                        f"process id {process} was given out again",
                        kind="token_came_back",
                        subject=str(process),
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


def holders_can_be_recovered(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: whoever holds tasks is registered or condemned, and has the queue on its list. Proves
    that recovery will find every task that a dead worker holds, wherever it crashed.
    """
    for queue in snapshot.queues.values():
        for worker, held in queue.running.items():
            if not held:
                continue
            if worker not in snapshot.known_workers:
                yield Violation(
                    "I13",
                    queue.name,
                    f"worker {worker!r} holds {len(held)} tasks but is neither registered nor "
                    "condemned, so nobody will recover them",
                    is_repairable=True,
                    kind="holder_is_unknown",
                    subject=worker,
                )
            elif queue.name not in snapshot.work.get(worker, ()):
                yield Violation(
                    "I13",
                    queue.name,
                    f"worker {worker!r} holds {len(held)} tasks but does not list this queue, so "
                    "recovery would pass it by",
                    kind="holder_does_not_list_the_queue",
                    subject=worker,
                )


def live_queues_are_registered(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: every queue that exists is on the list of queues, under the incarnation that it has.
    Proves that no task waits where nobody looks, and that a delete takes the name off the list.
    """
    for queue in snapshot.queues.values():
        entry = snapshot.registry.get(queue.incarnation)
        if queue.exists and (entry is None or entry.queue != queue.name):
            yield Violation(
                "I13",
                queue.name,
                "the queue exists but is not on the list of queues",
                is_repairable=True,
                kind="queue_not_registered",
                subject=queue.incarnation,
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


def members_are_known(snapshot: Snapshot) -> Iterator[Violation]:
    """I13, at rest: who has started work is registered or condemned. Proves that dead workers
    leave nothing behind. (For a moment a worker failed in the middle of `start work` is an
    exception.)
    """
    for queue in snapshot.queues.values():
        for worker in (queue.members | queue.idle) - snapshot.known_workers:
            yield Violation(
                "I13",
                queue.name,
                f"worker {worker!r} has started work here but is neither registered nor condemned",
                is_repairable=True,
                kind="member_is_unknown",
                subject=worker,
            )


def traces_belong_to_workers(snapshot: Snapshot) -> Iterator[Violation]:
    """I13, at rest: what is kept about workers is kept about known ones, and a worker's list names
    the queues that it serves. Proves that the last step of `fail worker` was done.
    """
    for name, traces in (("list of queues", set(snapshot.work)), ("description", snapshot.info)):
        for worker in traces - snapshot.known_workers:
            yield Violation(
                "I13",
                "",
                f"the {name} of worker {worker!r} is left, but the worker is neither registered "
                "nor condemned",
                is_repairable=True,
                kind="trace_of_no_worker",
                subject=worker,
            )


def registrations_belong_to_queues(snapshot: Snapshot) -> Iterator[Violation]:
    """I13, at rest: every entry of the list of queues is that of a queue. (Between being listed and
    being created or taken off again it is not, and a client that crashes then leaves it behind.)

    Nobody can tell an entry left behind from one whose owner is about to create the queue, and to
    remove the latter would leave the queue unlisted. So an entry is taken for the former only when
    it is older than any request that could still create the queue: a client repeats a numbered
    request for less than an hour. The time is the store's own, from the server that is asked what
    time it is now, so no client's clock matters. Whoever was stopped for two hours between two
    requests can still be wronged; `live_queues_are_registered` then says so, and repair lists it.
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


def dead_workers_are_recovered(snapshot: Snapshot) -> Iterator[Violation]:
    """I13, at rest: nobody has been dead for a minute. Proves that living peers sweep; where no
    worker lives, tasks of the dead ones wait until one starts, or until this is repaired.
    """
    for worker, ends_at in {**snapshot.leases, **snapshot.condemned}.items():
        dead_ms = snapshot.now_ms - ends_at
        if dead_ms > _RECOVERY_GRACE_MS:
            yield Violation(
                "I13",
                "",
                f"worker {worker!r} has been dead for {dead_ms // 1000} s and nobody has recovered "
                "it; start a worker, or repair",
                is_repairable=True,
                kind="dead_worker_not_recovered",
                subject=worker,
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


FORGETTABLE = ("newest", "waiting_bytes", "kept_bytes", "turn")
"""Figures that a queue of jobs can do without: where the newest id is not known, every id that is
sent is looked for, bytes can be counted again, and the last turn is the greatest that a job has.
"""

_CONSEQUENCES = {
    "turn": ", so the queue takes no more jobs",
    "max_length": ", so any number may wait; set it with `penstock queue configure`",
}

AT_EVERY_INSTANT: tuple[Callable[[Snapshot], Iterable[Violation]], ...] = (
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
)
"""True between any two operations, whatever has crashed."""

AT_REST: tuple[Callable[[Snapshot], Iterable[Violation]], ...] = (
    members_are_known,
    traces_belong_to_workers,
    registrations_belong_to_queues,
    dead_workers_are_recovered,
)
"""True once whatever was under way has ended or been recovered."""


def violations(
    snapshot: Snapshot,
    checks: Iterable[Callable[[Snapshot], Iterable[Violation]]] = AT_EVERY_INSTANT + AT_REST,
) -> list[Violation]:
    """Everything that the checks find."""
    return [violation for check in checks for violation in check(snapshot)]


def finishes_are_single(finishes: Iterable[tuple[str, int]]) -> list[Violation]:
    """I3, of a history: no process (queue, id) was finished twice."""
    return [
        Violation("I3", queue, f"process {process} was finished {count} times", kind="one_finish")
        for (queue, process), count in Counter(finishes).items()
        if count > 1
    ]


def tasks_have_an_origin(seen: Iterable[bytes], enqueued: Iterable[bytes]) -> list[Violation]:
    """I6, of a history: every task seen anywhere was enqueued by somebody."""
    return [
        Violation("I6", "", f"task {task!r} was never enqueued", kind="phantom")
        for task in set(seen) - set(enqueued)
    ]


def effects_are_single(effects: Iterable[tuple[str, str, int]]) -> list[Violation]:
    """I7, of a history: no operation (key, lane, number) took effect twice."""
    return [
        Violation(
            "I7", "", f"operation {number} of lane {lane!r} took effect {count} times at {at}"
        )
        for (at, lane, number), count in Counter(effects).items()
        if count > 1
    ]


def _queues_of_tasks(snapshot: Snapshot) -> Iterator[QueueSnapshot]:
    """Those whose counters are of plain tasks; `model/job_invariants.py` is for the others."""
    return (queue for queue in snapshot.queues.values() if not queue.holds_jobs)


def unique_entry(key: bytes, task: bytes) -> bytes:
    """How the index by task names a key; as `scripts/fragments/tasks/element.lua` has it."""
    return hashlib.sha1(task, usedforsecurity=False).hexdigest().encode() + key
