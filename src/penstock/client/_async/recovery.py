"""Gives a dead worker's tasks back: `fail worker`, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.codec.attempts import pack_error
from penstock.codec.failures import crash_of
from penstock.model.names import check_worker_name
from penstock.model.queues import Returned
from penstock.model.workers import LEASE_MS
from penstock.store.commands import jobs, queues, workers

if TYPE_CHECKING:
    from penstock.connection.store import AsyncStore
    from penstock.store.keys import NamespaceKeys, QueueKeys


async def fail_worker(
    store: AsyncStore, keys: NamespaceKeys, worker: str, how: str = ""
) -> Returned:
    """End the lease, then leave every queue, then forget the worker. `how` it has ended is kept
    with the jobs that it held.

    Queues may live on different servers, so this is several steps. Each can be repeated by anyone,
    and the worker stays condemned until the last, so a crash in between is mended by the next peer.
    """
    check_worker_name(worker)
    names = await store.run(workers.fail_worker(keys, worker, LEASE_MS))
    if names is None:
        return Returned(0, 0)
    returned = dead = 0
    error = pack_error(crash_of("worker", how)) if how else b""
    for name in names:
        queue = keys.queue(name)
        left = await leave_queue(store, queue, worker, is_lost=True, error=error)
        returned += left.returned
        dead += left.dead
    await store.run(workers.forget_worker(keys, worker))
    return Returned(returned, dead)


async def leave_queue(
    store: AsyncStore, queue: QueueKeys, worker: str, is_lost: bool, error: bytes = b""
) -> Returned:
    """Take a worker off a queue, of whichever kind it is; what it holds goes back."""
    left = await store.run_once(
        lambda operation: queues.leave_queue(queue, operation, worker, is_lost)
    )
    if left is not None:
        return left
    return await store.run_once(
        lambda operation: jobs.leave_jobs(queue, operation, worker, is_lost, error)
    )
