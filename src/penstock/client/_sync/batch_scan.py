# Generated from _async/batch_scan.py by tools/generate_sync.py. Edit that file instead.

"""Reads what is staged for a queue, for checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client._sync.kind_checks import KIND_CHECKS
from penstock.model.numbers import whole_number
from penstock.model.snapshot import BatchesSnapshot

if TYPE_CHECKING:
    from penstock.connection.store import Store
    from penstock.model.queues import QueueKind
    from penstock.store.keys import QueueKeys

_FIELDS = ("staged", "moved_at", "max_length", "max_bytes", "waiting_bytes")
_PAGE = 1_000


def read_batches(
    store: Store, keys: QueueKeys, lasting: frozenset[str], kind: QueueKind
) -> tuple[BatchesSnapshot, list[str]]:
    """What was staged and decided; and the keys of decided stages that would expire. `lasting` are
    the stages that were found without an expiry, `kind` is what the queue holds.
    """
    moving = _moving(store, keys)
    missing, expiring = [], []
    for name in moving:
        ttl_ms = store.call(keys.stage(name), "PTTL", keys.stage(name))
        if ttl_ms == -2:
            missing.append(name)
        elif ttl_ms >= 0:
            expiring.append(keys.stage(name))
    rows, moved_at, *limits = store.call(keys.meta, "HMGET", keys.meta, *_FIELDS)
    max_length, max_bytes, waiting_bytes = (whole_number(v) if v else None for v in limits)
    # Only the first task decides that a queue holds tasks, not a batch that is to be moved.
    held = "tasks" if kind == "undecided" else kind
    waiting = KIND_CHECKS[held].count_waiting(store, keys)
    has_room = max_length is None or waiting < max_length
    has_room &= max_bytes is None or (waiting_bytes or 0) < max_bytes
    snapshot = BatchesSnapshot(
        moving=tuple(moving),
        missing=tuple(missing),
        lasting=lasting,
        rows=(whole_number(rows) or 0) if rows else 0,
        moved_at_ms=(whole_number(moved_at) or 0) if moved_at else 0,
        has_room=has_room,
    )
    return snapshot, expiring


def _moving(store: Store, keys: QueueKeys) -> list[str]:
    found: list[str] = []
    while True:
        last = len(found) + _PAGE - 1
        page = store.call(keys.moving, "LRANGE", keys.moving, len(found), last)
        found += [entry.decode().partition(" ")[0] for entry in page]
        if len(page) < _PAGE:
            return found
