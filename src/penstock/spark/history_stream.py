"""Reads the history of queues as a stream, each entry once."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from penstock.errors import HistoryLost, InvalidArgument
from penstock.model.history import BEGINNING, place_key
from penstock.spark.clients import open_client
from penstock.spark.history_offsets import (
    Offset,
    Offsets,
    mark_offsets,
    open_offsets,
    pack_offsets,
    share_limit,
    until,
)
from penstock.spark.history_ranges import (
    HistoryRange,
    beginning_of,
    estimate_entries,
    find_loss,
    read_range,
    split_range,
)
from penstock.spark.history_reader import ONLY_BATCH, queues_of, refuse_options
from penstock.store.commands.history import MOST_STEPS, describe_history, step_history

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.client.client import Penstock
    from penstock.model.history import HistoryBounds
    from penstock.spark.history_offsets import Start
    from penstock.spark.options import Request
    from penstock.spark.store import Connection

_RENEW_S = 3600
"""How often a mark is set again while nothing comes, so that it does not run out."""


class HistoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark asks one of these, in a process that lives as long as the query, for offsets and
    partitions; copies of it read the partitions on executors.
    """

    def __init__(self, request: Request, connection: Connection) -> None:
        refuse_options(request, ONLY_BATCH, "a batch; use read")
        self._queues = queues_of(request.target)
        self._connection = connection
        self._starts: Start = request.values["startingOffsets"] or "latest"
        self._max_rows: int | None = request.values["maxRowsPerTrigger"]
        self._reader: str | None = request.values["reader"]
        self._fails: bool = request.values["failOnDataLoss"]
        self._entries: int = request.values["entries_per_partition"]
        self._targets: Offsets | None = None
        self._passed: Offsets = {}
        """queue -> where the first loss began that this query has passed over"""
        self._is_marked: set[str] = set()
        self._marked_at = 0.0
        self._opened: tuple[ExitStack, Penstock] | None = None
        unknown = set(self._starts) - set(self._queues) if isinstance(self._starts, dict) else None
        if unknown:
            raise InvalidArgument(
                f"option 'startingOffsets' names {', '.join(sorted(unknown))}, and option "
                f"'history' does not; it names {', '.join(self._queues)}"
            )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    def initialOffset(self) -> dict[str, list[str]]:
        return pack_offsets({queue: self._first_offset(queue) for queue in self._queues})

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._max_rows is None else ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._targets = self._last_offsets()

    def reportLatestOffset(self) -> dict[str, list[str]]:
        return pack_offsets(self._last_offsets())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, list[str]]:
        starts = self._started(start)
        self._set_marks(starts)
        plans = {queue: self._plan(queue, offset) for queue, offset in starts.items()}
        ends = {queue: Offset(plan.incarnation, plan.end) for queue, plan in plans.items()}
        if isinstance(limit, ReadMaxRows):
            behind = {queue: plan for queue, plan in plans.items() if plan.start != plan.end}
            bounds = {queue: self._look(queue, plan.start) for queue, plan in behind.items()}
            lags = {
                queue: estimate_entries(bounds[queue], plan.start, plan.end)
                for queue, plan in behind.items()
            }
            for queue, rows in share_limit(limit.max_rows, lags).items():
                if bounds[queue].length > rows:  # or else all there is will do
                    ends[queue] = ends[queue]._replace(place=self._step(plans[queue], rows))
        return pack_offsets(ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        starts, ends = self._started(start), open_offsets(end)
        ranges: list[HistoryRange] = []
        for queue, offset in ends.items():
            plan = self._plan(queue, starts.get(queue, Offset()), offset)
            if plan.start != plan.end:
                keys, bounds = self._connection.keys(queue), self._look(queue, plan.start)
                ranges += split_range(self._client.store, keys, plan, bounds, self._entries)
        return [InputPartition(part) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted: HistoryRange = partition.value
        with self._connection.open() as store:
            yield from read_range(store, self._connection.keys(wanted.queue), wanted, self._fails)

    def commit(self, end: dict[str, Any]) -> None:
        if self._reader is not None:
            mark_offsets(self._client, self._reader, end)
            self._marked_at = time.monotonic()

    def stop(self) -> None:
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    @property
    def _client(self) -> Penstock:
        """Opened when it is first needed, and kept."""
        if self._opened is None:
            stack = ExitStack()
            self._opened = stack, stack.enter_context(open_client(self._connection))
        return self._opened[1]

    def _look(self, queue: str, anchor: str = BEGINNING) -> HistoryBounds:
        return self._client.store.run(describe_history(self._connection.keys(queue), anchor))

    def _last_offsets(self) -> Offsets:
        offsets = {}
        for queue in self._queues:
            bounds = self._look(queue)
            offsets[queue] = Offset(bounds.incarnation, bounds.last or BEGINNING)
        return offsets

    def _first_offset(self, queue: str) -> Offset:
        starts = self._starts
        start = starts if isinstance(starts, str) else starts.get(queue, "latest")
        bounds = self._look(queue)
        if isinstance(start, list):
            return Offset(*start)
        places = {"earliest": beginning_of(bounds), "latest": bounds.last or BEGINNING}
        return Offset(bounds.incarnation, places.get(start, start))

    def _started(self, start: dict[str, Any]) -> Offsets:
        """Where a batch begins. A queue that was added to the option since begins as in a new
        query; one that was taken out is left as it is.
        """
        offsets = open_offsets(start)
        for queue in self._queues:
            if queue not in offsets:
                offsets[queue] = self._first_offset(queue)
        return offsets

    def _plan(self, queue: str, start: Offset, end: Offset | None = None) -> HistoryRange:
        """What is to be read of a queue: up to `end`, or else to the last entry there is now.

        Raises HistoryLost if something is lost after `start`; if that does not matter, begins where
        the history now does. A query that reads what there was when it began passes over one loss:
        what is lost while it runs is left to the next one, so that each can be told apart.
        """
        bounds = self._look(queue, start.place)
        # Where nothing was when the stream began, the end tells which queue came to be.
        incarnation = start.incarnation or (end.incarnation if end is not None else "")
        wanted = HistoryRange(queue, incarnation, start.place, start.place)
        loss = find_loss(bounds, wanted)
        is_new = bounds.incarnation != incarnation
        if loss and self._fails:
            raise HistoryLost(loss)
        if loss:
            is_another = self._passed.setdefault(queue, start) != start
            if is_another and self._targets is not None and end is None:
                return wanted
            if is_new or place_key(bounds.last or BEGINNING) < place_key(start.place):
                wanted = wanted._replace(start=BEGINNING, end=BEGINNING)
        wanted = wanted._replace(incarnation=bounds.incarnation)
        target = (self._targets or {}).get(queue) if end is None else end
        last = until(bounds, target)
        return wanted._replace(end=max(last, wanted.start, key=place_key))

    def _step(self, plan: HistoryRange, rows: int) -> str:
        """The place so many entries further on."""
        place, left = plan.start, rows
        keys = self._connection.keys(plan.queue)
        while left > 0:
            limit = min(left, MOST_STEPS)
            passed, last = self._client.store.run(step_history(keys, place, plan.end, limit))
            place, left = last or place, left - passed
            if passed < limit:
                return plan.end
        return place

    def _set_marks(self, starts: Offsets) -> None:
        """Before the first batch, and again after some time in which nothing came. A queue that
        does not exist yet is marked as soon as it does.
        """
        if self._reader is None:
            return
        if time.monotonic() - self._marked_at > _RENEW_S:
            self._is_marked.clear()
            self._marked_at = time.monotonic()
        for queue in starts.keys() - self._is_marked:
            if self._client.jobs(queue).mark_history(self._reader, starts[queue].place):
                self._is_marked.add(queue)
