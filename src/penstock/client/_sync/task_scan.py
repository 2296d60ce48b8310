# Generated from _async/task_scan.py by tools/generate_sync.py. Edit that file instead.

"""Reads what is stored about a queue, and the tasks in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from penstock.client._sync.key_scan import scan_all
from penstock.codec.elements import open_element, open_unique
from penstock.store.commands import checks
from penstock.store.foreign_entries import ForeignEntries

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.connection.store import Store
    from penstock.model.snapshot import Element, QueueSnapshot
    from penstock.store.keys import QueueKeys

_SMALL = 10_000
"""How many entries of a queue are read in one step; a larger one is read in pages."""

_PAGE = 1_000


def read_queue(
    store: Store, keys: QueueKeys, holders: list[str], with_elements: bool
) -> QueueSnapshot:
    """What is stored about a queue, and its tasks if it holds some. `holders` are the workers whose
    processes were found; without `with_elements` tasks are only counted.

    A queue of up to 10,000 entries is read at one instant; of a larger one the counts are, and its
    tasks are read in pages, of which only those are kept that are unique or have failed before.
    """
    names = set(holders)
    limit = _SMALL if with_elements else 0
    while True:
        snapshot = store.run(checks.read_queue(keys, sorted(names), limit))
        if snapshot.members <= names:
            break
        names |= snapshot.members
    if snapshot.waiting is None and with_elements:
        return _read_large_queue(store, keys, sorted(names), snapshot)
    return snapshot


def _read_large_queue(
    store: Store, keys: QueueKeys, names: list[str], counted: QueueSnapshot
) -> QueueSnapshot:
    unique = {key: open_unique(value) for key, value in scan_all(store, "HSCAN", keys.unique)}
    entries = {entry for entry, _ in scan_all(store, "ZSCAN", keys.unique_tasks)}
    foreign = ForeignEntries(keys.queue)
    counts = scan_all(store, "HSCAN", keys.failures)
    failures = checks.counted_failures(foreign, keys, counts)
    waiting = [e for e in _page(store, keys.ready) if e.key or e.digest in failures]
    running = {}
    for worker in names:
        flat = store.call(keys.meta, "HGETALL", keys.running(worker))
        if flat:
            running[worker] = checks.held_processes(foreign, keys.running(worker), flat)
    return replace(
        counted,
        waiting=tuple(waiting),
        running=running,
        unique=unique,
        unique_tasks=frozenset(entries),
        failures=failures,
        foreign=(*counted.foreign, *foreign.found),
    )


def _page(store: Store, key: str) -> Iterator[Element]:
    """The elements of a list. From the back: while tasks come in there and leave at the front,
    some are seen twice but none is passed over.
    """
    seen = 0
    while True:
        page = store.call(key, "LRANGE", key, seen, seen + _PAGE - 1)
        for element in page:
            yield open_element(element)
        if not page:
            return
        seen += len(page)


def count_waiting(store: Store, keys: QueueKeys) -> int:
    """How many tasks a maximum length counts."""
    waiting: int = store.call(keys.ready, "LLEN", keys.ready)
    return waiting
