"""The lake as readers see it: Spark, pandas, pyarrow and duckdb find the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pytest

from penstock.errors import LakeNotFound, LakeUnreadable
from penstock.spark.history_lake import Lake, lake
from penstock.spark.lake_files import write_rows
from penstock.spark.reports.report import make_report
from tests.spark.synthetic_history import history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.spark.delta import Table

QUEUES = ("images", "a b/c%:é", "01")


def archive_once(rows: pa.Table, table: Table, version: int) -> None:
    table.append(write_rows(rows, table, "ended_at"), "archive", version)


def test_all_readers_agree_also_beside_files_that_are_no_part_of_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Lake(tmp_path).table("attempts")
    archive_once(history(1000, 1, QUEUES), table, 0)
    archive_once(history(500, 2, QUEUES), table, 1)
    table.compact()
    archive_once(history(200, 3, QUEUES), table, 2)
    write_rows(history(300, 4, QUEUES), table, "ended_at")  # the writer died before its commit

    found = table.existing()
    dataset = found.to_pyarrow_dataset()
    files = found.file_uris()
    by_spark = _sorted(lake(tmp_path, spark=spark).toArrow())
    by_pyarrow = _sorted(dataset.to_table())
    by_pandas = found.to_pandas()
    database = duckdb.connect()
    by_duckdb = database.from_arrow(dataset).to_arrow_table()
    by_files = database.query(
        f"SELECT * FROM read_parquet({files!r}, hive_partitioning = true,"
        " hive_types = {'day': DATE, 'queue': VARCHAR})"
    ).to_arrow_table()

    expected = pa.concat_tables([history(*of, QUEUES) for of in ((1000, 1), (500, 2), (200, 3))])
    assert by_spark.drop_columns("day") == _sorted(expected)
    assert by_pyarrow == by_spark
    assert _sorted(pa.Table.from_pandas(by_pandas, preserve_index=False)) == by_spark
    assert _sorted(by_duckdb) == by_spark
    assert _sorted(by_files) == by_spark


def test_a_queue_can_be_selected_by_any_name(spark: SparkSession, tmp_path: Path) -> None:
    archive_once(history(300, 1, QUEUES), Lake(tmp_path).table("attempts"), 0)

    rows = lake(tmp_path, spark=spark)

    assert [rows.where(rows.queue == name).count() for name in QUEUES] == [100, 100, 100]


def test_a_table_without_rows_is_an_empty_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    Lake(tmp_path).table("counts").open()

    rows = lake(tmp_path, "counts", spark=spark)

    assert rows.isEmpty()
    assert rows.columns[:3] == ["at", "queue", "kind"]


def test_a_folder_without_a_lake_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound, match=r"there is no table at .*attempts"):
        lake(tmp_path / "nothing", spark=spark)


def test_a_file_that_is_missing_is_an_error_that_names_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Lake(tmp_path).table("attempts")
    table.append(write_rows(history(100), table, "ended_at"), "archive", 0)
    file = Path(table.existing().file_uris()[0])
    file.unlink()

    with pytest.raises(LakeUnreadable, match=rf"{file.name}.*`penstock spark verify` names all"):
        lake(tmp_path, spark=spark)


def test_a_report_about_a_broken_file_is_an_error_that_names_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Lake(tmp_path).table("attempts")
    table.append(write_rows(history(100), table, "ended_at"), "archive", 0)
    file = Path(table.existing().file_uris()[0])
    # It ends as Parquet does, so that Spark finds out by what it says itself.
    file.write_bytes(file.read_bytes()[:1000] + b"\xff\xff\x00\x00PAR1")

    with pytest.raises(LakeUnreadable, match=file.name):
        make_report(tmp_path, spark=spark)


def _sorted(rows: pa.Table) -> pa.Table:
    """In one order, with one form of each type."""
    columns = {}
    for name in sorted(rows.column_names):
        column = rows[name].combine_chunks()
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", "UTC"))
        if pa.types.is_large_string(column.type):
            column = column.cast(pa.string())
        columns[name] = column
    return (
        pa.table(columns)
        .sort_by([("ended_at", "ascending"), ("place", "ascending"), ("job", "ascending")])
        .combine_chunks()
    )
