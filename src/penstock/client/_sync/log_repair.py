# Generated from _async/log_repair.py by tools/generate_sync.py. Edit that file instead.

"""Mends what is wrong with logs, as far as that can be done without risk."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.client._sync.key_scan import scan_keys
from penstock.client._sync.log_scan import read_facts
from penstock.connection.log_batches import finish_batches
from penstock.errors import LogNotFound, WrongKind
from penstock.model.log_snapshot import LogSnapshot
from penstock.store.commands import logs
from penstock.store.commands.logs import NoPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client._sync.client import Penstock
    from penstock.model.invariants import Violation
    from penstock.store.keys import QueueKeys


def mend_logs(client: Penstock, violations: Iterable[Violation]) -> None:
    """Mend those that are repairable and of logs."""
    for violation in violations:
        if violation.is_repairable and violation.queue:
            _mend(client, client.keys.queue(violation.queue), violation)


def _mend(client: Penstock, keys: QueueKeys, violation: Violation) -> None:
    number = violation.subject.partition(" ")[0]
    match violation.kind:
        case "partition_of_no_log":
            _delete(client, keys, int(number))
        case "partition_has_old_settings":
            _open(client, keys, int(number))
        case "batch_is_not_finished":
            _finish(client, keys)
        case "reader_is_not_waited_for":
            # Which works out anew for whom to wait, and removes no more than it may.
            trim = partial(logs.trim_partition, keys.partition(int(number)))
            client.store.run_once(trim)


def _delete(client: Penstock, keys: QueueKeys, number: int) -> None:
    """Only if it is still that of a log that is not there any more."""
    of_partition = keys.partition(number)
    present = (client.store.run(logs.describe_partition(of_partition))).born
    log, is_gone = read_facts(client.store, keys)
    snapshot = LogSnapshot(keys.queue, born=log.born if log else "", is_gone=is_gone)
    if not snapshot.has_left_behind(present):
        return
    found = scan_keys(client.store, client.keys, _pattern(of_partition.tag))
    groups = [name.owner for name in found.names if name.kind == "errors"]
    client.store.run(logs.delete_partition(of_partition, present, groups))


def _finish(client: Penstock, keys: QueueKeys) -> None:
    try:
        log = client.store.run(logs.describe_log(keys))
        finish_batches(client.store, keys, log)
    except (LogNotFound, WrongKind, NoPartition):
        return  # it was deleted since


def _open(client: Penstock, keys: QueueKeys, number: int) -> None:
    try:
        log = client.store.run(logs.describe_log(keys))
        client.store.run(logs.open_partition(keys.partition(number), log))
    except (LogNotFound, WrongKind, NoPartition):
        return  # it was deleted since


def _pattern(tag: str) -> str:
    return f"{tag}:*"
