"""A whole report of a lake."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.errors import LakeNotFound
from penstock.spark.history_lake import Lake
from penstock.spark.lake_files import write_rows
from penstock.spark.reports.page import render
from penstock.spark.reports.report import TABLES, Report, make_report
from tests.spark.synthetic_history import BEGIN, counts, history

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from penstock.spark.history_lake import TableName


@pytest.fixture
def place(tmp_path: Path) -> Path:
    put(tmp_path, "attempts", history(3000), "ended_at")
    return tmp_path


def put(place: Path, name: TableName, rows: pa.Table, time: str) -> None:
    table = Lake(place).table(name)
    table.append(write_rows(rows, table, time), "test", 0)


def test_a_lake_answers_all_questions(spark: SparkSession, place: Path) -> None:
    asked: list[str] = []

    report = make_report(place, spark=spark, progress=asked.append)

    assert tuple(asked) == tuple(report.tables) == TABLES
    throughput = report.tables["throughput"].to_pydict()
    assert sum(throughput["done"]) + sum(throughput["failed"]) == 3000
    assert (report.since.date(), report.step_s) == (BEGIN.date(), 900)
    assert {row["queue"] for row in report.tables["outlook"].to_pylist()} == {"images", "mail"}
    assert "3,000 attempts ended in" in render(report)


PART = (BEGIN + timedelta(hours=6), BEGIN + timedelta(hours=7, minutes=57))


@pytest.fixture(scope="module")
def part(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A report of one queue and two hours of a day."""
    folder = tmp_path_factory.mktemp("part")
    put(folder, "attempts", history(3000), "ended_at")
    return make_report(folder, ["mail"], *PART, spark=spark)


def test_a_report_can_be_of_some_queues_and_some_time(part: Report) -> None:
    rows = part.tables["throughput"].to_pylist()

    assert {row["queue"] for row in rows} == {"mail"}
    assert all(PART[0] <= row["at"] < PART[1] for row in rows)
    assert (part.since, part.until, part.step_s) == (*PART, 300)


def test_a_step_that_is_not_over_is_left_out_of_the_flow(part: Report) -> None:
    last = {name: max(part.tables[name]["at"].to_pylist()) for name in ("throughput", "flow")}

    assert last == {
        "throughput": BEGIN + timedelta(hours=7, minutes=55),
        "flow": BEGIN + timedelta(hours=7, minutes=50),
    }


def test_a_minute_of_work_that_was_counted_once_is_told_in_seconds(
    spark: SparkSession, tmp_path: Path
) -> None:
    done = history(300, queues=["orders"], hours=1 / 60)
    put(tmp_path, "attempts", done, "ended_at")
    put(tmp_path, "counts", counts(done, timedelta(minutes=2)), "at")

    report = make_report(tmp_path, spark=spark)

    (found,) = report.tables["outlook"].to_pylist()
    assert (report.step_s, found["verdict"], found["is_known"]) == (2, "done", True)
    assert found["arrived_per_s"] > 1
    assert max(report.tables["flow"]["unfinished"].to_pylist()) > 1
    page = render(report)
    assert "<h1>All work is done</h1>" in page
    assert "Nothing is unfinished at the end; the most was" in page


def test_one_attempt_is_a_report(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "attempts", history(1), "ended_at")

    page = render(make_report(tmp_path, spark=spark))

    assert "1 attempt ended in" in page
    assert "too little is known" in page.lower()


def test_nothing_to_report_is_an_error(spark: SparkSession, place: Path) -> None:
    with pytest.raises(LakeNotFound, match="has nothing of the queues and times"):
        make_report(place, ["letters"], spark=spark)
