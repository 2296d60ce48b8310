"""Fills a queue from any source that Spark can read, without a program."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import platformdirs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.errors import InvalidArgument
from penstock.spark.clients import find_connection
from penstock.spark.failures import penstock_error
from penstock.spark.options import parse_request
from penstock.spark.source import WRITERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.packing import Packer

FILE_FORMATS = ("parquet", "orc", "csv", "json", "text", "avro", "xml", "binaryFile")
"""Read as a stream, so that Spark's checkpoint knows which files were sent."""

_POLL_S = 0.5
_FILES_AT_ONCE = "1000"
_CHECKED = StructType([StructField("reason", StringType()), StructField("rows", LongType())])


@dataclass(frozen=True, slots=True)
class Source:
    """What is read, and what is made of it."""

    path: str
    format: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)
    """as Spark's own reader takes them"""
    select: Sequence[str] = ()
    """SQL expressions of the columns that are sent, `amount * 100 AS cents`; none: all columns"""
    where: str = ""
    """a condition in SQL for rows that are sent"""

    @property
    def is_files(self) -> bool:
        return self.format in FILE_FORMATS

    def read(self, spark: SparkSession) -> DataFrame:
        reader = spark.read.format(self.format).options(**self.options)
        return self._shaped(reader.load(self.path) if self.path else reader.load())

    def stream(self, spark: SparkSession) -> DataFrame:
        """New files, in the order of their time. The schema is that of the files now."""
        schema = spark.read.format(self.format).options(**self.options).load(self.path).schema
        options = {"maxFilesPerTrigger": _FILES_AT_ONCE, **self.options}
        reader = spark.readStream.format(self.format).schema(schema).options(**options)
        return self._shaped(reader.load(self.path))

    def _shaped(self, rows: DataFrame) -> DataFrame:
        if self.where:
            rows = rows.where(self.where)
        return rows.selectExpr(*self.select) if self.select else rows


class Ingested(NamedTuple):
    """What came of it."""

    rows: int
    """that were read and sent, those that were refused included"""
    batches: int
    checkpoint: str
    """where Spark keeps which files were sent; empty for what is no files"""


class Checked(NamedTuple):
    """What would be sent."""

    first: list[dict[str, Any]]
    rows: int
    refused: dict[str, int]
    """reason -> rows"""


def ingest(
    spark: SparkSession,
    source: Source,
    target: Mapping[str, str],
    *,
    url: str | None = None,
    namespace: str | None = None,
    checkpoint: str | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Ingested:
    """Send rows to a queue; `target` has the options of `format("penstock")` for writing, such as
    {"jobs": "images", "type": "resize"}.

    Files are read as a stream, up to what is there now. Which of them were sent is kept in the
    `checkpoint` (a folder; by default one for this source and target in the user's state folder),
    so that another run sends new files alone, and one that was killed goes on where it was: no row
    is lost, and none is sent twice. What is no files is sent as one batch, once if `target` has a
    `batch_id`. `on_progress` is told how many rows were sent so far.
    """
    connection = find_connection(url, namespace)
    options = {**target, "namespace": connection.settings.namespace}
    options |= {} if url is None else {"url": url}
    if not source.is_files:
        rows = source.read(spark).cache()
        try:
            count = rows.count()
            rows.write.format("penstock").options(**options).mode("append").save()
        finally:
            rows.unpersist()
        return Ingested(count, 1, "")
    if "batch_id" in target:
        raise InvalidArgument(
            "batch_id is for what is read at once; files are sent once by way of the checkpoint"
        )
    place = checkpoint or _default_checkpoint(source, str(connection.settings.address), options)
    query = (
        source.stream(spark)
        .writeStream.format("penstock")
        .options(**options)
        .option("checkpointLocation", place)
        .trigger(availableNow=True)
        .start()
    )
    try:
        rows_sent, batches = _wait(query, on_progress or (lambda _: None))
    except PySparkException as error:
        raise penstock_error(error) or error from error
    return Ingested(rows_sent, batches, place)


def check_rows(
    spark: SparkSession,
    source: Source,
    target: Mapping[str, str],
    *,
    url: str | None = None,
    namespace: str | None = None,
) -> Checked:
    """What `ingest` would send, without sending it: the first rows, and how many could be sent."""
    rows = source.read(spark)
    request = parse_request(WRITERS, target)
    _, make_packer = WRITERS[request.kind]
    connection = find_connection(url, namespace)
    packer = make_packer(request, rows.schema, connection.settings.max_payload)

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _check(packer, batches)

    found = rows.mapInArrow(check, schema=_CHECKED).collect()
    refused: Counter[str] = Counter()
    for reason, count in found:
        refused[reason or ""] += count
    sent = refused.pop("", 0)
    first = [row.asDict(recursive=True) for row in rows.limit(5).collect()]
    return Checked(first, sent + sum(refused.values()), dict(refused))


def _check(packer: Packer, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs rows on an executor, and counts what could not be packed."""
    counts: Counter[str] = Counter()
    for batch in batches:
        sent = sum(chunk.rows for chunk in packer.pack(batch, lambda _, why: counts.update([why])))
        counts[""] += sent
    yield pa.RecordBatch.from_arrays(
        [pa.array(counts.keys(), pa.string()), pa.array(counts.values(), pa.int64())],
        schema=pa.schema([("reason", pa.string()), ("rows", pa.int64())]),
    )


def _wait(query: StreamingQuery, on_progress: Callable[[int], None]) -> tuple[int, int]:
    """Until all that is there is sent. Returns rows and batches."""
    rows: dict[int, int] = {}
    try:
        while True:
            is_over = query.awaitTermination(_POLL_S)  # type: ignore[arg-type]
            for part in query.recentProgress:
                rows[part.batchId] = part.numInputRows
            on_progress(sum(rows.values()))
            if is_over:
                return sum(rows.values()), sum(count > 0 for count in rows.values())
    except BaseException:
        query.stop()
        raise


def _default_checkpoint(source: Source, store: str, target: Mapping[str, str]) -> str:
    """The same folder for the same files, store and queue."""
    path = source.path if "://" in source.path else str(Path(source.path).absolute())
    queue = target.get("jobs") or target.get("queue") or ""
    parts = (path, source.format, store, target["namespace"], queue)
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return str(platformdirs.user_state_path("penstock") / "ingest" / name)
