"""Copies ranges of histories and logs from Redis into Parquet files, on Spark's executors."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from penstock.spark.archive_source import ArchiveSource, SourceRange
from penstock.spark.delta import DataFile, Table
from penstock.spark.lake_files import FilePart, TableFiles, check_seen
from penstock.spark.range_stream import ranges_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from penstock.spark.store import Connection


class Copied(NamedTuple):
    """What executors have copied."""

    files: list[FilePart]
    ranges: list[SourceRange]


@dataclass(frozen=True, slots=True)
class RangeCopier:
    """What executors need to know to copy ranges of a source into files of a table."""

    connection: Connection
    table: Table
    source: ArchiveSource
    fails: bool = True
    """whether a range that is not whole is an error"""

    def copy(self, ranges: DataFrame) -> Copied:
        """Write the entries of all ranges into the folder of the table, as no part of it yet.

        The driver gets the descriptions of the files, so entries never pass through it. On a
        cluster all executors must reach the folder under the same path: LakeNotShared is raised
        otherwise.
        """
        self.table.open()
        described = ranges.mapInArrow(self._copy_on_executor, "description string").collect()
        copied = Copied([], [])
        for row in described:
            part = _open_description(row.description)
            copied.files.extend(part.files)
            copied.ranges.extend(part.ranges)
        check_seen(self.table, [part.file for part in copied.files])
        return copied

    def _copy_on_executor(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = TableFiles(self.table, self.source.time_column)
        ranges = list(ranges_in(batches))
        with self.connection.open() as store:
            for wanted in ranges:
                for batch in self.source.read(self.connection, store, wanted, self.fails):
                    files.write(batch)
        described = _describe(Copied(files.close(), ranges))
        yield pa.RecordBatch.from_arrays([pa.array([described], pa.string())], ["description"])


def _describe(copied: Copied) -> str:
    files = [{"file": asdict(part.file), "rows": part.rows} for part in copied.files]
    return json.dumps({"files": files, "ranges": copied.ranges})


def _open_description(text: str) -> Copied:
    found = json.loads(text)
    files = [FilePart(DataFile(**part["file"]), part["rows"]) for part in found["files"]]
    return Copied(files, [SourceRange(*part) for part in found["ranges"]])
