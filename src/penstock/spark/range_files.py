"""Copies ranges of history from Redis into Parquet files, on Spark's executors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from penstock.spark.delta import DataFile, Table
from penstock.spark.history_ranges import read_range
from penstock.spark.lake_files import FilePart, TableFiles, check_seen
from penstock.spark.range_stream import ranges_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from penstock.spark.store import Connection

_QUERY_ID = "sql.streaming.queryId"


class WrittenFile(NamedTuple):
    """A file of attempts that an executor wrote."""

    file: DataFile
    rows: int
    query: str
    """the id of the streaming query, which is the same each time its checkpoint is used"""
    queue: str
    last_place: str


@dataclass(frozen=True, slots=True)
class RangeCopier:
    """What executors need to know to copy ranges of history into files of a table."""

    connection: Connection
    table: Table
    fails: bool = True
    """whether a range that is not whole is an error"""

    def copy(self, ranges: DataFrame) -> list[WrittenFile]:
        """Write the entries of all ranges into the folder of the table, as no part of it yet.

        The driver gets the descriptions of the files, so entries never pass through it. On a
        cluster all executors must reach the folder under the same path: LakeNotShared is raised
        otherwise.
        """
        self.table.open()
        described = ranges.mapInArrow(self._copy_on_executor, "description string").collect()
        written = [_open_description(row.description) for row in described]
        check_seen(self.table, [part.file for part in written])
        return written

    def _copy_on_executor(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = TableFiles(self.table, "ended_at")
        with self.connection.open() as store:
            for wanted in ranges_in(batches):
                keys = self.connection.keys(wanted.queue)
                for batch in read_range(store, keys, wanted, self.fails):
                    files.write(batch)
        context = TaskContext.get()
        query = (context and context.getLocalProperty(_QUERY_ID)) or ""
        described = [_describe(part, query) for part in files.close()]
        yield pa.RecordBatch.from_arrays([pa.array(described, pa.string())], ["description"])


def _describe(part: FilePart, query: str) -> str:
    file = part.file
    return json.dumps(
        {
            "path": file.path,
            "size": file.size,
            "partition": file.partition,
            "stats": file.stats,
            "rows": part.rows,
            "query": query,
            "last_place": part.last["place"],
        }
    )


def _open_description(text: str) -> WrittenFile:
    found = json.loads(text)
    partition = found["partition"]
    file = DataFile(found["path"], found["size"], partition, found["stats"])
    return WrittenFile(file, found["rows"], found["query"], partition["queue"], found["last_place"])
