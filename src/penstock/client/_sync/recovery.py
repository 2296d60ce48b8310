# Generated from _async/recovery.py by tools/generate_sync.py. Edit that file instead.

"""Gives a dead worker's tasks back: `fail worker`, step by step."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from penstock.codec.attempts import pack_error
from penstock.codec.failures import crash_of, lapse_of
from penstock.errors import LogNotFound, WrongKind
from penstock.model.names import check_worker_name
from penstock.model.queues import Returned
from penstock.model.workers import LEASE_MS
from penstock.store.commands import log_groups, logs, queues, workers
from penstock.store.kinds import stored_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connection.store import Store
    from penstock.store.keys import NamespaceKeys, QueueKeys


def fail_worker(
    store: Store, keys: NamespaceKeys, worker: str, how: str = "", is_lost: bool = True
) -> Returned:
    """End the lease, then leave every queue, then forget the worker. `how` it has died, if
    that is known, is kept with the jobs that it held and counts as a crash of theirs; else it is a
    lapse. If it is not lost but was stopped, they go back at no cost.

    Queues may live on different servers, so this is several steps. Each can be repeated by anyone,
    and the worker stays condemned until the last, so a crash in between is mended by the next peer.
    """
    check_worker_name(worker)
    served = store.run(workers.fail_worker(keys, worker, LEASE_MS))
    if served is None:
        return Returned(0, 0)
    returned = dead = 0
    error = pack_error(crash_of("worker", how)) if how else b""
    for name, kind in served:
        queue = keys.queue(name)
        left = leave_queue(store, queue, worker, kind, is_lost, error, has_died=bool(how))
        returned += left.returned
        dead += left.dead
    if how:
        note_deaths(store, keys, worker, how)
    store.run(workers.forget_worker(keys, worker))
    return Returned(returned, dead)


def note_deaths(store: Store, keys: NamespaceKeys, worker: str, how: str) -> None:
    """Tell the partitions that it owned how a worker has died. Which those are, only they know."""
    cursor = "0"
    while True:
        cursor, names = store.run(queues.list_queues(keys, cursor))
        for name in dict.fromkeys(names):  # one of several incarnations comes several times
            queue = keys.queue(name)
            with suppress(LogNotFound, WrongKind):
                facts = store.run(logs.describe_log(queue))
                for number in range(facts.partitions):
                    store.run(log_groups.note_death(queue.partition(number), worker, how))
        if cursor == "0":
            return


def leave_queue(
    store: Store,
    queue: QueueKeys,
    worker: str,
    kind: str,
    is_lost: bool,
    error: bytes = b"",
    has_died: bool = False,
    known: Sequence[int] = (),
) -> Returned:
    """Take a worker off a queue; what it holds goes back. `known` is what it knows it held.

    `kind` is what the queue held when the worker joined it, or empty. It may have been deleted and
    made anew since; then the queue itself says what it holds.
    """
    if is_lost and not error:
        error = pack_error(lapse_of())
    while True:
        leave = stored_kind(kind).leave
        left = store.run_once(
            partial(
                leave,
                queue,
                worker=worker,
                is_lost=is_lost,
                error=error,
                has_died=has_died,
                known=known,
            )
        )
        if isinstance(left, Returned):
            return left
        kind = left
