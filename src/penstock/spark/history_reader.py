"""Reads the history of queues: every attempt that ended, and every job that ended without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.errors import InvalidArgument, QueueNotFound
from penstock.model.history import BEGINNING, place_key
from penstock.spark.history_ranges import HistoryRange, beginning_of, read_range, split_range
from penstock.store.commands.history import describe_history

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.connection.store import Store
    from penstock.model.history import HistoryBounds
    from penstock.spark.options import Request
    from penstock.spark.store import Connection

ONLY_BATCH = ("since", "until", "type", "tenant")
ONLY_STREAM = ("startingOffsets", "maxRowsPerTrigger", "reader")

_CLOCK_SET_BACK_MS = 600_000
"""Places never go back, so while a server's clock is behind what it was, entries stand under later
times than they have.
"""


class HistoryReader(DataSourceReader):
    """A partition is a range of places, split by time. What comes in meanwhile is not read."""

    def __init__(self, request: Request, connection: Connection) -> None:
        refuse_options(request, ONLY_STREAM, "a stream; use readStream")
        self._queues: tuple[str, ...] = queues_of(request.target)
        self._connection = connection
        self._since_ms: int | None = request.values["since"]
        self._until_ms: int | None = request.values["until"]
        self._type: str | None = request.values["type"]
        self._tenant: str | None = request.values["tenant"]
        self._fails: bool = request.values["failOnDataLoss"]
        self._entries: int = request.values["entries_per_partition"]

    def partitions(self) -> Sequence[InputPartition]:
        ranges: list[HistoryRange] = []
        with self._connection.open() as store:
            for queue in self._queues:
                ranges += self._ranges(store, queue)
        return [InputPartition(part) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted: HistoryRange | None = partition.value
        if wanted is None:  # so says Spark if there are no partitions
            return
        with self._connection.open() as store:
            keys = self._connection.keys(wanted.queue)
            for batch in read_range(store, keys, wanted, self._fails):
                kept = self._filtered(batch)
                if kept.num_rows:
                    yield kept

    def _ranges(self, store: Store, queue: str) -> list[HistoryRange]:
        keys = self._connection.keys(queue)
        bounds = store.run(describe_history(keys, BEGINNING))
        if not bounds.incarnation:
            raise QueueNotFound(
                f"there is no queue {queue!r} in namespace {keys.namespace!r}; check the name"
            )
        if not bounds.length:
            return []
        start, end = self._bounds(store, keys.history, bounds)
        if place_key(start) >= place_key(end):
            return []
        wanted = HistoryRange(queue, bounds.incarnation, start, end)
        return split_range(store, keys, wanted, bounds, self._entries)

    def _bounds(self, store: Store, key: str, bounds: HistoryBounds) -> tuple[str, str]:
        """Between which entries those are that ended in the time that is asked for."""

        def last_until(place: str) -> str:
            if place_key(place) < place_key(bounds.first):
                return beginning_of(bounds)  # Redis would go through all entries to find none
            found = store.call(key, "XREVRANGE", key, place, "-", "COUNT", 1)
            return found[0][0].decode() if found else beginning_of(bounds)

        start, end = beginning_of(bounds), bounds.last
        if self._since_ms is not None:
            start = last_until(f"{max(0, self._since_ms - 1)}-0")
        if self._until_ms is not None:
            end = min(end, last_until(f"{self._until_ms + _CLOCK_SET_BACK_MS}-0"), key=place_key)
        return start, end

    def _filtered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for name, is_kept, value in (
            ("type", pc.equal, self._type),
            ("tenant", pc.equal, self._tenant),
            ("ended_at", pc.greater_equal, _instant(self._since_ms)),
            ("ended_at", pc.less, _instant(self._until_ms)),
        ):
            if value is not None:
                batch = batch.filter(is_kept(batch.column(name), value))
        return batch


def queues_of(target: str) -> tuple[str, ...]:
    """The names in an option that takes several queues."""
    names = tuple(dict.fromkeys(name.strip() for name in target.split(",")))
    if not all(names):
        raise InvalidArgument(
            f"option 'history' is {target!r}; give names of queues with commas between them"
        )
    return names


def refuse_options(request: Request, names: Sequence[str], belongs_to: str) -> None:
    """Refuse options that the other way of reading takes."""
    for name in names:
        if request.values[name] is not None:
            raise InvalidArgument(f"option {name!r} is for {belongs_to}, or leave it out")


def _instant(ms: int | None) -> pa.Scalar | None:
    return None if ms is None else pa.scalar(ms * 1000, pa.timestamp("us", "UTC"))
