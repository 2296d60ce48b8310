"""Mends what is wrong with queues of tasks, as far as that can be done without risk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.codec.elements import HOLDER_BYTES
from penstock.model.snapshot import DIGEST_BYTES
from penstock.store.commands import checks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client._async.client import AsyncPenstock
    from penstock.model.invariants import Violation
    from penstock.store.keys import QueueKeys


async def mend_tasks(client: AsyncPenstock, violations: Iterable[Violation]) -> None:
    """Mend those that are repairable and of queues of tasks."""
    for violation in violations:
        if violation.is_repairable:
            await _mend(client, violation)


async def _mend(client: AsyncPenstock, violation: Violation) -> None:
    subject = violation.subject
    match violation.kind:
        case "failures_of_no_task":
            await _forget_failures(client, client.keys.queue(violation.queue), subject)
        case "unique_key_of_no_task":
            key = subject.encode("latin-1")[HOLDER_BYTES:]
            await _mend_unique_key(client, violation.queue, key, b"")
        case "unique_key_not_indexed" | "index_of_no_unique_key":
            entry = subject.encode("latin-1")
            await _mend_unique_key(client, violation.queue, entry[DIGEST_BYTES:], entry)


async def _forget_failures(client: AsyncPenstock, keys: QueueKeys, digest: str) -> None:
    count = await client.store.call(keys.failures, "HGET", keys.failures, digest)
    if count is not None:
        await client.store.run(checks.forget_failures(keys, digest, int(count)))


async def _mend_unique_key(client: AsyncPenstock, queue: str, key: bytes, entry: bytes) -> None:
    mend = partial(checks.mend_unique_key, client.keys.queue(queue))
    answer: bool | list[str] = []
    while isinstance(answer, list):
        answer = await client.store.run(mend(answer, key, entry))
