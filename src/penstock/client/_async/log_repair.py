"""Mends what is wrong with logs, as far as that can be done without risk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.client._async.key_scan import scan_keys
from penstock.client._async.log_scan import read_facts
from penstock.connection.log_batches import afinish_batches
from penstock.errors import LogNotFound, WrongKind
from penstock.model.log_snapshot import LogSnapshot
from penstock.store.commands import logs
from penstock.store.commands.logs import NoPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client._async.client import AsyncPenstock
    from penstock.model.invariants import Violation
    from penstock.store.keys import QueueKeys


async def mend_logs(client: AsyncPenstock, violations: Iterable[Violation]) -> None:
    """Mend those that are repairable and of logs."""
    for violation in violations:
        if violation.is_repairable and violation.queue:
            await _mend(client, client.keys.queue(violation.queue), violation)


async def _mend(client: AsyncPenstock, keys: QueueKeys, violation: Violation) -> None:
    number = violation.subject.partition(" ")[0]
    match violation.kind:
        case "partition_of_no_log":
            await _delete(client, keys, int(number))
        case "partition_has_old_settings":
            await _open(client, keys, int(number))
        case "batch_is_not_finished":
            await _finish(client, keys)
        case "reader_is_not_waited_for":
            # Which works out anew for whom to wait, and removes no more than it may.
            trim = partial(logs.trim_partition, keys.partition(int(number)))
            await client.store.run_once(trim)


async def _delete(client: AsyncPenstock, keys: QueueKeys, number: int) -> None:
    """Only if it is still that of a log that is not there any more."""
    of_partition = keys.partition(number)
    present = (await client.store.run(logs.describe_partition(of_partition))).born
    log, is_gone = await read_facts(client.store, keys)
    snapshot = LogSnapshot(keys.queue, born=log.born if log else "", is_gone=is_gone)
    if not snapshot.has_left_behind(present):
        return
    found = await scan_keys(client.store, client.keys, _pattern(of_partition.tag))
    groups = [name.owner for name in found.names if name.kind == "errors"]
    await client.store.run(logs.delete_partition(of_partition, present, groups))


async def _finish(client: AsyncPenstock, keys: QueueKeys) -> None:
    try:
        log = await client.store.run(logs.describe_log(keys))
        await afinish_batches(client.store, keys, log)
    except (LogNotFound, WrongKind, NoPartition):
        return  # it was deleted since


async def _open(client: AsyncPenstock, keys: QueueKeys, number: int) -> None:
    try:
        log = await client.store.run(logs.describe_log(keys))
        await client.store.run(logs.open_partition(keys.partition(number), log))
    except (LogNotFound, WrongKind, NoPartition):
        return  # it was deleted since


def _pattern(tag: str) -> str:
    return f"{tag}:*"
