"""Few rows of the lake's tables, for tests that say what matters and leave out the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.spark.history_lake import LAYOUTS
from tests.spark.synthetic_history import minutes_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark.history_lake import TableName


def attempt(minute: float, /, **changes: Any) -> dict[str, Any]:
    """An attempt that ended so many minutes after the beginning; its job was sent one before."""
    row = {
        "queue": "images",
        "place": f"{minute}-0",
        "job": f"job-{minute}",
        "type": "resize",
        "tenant": "acme",
        "priority": 0,
        "attempt": 1,
        "outcome": "done",
        "state": "done",
        "error_type": None,
        "worker": "w-1",
        "created_at": minutes_after(minute - 1),
        "ended_at": minutes_after(minute),
        "waited_ms": 100,
        "ran_us": 1_000_000,
        "cpu_us": 500_000,
        "bytes": 10,
    }
    return {**row, "day": minutes_after(minute).date(), **changes}


def failed(minute: float, /, **changes: Any) -> dict[str, Any]:
    """An attempt that failed and is made again."""
    return attempt(
        minute,
        **{"outcome": "failed", "state": "scheduled", "error_type": "ValueError", **changes},
    )


def count(minute: float, /, **changes: Any) -> dict[str, Any]:
    """A queue of jobs, as it was counted so many minutes after the beginning."""
    numbers = dict.fromkeys(LAYOUTS["counts"].schema.names[5:-1], 0)
    row = {"at": minutes_after(minute), "queue": "images", "kind": "jobs", "incarnation": "a"}
    return {**row, "is_paused": False, **numbers, "day": minutes_after(minute).date(), **changes}


def frame(
    spark: SparkSession, rows: Sequence[dict[str, Any]], table: TableName = "attempts"
) -> DataFrame:
    found: DataFrame = spark.createDataFrame(
        pa.Table.from_pylist(list(rows), LAYOUTS[table].schema)
    )
    return found
