"""Deletes a queue of jobs, in steps that stall nobody."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.model.queues import Deleted
from penstock.store.commands import job_records, queues

if TYPE_CHECKING:
    from penstock.connection.store import AsyncStore
    from penstock.store.command import Command, Operation
    from penstock.store.keys import NamespaceKeys, QueueKeys

_CHUNK = 100


async def delete_jobs(store: AsyncStore, namespace: NamespaceKeys, keys: QueueKeys) -> Deleted:
    """All jobs but those that run; then the queue itself, unless some do or have come in since.

    What is left is what is found in the queue, whatever its counters say, and each step takes some
    of it away.
    """
    removed = 0
    is_last = False
    while True:
        deleted, left, incarnation = await store.run_once(partial(_delete, keys, is_last))
        removed += deleted.removed
        if is_last and not left:
            break
        is_last = left == 0
    if incarnation:
        await store.run(queues.unregister_queue(namespace, incarnation))
    return Deleted(removed, deleted.running)


def _delete(
    keys: QueueKeys, is_last: bool, operation: Operation
) -> Command[tuple[Deleted, int, str]]:
    return job_records.delete_jobs(keys, operation, _CHUNK, is_last)
