"""Reads a log once, from one place to another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.errors import InvalidArgument
from penstock.model.logs import id_key
from penstock.spark.history_reader import refuse_options
from penstock.spark.log_offsets import make_bound
from penstock.spark.log_planning import LogPlanner
from penstock.spark.log_ranges import read_range
from penstock.store.commands.logs import describe_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.spark.log_ranges import LogRange
    from penstock.spark.options import Request
    from penstock.spark.store import Connection

ONLY_BATCH = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
ONLY_STREAM = ("maxOffsetsPerTrigger", "reader")


class LogReader(DataSourceReader):
    """A Spark partition is a range of ids. What is appended meanwhile is not read."""

    def __init__(self, request: Request, connection: Connection) -> None:
        refuse_options(request, ONLY_STREAM, "a stream; use readStream")
        self._log = request.target
        self._connection = connection
        values = request.values
        self._starts = make_bound(self._log, values, "starting", "earliest")
        self._ends = make_bound(self._log, values, "ending", "latest")
        self._parts: int | None = values["minPartitions"]
        self._fails: bool = values["failOnDataLoss"]
        if self._starts.given == "latest" or self._ends.given == "earliest":
            raise InvalidArgument(
                "a batch that begins with the latest message, or ends with the earliest, has none; "
                "give other startingOffsets and endingOffsets, or use readStream"
            )

    def partitions(self) -> Sequence[InputPartition]:
        keys = self._connection.keys(self._log)
        with self._connection.open() as store:
            facts = store.run(describe_log(keys))
            planner = LogPlanner(store, keys, self._fails)
            starts = planner.first(facts, self._starts, "earliest")
            ends = planner.last(facts, self._ends)
            ranges = planner.split(facts, starts, ends, self._parts)
        return [InputPartition(part) for part in sorted(ranges, key=_place)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted: LogRange | None = partition.value
        if wanted is None:  # so says Spark if there are no partitions
            return
        keys = self._connection.keys(self._log).partition(wanted.partition)
        with self._connection.open() as store:
            yield from read_range(store, keys, wanted, self._fails)


def _place(part: LogRange) -> tuple[int, tuple[int, int]]:
    return part.partition, id_key(part.start)
