"""Parquet files for the tables of a lake."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.exceptions import TableNotFoundError
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileType, PyFileSystem

from penstock.errors import InvalidName, LakeNotShared
from penstock.spark.delta import DataFile, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

# A range of history has one queue and a day or two; this bounds memory for any other DataFrame.
_MAX_OPEN_FILES = 16

# Rows are sorted and compressed so many at a time: fewer make larger files, and cost more.
_ROWS_AT_A_TIME = 100_000
# Messages may be large, and a column of Arrow holds no more than 2 GiB.
_BYTES_AT_A_TIME = 64 * 1024 * 1024

# What file systems allow for one name.
_MAX_FOLDER_NAME_BYTES = 255


def write_rows(rows: pa.Table, table: Table, time_column: str) -> list[DataFile]:
    """Write a few rows from this process; `day` is made of `time_column`."""
    table.open()
    files = TableFiles(table, time_column)
    for batch in rows.to_batches():
        files.write(batch)
    return [part.file for part in files.close()]


class FilePart(NamedTuple):
    """A file that is complete."""

    file: DataFile
    rows: int


class TableFiles:
    """Sorts rows into one file for each partition of a table."""

    def __init__(self, table: Table, time_column: str) -> None:
        self._table = table
        self._time_column = time_column
        self._storage = _storage_of(table)
        self._unsorted: list[pa.RecordBatch] = []
        self._unsorted_bytes = 0
        self._open: dict[tuple[str, ...], _OpenFile] = {}
        self._closed: list[FilePart] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows that have all columns of the table but `day`, in any order of columns."""
        self._unsorted.append(batch)
        self._unsorted_bytes += batch.nbytes
        rows = sum(part.num_rows for part in self._unsorted)
        if rows >= _ROWS_AT_A_TIME or self._unsorted_bytes >= _BYTES_AT_A_TIME:
            self._sort()

    def close(self) -> list[FilePart]:
        """Complete all files, and describe them."""
        self._sort()
        for values in list(self._open):
            self._close(values)
        return self._closed

    def _sort(self) -> None:
        if not any(batch.num_rows for batch in self._unsorted):
            return
        batch = pa.concat_batches(self._unsorted)
        self._unsorted.clear()
        self._unsorted_bytes = 0
        day = pc.cast(batch[self._time_column].cast(pa.timestamp("us", "UTC")), pa.date32())
        names = [name for name in self._table.layout.schema.names if name != "day"]
        columns = [batch[name].cast(self._table.layout.schema.field(name).type) for name in names]
        whole = pa.RecordBatch.from_arrays([*columns, day], [*names, "day"])
        for values, part in _parts(whole, self._table.layout.partition_by):
            self._file_for(values, part.schema).write(part)

    def _file_for(self, values: tuple[str, ...], schema: pa.Schema) -> _OpenFile:
        found = self._open.pop(values, None)
        if found is None:
            if len(self._open) == _MAX_OPEN_FILES:
                self._close(next(iter(self._open)))
            partition = dict(zip(self._table.layout.partition_by, values, strict=True))
            found = _OpenFile(self._storage, partition, schema, self._time_column)
        self._open[values] = found  # at the end, so that the first is the one not used for longest
        return found

    def _close(self, values: tuple[str, ...]) -> None:
        self._closed.append(self._open.pop(values).close())


class _OpenFile:
    """A file that rows are still added to."""

    def __init__(
        self, storage: PyFileSystem, partition: dict[str, str], schema: pa.Schema, time_column: str
    ) -> None:
        folder = "/".join(_folder_name(column, value) for column, value in partition.items())
        # Each attempt to write it has a name of its own, so a second attempt of the same Spark task
        # does not overwrite it.
        self._path = f"{folder}/{uuid.uuid4().hex}.parquet"
        self._storage = storage
        self._partition = partition
        self._time_column = time_column
        self._writer = pq.ParquetWriter(
            self._path,
            schema,
            filesystem=storage,
            compression="zstd",
            write_statistics=True,
            write_page_checksum=True,  # for `penstock spark verify`
        )
        self._rows = 0
        self._times: list[Any] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self._rows += batch.num_rows
        least_and_greatest = pc.min_max(batch[self._time_column]).as_py()
        self._times = [
            min([*self._times[:1], least_and_greatest["min"]]),
            max([*self._times[1:], least_and_greatest["max"]]),
        ]

    def close(self) -> FilePart:
        self._writer.close()
        least, greatest = (f"{at:%Y-%m-%dT%H:%M:%S.%fZ}" for at in self._times)
        stats = {
            "numRecords": self._rows,
            "minValues": {self._time_column: least},
            "maxValues": {self._time_column: greatest},
            "nullCount": {self._time_column: 0},
        }
        size = self._storage.get_file_info(self._path).size
        file = DataFile(self._path, size, self._partition, json.dumps(stats))
        return FilePart(file, self._rows)


def _storage_of(table: Table) -> PyFileSystem:
    try:
        return PyFileSystem(DeltaStorageHandler(table.uri, dict(table.storage_options)))
    except TableNotFoundError:
        raise _not_shared(table) from None


def check_seen(table: Table, files: list[DataFile]) -> None:
    """Refuse files that are in a folder of the same name on another machine."""
    found = _storage_of(table).get_file_info([file.path for file in files]) if files else []
    if any(info.type != FileType.File for info in found):
        raise _not_shared(table)


def _not_shared(table: Table) -> LakeNotShared:
    return LakeNotShared(
        f"Spark's driver and executors do not see the same files in {table.uri}; put the lake on "
        "storage that all of them reach under this path, such as a network file system or s3://"
    )


def _parts(
    batch: pa.RecordBatch, by: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
    """The rows of each partition, without the columns that its folder's name tells."""
    rows = batch.drop_columns(list(by))
    keys = pa.Table.from_batches([batch.select(list(by))])
    groups = keys.group_by(list(by)).aggregate([]).to_pylist()
    for group in groups:
        values = tuple(str(group[column]) for column in by)
        if len(groups) == 1:
            yield values, rows
            return
        masks = [pc.equal(batch[column], pa.scalar(group[column])) for column in by]
        mask = masks[0]
        for other in masks[1:]:
            mask = pc.and_(mask, other)
        yield values, rows.filter(mask)


def _folder_name(column: str, value: str) -> str:
    """As Spark, duckdb and pyarrow read it: the value with everything unusual escaped."""
    name = f"{column}={quote(value, safe='')}"
    if len(name) > _MAX_FOLDER_NAME_BYTES:
        raise InvalidName(
            f"the rows of {column} {value[:20]!r}... cannot be kept in a lake: its folder would "
            f"have a name of {len(name)} characters and {_MAX_FOLDER_NAME_BYTES} is the limit; "
            "archive queues and logs with shorter names"
        )
    return name
