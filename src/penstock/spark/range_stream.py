"""A stream of ranges of history instead of its entries, for programs that read the ranges where
they need the entries.

Entries that came through Spark would go from Python to Java and back to Python. A range is one row,
and what is read by it is the same as a stream of history has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource

from penstock.spark.clients import find_connection
from penstock.spark.history_ranges import HistoryRange
from penstock.spark.history_stream import HistoryStreamReader
from penstock.spark.kinds import READ_HISTORY
from penstock.spark.options import parse_request
from penstock.spark.schemas import RANGES, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType


class RangeSource(DataSource):
    """`format("penstock_ranges")`: takes the options of a stream of history."""

    @classmethod
    def name(cls) -> str:
        return "penstock_ranges"

    def schema(self) -> StructType:
        return RANGES

    def streamReader(self, schema: StructType) -> HistoryStreamReader:
        request = parse_request([READ_HISTORY], self.options)
        return _RangeStreamReader(request, find_connection(request.url, request.namespace))


class _RangeStreamReader(HistoryStreamReader):
    """Offsets, marks and partitions are those of a stream of history."""

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted: HistoryRange = partition.value
        yield pa.RecordBatch.from_pylist([wanted._asdict()], arrow_schema(RANGES))


def ranges_in(batches: Iterable[pa.RecordBatch]) -> Iterator[HistoryRange]:
    """The ranges that the rows of a stream say."""
    for batch in batches:
        for row in batch.to_pylist():
            yield HistoryRange(**row)
