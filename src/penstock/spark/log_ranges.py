"""Ranges of a partition of a log: how they are read, and proved to be whole.

A range is read by its ids alone, so it has the same messages however often it is read. What is
trimmed is noted in the same step, so a look afterwards tells whether something was missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import LogTrimmed
from penstock.model.logs import id_key
from penstock.spark.log_columns import message_batch
from penstock.spark.pages import read_pages
from penstock.store.commands.logs import describe_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock.connection.store import Store
    from penstock.model.logs import RangeInfo
    from penstock.store.keys import PartitionKeys

_ADVICE = (
    "; to go on with what is there, use the option failOnDataLoss=false, or --skip-gap on the "
    "command line; to have messages kept for a stream, name it with the option 'reader'"
)


class LogRange(NamedTuple):
    """What one Spark partition reads: messages of a partition after `start`, up to `end`. Both are
    messages, unless nothing comes before the first.
    """

    born: str
    partition: int
    start: str
    end: str


def read_range(
    store: Store, keys: PartitionKeys, wanted: LogRange, fails: bool
) -> Iterator[pa.RecordBatch]:
    """The messages of a range. Raises LogTrimmed if some of them are gone, unless told not to."""
    last = wanted.start

    def open_page(found: list[Any]) -> pa.RecordBatch:
        nonlocal last
        last = found[-1][0].decode()
        return message_batch(wanted.partition, found)

    for batch in read_pages(store, keys.messages, wanted.start, wanted.end, open_page):
        if batch.num_rows:
            yield batch
    if fails:
        info = store.run(describe_range(keys, wanted.start))
        if info.born != wanted.born:
            raise made_anew(keys.log, bool(info.born))
        check_whole(keys, info)
        if last != wanted.end:
            raise put_back(keys, wanted.end, info)


def check_whole(keys: PartitionKeys, info: RangeInfo) -> None:
    """Raise LogTrimmed unless everything is there that comes after the start."""
    if info.is_whole:
        return
    if id_key(info.start) >= id_key(info.earliest):
        raise put_back(keys, info.start, info)
    raise _lost(
        f"messages of partition {keys.number} of log {keys.log!r} after {info.start} were removed "
        f"before they were read; the last that is gone is {info.trimmed_to}",
        keys.number,
        info.trimmed_to,
    )


def put_back(keys: PartitionKeys, missing: str, info: RangeInfo) -> LogTrimmed:
    """The error for a partition that lacks a message which it had."""
    last = f"ends at {info.last}" if info.last else "is empty"
    return _lost(
        f"partition {keys.number} of log {keys.log!r} {last} and does not have message {missing}, "
        "which it had: the store was emptied, or is an older copy",
        keys.number,
        info.trimmed_to,
    )


def made_anew(log: str, is_there: bool) -> LogTrimmed:
    """The error for a log that is no longer the one that was read."""
    return _lost(f"log {log!r} {'was deleted and made anew' if is_there else 'is gone'}")


def _lost(what: str, partition: int = 0, trimmed_to: str = "") -> LogTrimmed:
    error = LogTrimmed(what + _ADVICE)
    error.partition, error.trimmed_to = partition, trimmed_to
    return error
