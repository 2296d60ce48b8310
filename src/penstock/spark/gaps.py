"""The table `gaps`: history that was gone before it could be archived, and was passed over."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException

from penstock.spark.history_offsets import Offset
from penstock.spark.lake_files import write_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.history_lake import Lake


class LastBatch(NamedTuple):
    """The last micro-batch that a streaming query has completed."""

    number: int
    offset: Offset


def note_gap(
    lake: Lake, queue: str, reader: str, reason: str, last: LastBatch | None, next_place: str
) -> None:
    """Put a row into the lake that says what is missing after the last batch. It may be called
    again for the same gap: it is noted once.
    """
    table = lake.table("gaps")
    row = {
        "found_at": datetime.now(UTC),
        "queue": queue,
        "reader": reader,
        "reason": reason,
        "after_place": last.offset.place if last else None,
        "next_place": next_place or None,
    }
    schema = table.layout.schema
    columns = schema.remove(schema.get_field_index("day"))
    files = write_rows(pa.Table.from_pylist([row], columns), table, "found_at")
    incarnation = last.offset.incarnation if last else ""
    table.append(files, f"gaps of {queue} {incarnation}", last.number + 1 if last else 0)


def last_batch(spark: SparkSession, queue: str, checkpoint: str) -> LastBatch | None:
    """What a checkpoint says about a queue, wherever Spark keeps it; None if it says nothing."""
    try:
        paths = spark.read.format("binaryFile").load(f"{checkpoint}/commits").select("path")
        names = [row.path.rpartition("/")[2] for row in paths.collect()]
    except AnalysisException:
        return None
    numbers = [int(name) for name in names if name.isdigit()]
    if not numbers:
        return None
    lines = [row.value for row in spark.read.text(f"{checkpoint}/offsets/{max(numbers)}").collect()]
    for line in reversed(lines):
        found = json.loads(line) if line.startswith("{") else {}
        if queue in found:
            return LastBatch(max(numbers), Offset(*found[queue]))
    return None
