"""Reads a log as `penstock fsck` looks at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client._async.log_foreign_entries import (
    foreign_entries_of_log,
    foreign_entries_of_partition,
)
from penstock.connection.log_batches import adecided_attempt, alist_prepared
from penstock.errors import LogNotFound, WrongKind
from penstock.model.log_snapshot import LogSnapshot
from penstock.model.numbers import whole_number
from penstock.model.staging import STAGE_MS
from penstock.store.commands import checks, logs

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.connection.store import AsyncStore
    from penstock.model.logs import LogFacts, PartitionInfo
    from penstock.store.keys import KeyName, PartitionKeys, QueueKeys

_GRACE_S = 60.0
"""For how long a batch that was decided may be on its way into the log."""


async def read_log(store: AsyncStore, keys: QueueKeys, names: Collection[KeyName]) -> LogSnapshot:
    """The log, and every partition of which a key was found."""
    found = sorted({name.partition for name in names if name.partition is not None})
    partitions: list[PartitionInfo] = []
    no_offsets: list[tuple[int, str]] = []
    segments, closed = {}, {}
    foreign = await foreign_entries_of_log(store, keys)
    lacking: list[tuple[int, str]] = []
    for number in found:
        of_partition = keys.partition(number)
        partitions.append(await store.run(logs.describe_partition(of_partition)))
        no_offsets += await _no_offsets(store, of_partition)
        groups = [n.owner for n in names if (n.partition, n.kind) == (number, "errors")]
        entries, missing = await foreign_entries_of_partition(store, of_partition, groups)
        foreign += entries
        lacking += [(number, name) for name in missing]
        key, state = of_partition.segments, of_partition.state
        # In this order, as segments are only added to what is counted.
        segments[number] = (await store.call(key, "LINDEX", key, -1) or b"").decode(
            errors="replace"
        )
        stored = await store.call(state, "HGET", state, "closed")
        closed[number] = whole_number(stored or b"0") or 0
    unfinished = []
    for part in partitions:
        stages = {n.owner for n in names if (n.partition, n.kind) == (part.number, "stage")}
        unfinished += await _unfinished(store, keys, part, stages)
    # Last, as a partition is opened after its log is made.
    log, is_gone = await read_facts(store, keys)
    return LogSnapshot(
        name=keys.queue,
        born=log.born if log else "",
        size=log.partitions if log else 0,
        version=log.version if log else 0,
        settings=log.settings if log else {},
        partitions=tuple(partitions),
        no_offsets=tuple(no_offsets),
        segments=segments,
        closed=closed,
        unfinished=tuple(unfinished),
        lacking=tuple(lacking),
        is_gone=is_gone,
        foreign=tuple(foreign),
    )


async def _unfinished(
    store: AsyncStore, keys: QueueKeys, part: PartitionInfo, stages: set[str]
) -> list[tuple[int, str, str]]:
    """Stages that are still to be moved or dropped, long after they were prepared; and those of
    which it cannot be read for which batch they are. `stages` are those that do not expire.
    """
    prepared = await alist_prepared(store, keys, part.number)
    key = keys.partition(part.number).prepared
    names = {name.decode(errors="replace") for name in await store.call(key, "HKEYS", key)} | stages
    found = [(part.number, name, "") for name in sorted(names - {each.stage for each in prepared})]
    for stage in prepared:
        version, _ = await adecided_attempt(store, keys, stage.batch)
        grace_s = _GRACE_S if stage.version <= version else STAGE_MS / 1000
        if part.now - stage.prepared_at > grace_s:
            found.append((part.number, stage.stage, stage.batch))
    return found


async def count_waiting(store: AsyncStore, keys: QueueKeys) -> int:
    """A log has no maximum length."""
    return 0


async def read_facts(store: AsyncStore, keys: QueueKeys) -> tuple[LogFacts | None, bool]:
    """What the log says of itself, if that can be read; and whether nothing says that it exists."""
    try:
        return await store.run(logs.describe_log(keys)), False
    except LogNotFound:
        return None, True
    except WrongKind:
        return None, False


async def _no_offsets(store: AsyncStore, keys: PartitionKeys) -> list[tuple[int, str]]:
    flat = await store.call(keys.offsets, "HGETALL", keys.offsets)
    return [
        (keys.number, name.decode(errors="backslashreplace"))
        for name, entry in checks.pairs(flat)
        if not list(logs.open_readers([name, entry]))
    ]
