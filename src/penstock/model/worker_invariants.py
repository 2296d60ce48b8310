"""What is true of workers and the processes that they hold: one holder each, and none forgotten.

The checks look at a snapshot; `model/invariants.py` says when they are asked.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.model.snapshot import Snapshot

_RECOVERY_GRACE_MS = 60_000


def processes_have_one_holder(snapshot: Snapshot) -> Iterator[Violation]:
    """I2: no process is held by two workers, and no worker holds or waits that has not started work
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


def holders_can_be_recovered(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: a worker that holds tasks is registered or condemned, and lists the queue. Proves
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


def members_list_their_queues(snapshot: Snapshot) -> Iterator[Violation]:
    """I13: a registered worker that has started work on a queue lists it. Proves that recovery
    takes it off every queue.
    """
    for queue in snapshot.queues.values():
        for worker in (queue.members & snapshot.leases.keys()) - set(queue.running):
            if queue.name not in snapshot.work.get(worker, ()):
                yield Violation(
                    "I13",
                    queue.name,
                    f"worker {worker!r} has started work here but does not list this queue, so "
                    "recovery would pass it by",
                    is_repairable=queue.kind != "undecided",
                    kind="member_does_not_list_the_queue",
                    subject=worker,
                )


def members_are_known(snapshot: Snapshot) -> Iterator[Violation]:
    """I13, at rest: a worker that has started work is registered or condemned. Proves that dead
    workers leave nothing behind. (For a moment a worker failed in the middle of `start work` is an
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


def dead_workers_are_recovered(snapshot: Snapshot) -> Iterator[Violation]:
    """I13, at rest: no worker has been dead for a minute. Proves that living peers sweep; where no
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


def finishes_are_single(finishes: Iterable[tuple[str, int]]) -> list[Violation]:
    """I3, of a history: no process (queue, id) was finished twice."""
    return [
        Violation("I3", queue, f"process {process} was finished {count} times", kind="one_finish")
        for (queue, process), count in Counter(finishes).items()
        if count > 1
    ]
