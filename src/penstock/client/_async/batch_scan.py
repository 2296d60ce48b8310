"""Reads what is staged for a queue, for checks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.client._async.key_scan import scan_all
from penstock.client._async.kind_checks import KIND_CHECKS
from penstock.model.numbers import whole_number
from penstock.model.snapshot import BatchesSnapshot
from penstock.store.foreign_entries import ForeignEntries, text_of

if TYPE_CHECKING:
    from penstock.connection.store import AsyncStore
    from penstock.model.queues import QueueKind
    from penstock.store.keys import QueueKeys

_FIELDS = ("staged", "moved_at", "max_length", "max_bytes", "waiting_bytes")
_PAGE = 1_000
_TAG = b"batch "
_DECIDED = re.compile(rb"(\S+) ([0-9]+)")


async def read_batches(
    store: AsyncStore, keys: QueueKeys, lasting: frozenset[str], kind: QueueKind
) -> tuple[BatchesSnapshot, list[str]]:
    """What was staged and decided; and the keys of decided stages that would expire. `lasting` are
    the stages that were found without an expiry, `kind` is what the queue holds.
    """
    foreign = ForeignEntries(keys.queue)
    moving = await _moving(store, keys, foreign)
    await _check_names(store, keys, foreign)
    missing, expiring = [], []
    for name in moving:
        ttl_ms = await store.call(keys.stage(name), "PTTL", keys.stage(name))
        if ttl_ms == -2:
            missing.append(name)
        elif ttl_ms >= 0:
            expiring.append(keys.stage(name))
    rows, moved_at, *limits = await store.call(keys.meta, "HMGET", keys.meta, *_FIELDS)
    max_length, max_bytes, waiting_bytes = (whole_number(v) if v else None for v in limits)
    # Only the first task decides that a queue holds tasks, not a batch that is to be moved.
    held = "tasks" if kind == "undecided" else kind
    waiting = await KIND_CHECKS[held].count_waiting(store, keys)
    has_room = max_length is None or waiting < max_length
    has_room &= max_bytes is None or (waiting_bytes or 0) < max_bytes
    snapshot = BatchesSnapshot(
        moving=tuple(moving),
        missing=tuple(missing),
        lasting=lasting,
        rows=(whole_number(rows) or 0) if rows else 0,
        moved_at_ms=(whole_number(moved_at) or 0) if moved_at else 0,
        has_room=has_room,
        foreign=tuple(foreign.found),
    )
    return snapshot, expiring


async def _check_names(store: AsyncStore, keys: QueueKeys, foreign: ForeignEntries) -> None:
    """Notes batches that no time is known of, times of no batch, and what is neither."""
    decided = await scan_all(store, "HSCAN", keys.batches)
    times = [name for name, _ in await scan_all(store, "ZSCAN", keys.batch_times)]
    for name, version in decided:
        if text_of(name) is None or whole_number(version) is None:
            wanted = "a decided batch with its version"
            foreign.add(keys.batches, "hash", name, wanted, is_removable=False)
        elif name not in times:
            wanted = "a batch of which it is known when it was decided, so it is never forgotten"
            foreign.add(keys.batches, "hash", name, wanted, is_removable=False)
    for name in set(times) - {name for name, _ in decided}:
        foreign.add(keys.batch_times, "zset", name, "the name of a decided batch")
    for tag, _ in await scan_all(store, "ZSCAN", keys.keeps):
        if not tag.startswith(_TAG) or text_of(tag) is None:
            foreign.add(keys.keeps, "zset", tag, "the tag of the jobs of a batch")


async def _moving(store: AsyncStore, keys: QueueKeys, foreign: ForeignEntries) -> list[str]:
    found: list[str] = []
    seen = 0
    while True:
        page = await store.call(keys.moving, "LRANGE", keys.moving, seen, seen + _PAGE - 1)
        seen += len(page)
        for entry in page:
            matched = _DECIDED.fullmatch(entry)
            if matched is None:
                foreign.add(keys.moving, "list", entry, "a stage and how many chunks it has")
            else:
                found.append(matched[1].decode(errors="backslashreplace"))
        if len(page) < _PAGE:
            return found
