"""Ranges of a history: how they are split, read, and proved to be whole.

A range is read by its places alone, so it has the same rows however often it is read. Trimming
removes the oldest entries first; so the entry at which a range starts is looked for before and
after, and if it is there nothing in the range is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import HistoryLost
from penstock.model.history import BEGINNING, place_before, place_key
from penstock.spark.history_columns import history_batch, page_of
from penstock.spark.pages import read_pages
from penstock.store.commands.history import describe_history

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock.connection.store import Store
    from penstock.model.history import HistoryBounds
    from penstock.store.keys import QueueKeys


class HistoryRange(NamedTuple):
    """What one partition reads: entries of a queue after `start`, up to `end`."""

    queue: str
    incarnation: str
    start: str
    end: str


def read_range(
    store: Store, keys: QueueKeys, wanted: HistoryRange, fails: bool = True
) -> Iterator[pa.RecordBatch]:
    """The entries of a range. Raises HistoryLost if some of them are gone or damaged, unless told
    not to.
    """
    if fails:
        check_range(store, keys, wanted)
    yield from read_pages(
        *(store, keys.history, wanted.start, wanted.end),
        lambda found: history_batch(wanted.queue, page_of(found), fails),
    )
    if fails:
        check_range(store, keys, wanted)


def check_range(store: Store, keys: QueueKeys, wanted: HistoryRange) -> None:
    """Raise HistoryLost unless everything in the range is there."""
    loss = find_loss(store.run(describe_history(keys, wanted.start)), wanted)
    if loss:
        raise HistoryLost(loss)


def find_loss(bounds: HistoryBounds, wanted: HistoryRange) -> str:
    """What was lost after the start of a range, at which the bounds were taken; empty if nothing
    was.
    """
    queue = f"queue {wanted.queue!r}"
    if bounds.incarnation != wanted.incarnation:
        if not wanted.incarnation and wanted.start == BEGINNING:
            return ""  # the queue has come to be since
        what = "was deleted and made anew" if bounds.incarnation else "is gone"
        loss = f"{queue} {what}, and its history with it, which was read up to {wanted.start}"
    elif bounds.is_whole:
        return ""
    elif place_key(bounds.last or BEGINNING) < place_key(wanted.start):
        last = f"ends at {bounds.last}" if bounds.last else "is empty"
        loss = (
            f"the history of {queue} {last}, before {wanted.start}, up to which it was read: the "
            "store was emptied, or is an older copy"
        )
    else:
        loss = (
            f"entries of the history of {queue} after {wanted.start} were removed before they were "
            f"read; the oldest is {bounds.first}"
        )
    return (
        f"{loss}; to go on with what is there, use the option failOnDataLoss=false, or --skip-gap "
        "on the command line; to have history kept for a stream, name it with the option 'reader'"
    )


def split_range(
    store: Store, keys: QueueKeys, wanted: HistoryRange, bounds: HistoryBounds, entries: int
) -> list[HistoryRange]:
    """The same range in parts of about so many entries, if they are spread evenly over time.

    Each part starts at an entry, which can be looked for when it is read.
    """
    parts = -(-estimate_entries(bounds, wanted.start, wanted.end) // entries)
    key = keys.history
    starts = [wanted.start]
    for place in interpolate(_later(wanted.start, bounds), wanted.end, parts):
        found = store.call(key, "XREVRANGE", key, place, f"({starts[-1]}", "COUNT", 1)
        if found:
            starts.append(found[0][0].decode())
    ends = [*starts[1:], wanted.end]
    return [
        wanted._replace(start=start, end=end)
        for start, end in zip(starts, ends, strict=True)
        if start != end
    ]


def estimate_entries(bounds: HistoryBounds, start: str, end: str) -> int:
    """About how many entries are in a range, if they are spread evenly over time; at least 1."""
    if not bounds.length:
        return 1
    first, last = place_key(bounds.first)[0], place_key(bounds.last)[0]
    begin = max(first, place_key(start)[0])
    share = (place_key(end)[0] - begin + 1) / (last - first + 1)
    return max(1, round(bounds.length * min(1.0, share)))


def interpolate(start: str, end: str, parts: int) -> list[str]:
    """The places between which so many parts of a range lie, evenly by time."""
    first, last = place_key(start)[0], place_key(end)[0]
    inner = (first + (last - first) * part // parts for part in range(1, parts))
    return [f"{ms}-0" for ms in dict.fromkeys(inner) if first < ms < last]


def beginning_of(bounds: HistoryBounds) -> str:
    """The place after which all entries are that there are; one that can be looked for."""
    return place_before(bounds.first) if bounds.first else BEGINNING


def _later(start: str, bounds: HistoryBounds) -> str:
    return max(start, bounds.first or start, key=place_key)
