"""Reads a log as a stream, each message once."""

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

from penstock.model.logs import START, id_key
from penstock.model.names import check_name
from penstock.spark.history_offsets import share_limit
from penstock.spark.history_reader import refuse_options
from penstock.spark.log_offsets import (
    Lag,
    LogOffset,
    make_bound,
    open_offset,
    pack_latest,
    pack_offset,
)
from penstock.spark.log_planning import LogPlanner
from penstock.spark.log_ranges import made_anew, read_range
from penstock.spark.log_reader import ONLY_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.model.logs import LogFacts, RangeInfo
    from penstock.spark.log_ranges import LogRange
    from penstock.spark.options import Request
    from penstock.spark.store import Connection

_RENEW_S = 3600
"""How often a mark is set again while nothing comes, so that it does not run out."""


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark asks one of these, in a process that lives as long as the query, for offsets and
    partitions; copies of it read the partitions on executors.
    """

    def __init__(self, request: Request, connection: Connection) -> None:
        refuse_options(request, ONLY_BATCH, "a batch; use read")
        self._log = request.target
        self._connection = connection
        values = request.values
        self._starts = make_bound(self._log, values, "starting", "latest")
        self._max_rows: int | None = values["maxOffsetsPerTrigger"]
        self._parts: int | None = values["minPartitions"]
        self._reader: str | None = values["reader"]
        self._fails: bool = values["failOnDataLoss"]
        self._target: LogOffset | None = None
        self._planned: LogOffset | None = None
        """where the last batch ends that was planned"""
        self._passed: LogOffset | None = None
        """where the first loss was that this query has passed over"""
        self._marked: set[tuple[str, int]] = set()
        self._marked_at = 0.0
        self._opened: tuple[ExitStack, LogPlanner] | None = None
        if self._reader is not None:
            check_name("reader", self._reader)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None}

    def initialOffset(self) -> dict[str, Any]:
        facts = self._planner.facts()
        if facts is None:
            return pack_offset(self._log, LogOffset("", {}))
        places = self._planner.first(facts, self._starts, "latest")
        return pack_offset(self._log, LogOffset(facts.born, places))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable() if self._max_rows is None else ReadMaxRows(self._max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._newest()

    def reportLatestOffset(self) -> dict[str, Any]:
        """Spark shows it in the progress of the query, and does nothing else with it."""
        return pack_latest(self._log, self._newest(), self._lag())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        self._planned = self._next(open_offset(start, self._log), limit)
        return pack_offset(self._log, self._planned)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        offset, upto = open_offset(start, self._log), open_offset(end, self._log)
        facts = self._found(upto)
        if facts is None:
            return []
        if upto.born not in ("", facts.born):
            if self._fails:
                raise made_anew(self._log, is_there=True)
            return []
        found = self._planner.go_on(facts, offset)
        starts = {number: info.start for number, info in found.items()}
        self._passes_another(facts, offset, starts)
        ranges = self._planner.split(facts, starts, upto.places, self._parts)
        return [InputPartition(part) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted: LogRange = partition.value
        keys = self._connection.keys(self._log).partition(wanted.partition)
        with self._connection.open() as store:
            yield from read_range(store, keys, wanted, self._fails)

    def commit(self, end: dict[str, Any]) -> None:
        offset = open_offset(end, self._log)
        facts = self._planner.facts() if self._reader is not None else None
        if facts is not None and facts.born == offset.born:
            self._set_marks(facts, offset.places)

    def stop(self) -> None:
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    @property
    def _planner(self) -> LogPlanner:
        """Opened when it is first needed, and kept."""
        if self._opened is None:
            stack = ExitStack()
            store = stack.enter_context(self._connection.open())
            keys = self._connection.keys(self._log)
            self._opened = stack, LogPlanner(store, keys, self._fails)
        return self._opened[1]

    def _next(self, offset: LogOffset, limit: ReadLimit) -> LogOffset:
        """Where the batch ends that begins at an offset; there, if there is nothing to read."""
        facts = self._found(offset)
        if facts is None or (self._target is not None and self._target.born != facts.born):
            return offset
        found = self._planner.go_on(facts, offset)
        starts = {number: info.start for number, info in found.items()}
        if self._passes_another(facts, offset, starts) and self._target is not None:
            return offset
        ends = {number: self._end(number, info) for number, info in found.items()}
        self._set_marks(facts, starts, again=False)
        if isinstance(limit, ReadMaxRows):
            ends = self._limited(facts, starts, ends, limit.max_rows)
        return LogOffset(facts.born, ends)

    def _lag(self) -> Lag | None:
        """How much comes after the batch that was planned; None if there is none, or no log."""
        facts, planned = self._planner.facts(), self._planned
        if facts is None or planned is None or planned.born != facts.born:
            return None
        messages, seconds = 0, 0.0
        for number in range(facts.partitions):
            start = planned.places.get(number, START)
            info = self._planner.look(facts, number, start)
            if info.messages:
                first = self._planner.look(facts, number, start, most=1).ends[-1]
                seconds = max(seconds, info.now - id_key(first)[0] / 1000)
            messages += info.messages
        return Lag(messages, round(seconds, 3))

    def _found(self, offset: LogOffset) -> LogFacts | None:
        """What the log says of itself. Raises LogTrimmed if it was read before and is gone."""
        facts = self._planner.facts()
        if facts is None and offset.born and self._fails:
            raise made_anew(self._log, is_there=False)
        return facts

    def _passes_another(self, facts: LogFacts, offset: LogOffset, starts: dict[int, str]) -> bool:
        """Whether messages are lost after an offset, and were after another one before. A query
        that reads what there was when it began passes over one loss: what is lost while it runs
        is left to the next one, so that each can be told apart.
        """
        is_lost = offset.born not in ("", facts.born) or any(
            start != offset.places.get(number, START) for number, start in starts.items()
        )
        if is_lost and self._passed is None:
            self._passed = offset
        return is_lost and self._passed != offset

    def _newest(self) -> LogOffset:
        facts = self._planner.facts()
        if facts is None:
            return LogOffset("", {})
        looks = {number: self._planner.look(facts, number) for number in range(facts.partitions)}
        return LogOffset(facts.born, {number: info.latest for number, info in looks.items()})

    def _end(self, number: int, info: RangeInfo) -> str:
        """Up to which message there is something to read now; not beyond a target."""
        end = info.latest
        if self._target is not None:
            end = min(end, self._target.places.get(number, START), key=id_key)
        return max(end, info.start, key=id_key)

    def _limited(
        self, facts: LogFacts, starts: dict[int, str], ends: dict[int, str], most: int
    ) -> dict[int, str]:
        """So many messages of all partitions, more of those that are further behind."""
        lags = {}
        for number, end in ends.items():
            found = self._planner.look(facts, number, starts[number], end).messages
            if found:
                lags[str(number)] = found
        if sum(lags.values()) <= most:
            return ends
        limited = dict(ends)
        for name, rows in share_limit(most, lags).items():
            number = int(name)
            if rows == 0:
                limited[number] = starts[number]
            elif rows < lags[name]:
                info = self._planner.look(facts, number, starts[number], ends[number], rows)
                limited[number] = info.ends[-1]
        return limited

    def _set_marks(self, facts: LogFacts, places: dict[int, str], again: bool = True) -> None:
        """Say how far the stream has come; where it said so before, only `again`. It is said once
        more after some time in which nothing came.
        """
        if self._reader is None:
            return
        if time.monotonic() - self._marked_at > _RENEW_S:
            self._marked.clear()
            self._marked_at = time.monotonic()
        for number, place in places.items():
            mark = facts.born, number
            if (again or mark not in self._marked) and self._planner.mark(
                facts, self._reader, number, place
            ):
                self._marked.add(mark)
