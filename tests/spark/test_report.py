"""A whole report of a lake."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.errors import LakeNotFound
from penstock.spark.history_lake import Lake
from penstock.spark.lake_files import write_rows
from penstock.spark.reports.page import render
from penstock.spark.reports.report import TABLES, make_report
from tests.spark.synthetic_history import BEGIN, history

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def place(tmp_path: Path) -> Path:
    table = Lake(tmp_path).table("attempts")
    table.append(write_rows(history(3000), table, "ended_at"), "archive", 0)
    return tmp_path


def test_a_lake_answers_all_questions(spark: SparkSession, place: Path) -> None:
    asked: list[str] = []

    report = make_report(place, spark=spark, progress=asked.append)

    assert tuple(asked) == tuple(report.tables) == TABLES
    throughput = report.tables["throughput"].to_pydict()
    assert sum(throughput["done"]) + sum(throughput["failed"]) == 3000
    assert (report.since.date(), report.step_s) == (BEGIN.date(), 900)
    assert {row["queue"] for row in report.tables["outlook"].to_pylist()} == {"images", "mail"}
    assert "3,000 attempts ended in" in render(report)


def test_a_report_can_be_of_some_queues_and_some_time(spark: SparkSession, place: Path) -> None:
    since, until = BEGIN + timedelta(hours=6), BEGIN + timedelta(hours=8)

    report = make_report(place, ["mail"], since, until, spark=spark)

    rows = report.tables["throughput"].to_pylist()
    assert {row["queue"] for row in rows} == {"mail"}
    assert all(since <= row["at"] < until for row in rows)
    assert (report.since, report.until, report.step_s) == (since, until, 300)


def test_nothing_to_report_is_an_error(spark: SparkSession, place: Path) -> None:
    with pytest.raises(LakeNotFound, match="has nothing of the queues and times"):
        make_report(place, ["letters"], spark=spark)
