# Generated from _async/key_scan.py by tools/generate_sync.py. Edit that file instead.

"""Finds every key of a namespace, and says what is odd about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connection.answers import store_error, unavailable
from penstock.connection.wire import ConnectionLost, ReplyError, pack
from penstock.store.commands import checks
from penstock.store.keys import KeyName, key_types
from penstock.store.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.connection.store import Store
    from penstock.store.keys import NamespaceKeys

_PAGE = 1_000
_PASSING = ("memory", "staging", "group_members", "group_owners")
"""What must expire, and says nothing about a queue."""


class KeyScan:
    """What was found."""

    def __init__(self) -> None:
        self.names: set[KeyName] = set()
        self.broken: set[str] = set()
        """queues (empty: what crosses them) with a key that cannot be read"""
        self.unknown: list[str] = []
        self.mistyped: list[str] = []
        self.expiring: list[str] = []
        self.lasting: list[str] = []
        self.lasting_stages: set[tuple[str, str]] = set()
        """queue and name of each stage that does not expire"""

    def of_queue(self, queue: str) -> list[KeyName]:
        return [name for name in self.names if name.queue == queue]

    def kinds_of(self, queue: str) -> set[str]:
        """The kinds of which anything was found that only such queues have."""
        found = self.of_queue(queue)
        names = {name.kind for name in found if name.partition is None}
        of_partitions = {name.kind for name in found if name.partition is not None}
        return {
            kind.name
            for kind in KINDS.values()
            if not names.isdisjoint(key_types(kind.keys))
            or (
                kind.partition_keys and not of_partitions.isdisjoint(key_types(kind.partition_keys))
            )
        }


def scan_keys(store: Store, keys: NamespaceKeys, pattern: str = "") -> KeyScan:
    """Every key of the namespace, or those that match the pattern."""
    scan = KeyScan()
    for key in _scan(store, pattern or keys.pattern):
        _classify(store, keys, key, scan)
    return scan


def scan_all(store: Store, command: str, key: str) -> list[tuple[bytes, bytes]]:
    """A large hash or sorted set, read in pages."""
    found: list[tuple[bytes, bytes]] = []
    cursor = b"0"
    while True:
        cursor, flat = store.call(key, command, key, cursor, "COUNT", _PAGE)
        found += checks.pairs(flat)
        if cursor == b"0":
            return found


def _scan(store: Store, pattern: str) -> Iterator[str]:
    """Every key that matches, on every server; one may come twice."""
    try:
        for channel in store.router.every_node():
            cursor = b"0"
            while True:
                question = pack("SCAN", cursor, "MATCH", pattern, "COUNT", _PAGE)
                reply = channel.exchange(question)
                if isinstance(reply, ReplyError):
                    raise store_error(reply, store.address)
                cursor, page = reply
                for key in page:
                    yield key.decode(errors="backslashreplace")
                if cursor == b"0":
                    break
    except ConnectionLost as error:
        # Not repeated: the caller begins a check that was cut off again.
        raise unavailable(store.address, 0, error, is_unanswered=False) from error


def _classify(store: Store, keys: NamespaceKeys, key: str, found: KeyScan) -> None:
    name = keys.identify(key)
    if name is None:
        found.unknown.append(key)
        return
    facts = store.run(checks.describe_key(key))
    if facts.type == "none":
        return
    must_expire = name.kind in _PASSING
    if facts.type != name.type:
        found.mistyped.append(key)
        if not must_expire:
            found.broken.add(name.queue)
    elif name.kind == "stage":
        if facts.ttl_ms < 0 and name.partition is None:
            found.lasting_stages.add((name.queue, name.owner))
        elif facts.ttl_ms < 0:
            pass  # what is prepared for a partition of a log says so itself
        else:
            must_expire = True  # it is not decided, so it says nothing about the queue
    elif must_expire:
        if facts.ttl_ms < 0:
            found.lasting.append(key)
    elif facts.ttl_ms >= 0:
        found.expiring.append(key)
    # Memories are many and say nothing about a queue.
    if not must_expire:
        found.names.add(name)
