# Generated from _async/log_foreign_entries.py by tools/generate_sync.py. Edit that file instead.

"""Finds what another program has put among what is stored for a log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.client._sync.key_scan import scan_all
from penstock.model.numbers import whole_number
from penstock.store.commands.logs import LOG_SETTINGS
from penstock.store.foreign_entries import ForeignEntries, is_name, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.connection.store import Store
    from penstock.model.snapshot import ForeignEntry
    from penstock.store.keys import PartitionKeys, QueueKeys

_ID = re.compile(rb"[0-9]{1,16}-[0-9]{1,16}")
_MEMBER = re.compile(rb"[0-9]+ [0-9]+ [0-9]+")
_SEGMENT = re.compile(rb"[0-9]{1,16}-[0-9]{1,16} [0-9]+ [0-9]+")
_TOKEN = re.compile(rb"[!-~]+")
_ERROR_FIELDS = [b"b", b"k", b"h", b"t", b"i", b"r", b"n"]
_GROUP = "the name of a group"
_PAGE = 1_000
_ERRORS = 100
"""How many are read in one step, as their bodies may be large."""

_APPENDED = ("added", "added_bytes", "closed", "closed_bytes", "opened_at")
_TRIMMED = ("trimmed", "trimmed_bytes", "lost")
_IDS = ("trimmed_to", "floor")
_NUMBERS = ("born", "version", *_APPENDED, *_TRIMMED, "floor_at", *LOG_SETTINGS)


def foreign_entries_of_log(store: Store, keys: QueueKeys) -> list[ForeignEntry]:
    """What makes no sense in the keys of a log itself."""
    foreign = ForeignEntries(keys.queue)
    groups = scan_all(store, "HSCAN", keys.groups)
    known = foreign.names(keys.groups, "hash", (name for name, _ in groups), _GROUP)
    for name, since in groups:
        if text_of(name) is not None and whole_number(since) is None:
            wanted = "a group with when it was first seen; a worker that joins it puts it right"
            foreign.add(keys.groups, "hash", name, wanted)
    _check_tokens(store, keys, foreign)
    for group in known:
        if is_name("group", group):
            _check_group(store, keys, group, foreign)
    return foreign.found


def _check_tokens(store: Store, keys: QueueKeys, foreign: ForeignEntries) -> None:
    """A batch that was decided has the token of the attempt, or nothing of it is moved."""
    tokens = dict(scan_all(store, "HSCAN", keys.batch_tokens))
    for name, token in tokens.items():
        if text_of(name) is None or not _TOKEN.fullmatch(token):
            wanted = "a decided batch with the token of an attempt"
            foreign.add(keys.batch_tokens, "hash", name, wanted, is_removable=text_of(name) is None)
    for name, _ in scan_all(store, "HSCAN", keys.batches):
        if text_of(name) is not None and name not in tokens:
            wanted = "a decided batch of which the attempt is known"
            foreign.add(keys.batches, "hash", name, wanted, is_removable=False)


def _check_group(store: Store, keys: QueueKeys, group: str, foreign: ForeignEntries) -> None:
    """What scripts take off a group with the next request of a member, and treat as gone."""
    # Owners first: a member that leaves meanwhile leaves both, and is seen no second time.
    owners = scan_all(store, "HSCAN", keys.group_owners(group))
    members = scan_all(store, "HSCAN", keys.group_members(group))
    living = set()
    for member, entry in members:
        if text_of(member) is None or not _MEMBER.fullmatch(entry):
            wanted = "a member with until when it is one, its weight and its partitions"
            foreign.add(keys.group_members(group), "hash", member, wanted)
        else:
            living.add(member)
    for partition, member in owners:
        if whole_number(partition) is None or member not in living:
            wanted = "a partition that a member of the group owns"
            foreign.add(keys.group_owners(group), "hash", partition, wanted)


def foreign_entries_of_partition(
    store: Store, keys: PartitionKeys, groups: list[str]
) -> tuple[list[ForeignEntry], list[str]]:
    """What makes no sense in the keys of a partition, and what its state lacks. `groups` are those
    of which errors were found.
    """
    foreign = ForeignEntries(keys.log)
    state = dict(scan_all(store, "HSCAN", keys.state))
    for name, value in state.items():
        if not _is_stated(name, value):
            wanted = "something that is known of a partition, so it counts as if it were not there"
            foreign.add(keys.state, "hash", name, wanted, is_removable=text_of(name) is None)
    paused = store.call(keys.paused, "SMEMBERS", keys.paused)
    foreign.names(keys.paused, "set", paused, _GROUP)
    _check_segments(store, keys, foreign)
    for group in groups:
        _check_errors(store, keys, group, foreign)
    return foreign.found, list(_lacking(state))


def _is_stated(name: bytes, value: bytes) -> bool:
    text = text_of(name)
    if text in _IDS:
        return _ID.fullmatch(value) is not None
    return text in _NUMBERS and whole_number(value) is not None


def _lacking(state: dict[bytes, bytes]) -> Iterator[str]:
    """What scripts write together, and is not all there."""
    present = {name.decode(errors="replace") for name in state}
    if whole_number(state.get(b"trimmed", b"")) and "trimmed_to" not in present:
        yield "trimmed_to"
    if "floor" in present and "floor_at" not in present:
        yield "floor_at"
    for together in (("born", "version"), _APPENDED, _TRIMMED):
        missing = [name for name in together if name not in present]
        if len(missing) < len(together) or together[0] == "born":
            yield from missing


def _check_segments(store: Store, keys: PartitionKeys, foreign: ForeignEntries) -> None:
    seen = 0
    while True:
        page = store.call(keys.segments, "LRANGE", keys.segments, seen, seen + _PAGE - 1)
        for entry in page:
            if not _SEGMENT.fullmatch(entry):
                wanted = "the end of a segment and how much there was up to it"
                foreign.add(keys.segments, "list", entry, wanted)
        seen += len(page)
        if len(page) < _PAGE:
            return


def _check_errors(store: Store, keys: PartitionKeys, group: str, foreign: ForeignEntries) -> None:
    key, start = keys.errors(group), "-"
    while True:
        page = store.call(key, "XRANGE", key, start, "+", "COUNT", _ERRORS)
        for id, fields in page:
            if fields[:14:2] != _ERROR_FIELDS or whole_number(fields[13]) is None:
                wanted = "a message that the group has given up, with the reason"
                foreign.add(key, "stream", id, wanted)
        if len(page) < _ERRORS:
            return
        start = f"({page[-1][0].decode()}"
