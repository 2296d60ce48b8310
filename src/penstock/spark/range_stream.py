"""A stream of ranges of a history or a log instead of its entries, for programs that read the
ranges where they need the entries.

Entries that came through Spark would go from Python to Java and back to Python. A range is one row,
and what is read by it is the same as a stream of the entries has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource

from penstock.spark.archive_source import SourceRange
from penstock.spark.clients import find_connection
from penstock.spark.history_stream import HistoryStreamReader
from penstock.spark.kinds import READ_HISTORY, READ_LOG
from penstock.spark.log_stream import LogStreamReader
from penstock.spark.options import parse_request
from penstock.spark.schemas import RANGES, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
    from pyspark.sql.types import StructType

    from penstock.spark.history_ranges import HistoryRange
    from penstock.spark.log_ranges import LogRange


class RangeSource(DataSource):
    """`format("penstock_ranges")`: takes the options of a stream of history, or of a log."""

    @classmethod
    def name(cls) -> str:
        return "penstock_ranges"

    def schema(self) -> StructType:
        return RANGES

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        request = parse_request([READ_HISTORY, READ_LOG], self.options)
        connection = find_connection(request.url, request.namespace)
        if request.kind is READ_LOG:
            return _LogRanges(request, connection)
        return _HistoryRanges(request, connection)


class _HistoryRanges(HistoryStreamReader):
    """Offsets, marks and partitions are those of a stream of history."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted: HistoryRange = partition.value
        yield _row(SourceRange(wanted.queue, wanted.incarnation, 0, wanted.start, wanted.end))


class _LogRanges(LogStreamReader):
    """Offsets, marks and partitions are those of a stream of a log."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted: LogRange = partition.value
        yield _row(SourceRange(self._log, wanted.born, wanted.partition, wanted.start, wanted.end))


def _row(wanted: SourceRange) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([wanted._asdict()], arrow_schema(RANGES))


def ranges_in(batches: Iterable[pa.RecordBatch]) -> Iterator[SourceRange]:
    """The ranges that the rows of a stream say."""
    for batch in batches:
        for row in batch.to_pylist():
            yield SourceRange(**row)
