"""What the reports say about attempts, on few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.testing import assertDataFrameEqual

from penstock.spark.reports import attempts as reports
from penstock.spark.reports.buckets import step_for
from tests.spark.report_rows import attempt, failed, frame
from tests.spark.synthetic_history import minutes_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_throughput_counts_what_ended_in_each_step(spark: SparkSession) -> None:
    rows = [
        attempt(0.1),
        attempt(4.9),
        failed(4.9),
        attempt(1, outcome="lost", state="ready"),
        attempt(5),
        attempt(6, attempt=0, outcome="expired", state="dead"),
        attempt(6, queue="mail", outcome="cancelled", state="cancelled"),
    ]

    found = reports.throughput(frame(spark, rows), 300)

    assertDataFrameEqual(
        found,
        spark.createDataFrame(
            [
                (minutes_after(0), "images", 2, 2, 0),
                (minutes_after(5), "images", 1, 0, 1),
                (minutes_after(5), "mail", 0, 0, 1),
            ],
            "at timestamp, queue string, done long, failed long, others long",
        ),
    )


def test_durations_are_percentiles_of_each_type(spark: SparkSession) -> None:
    rows = [attempt(number, waited_ms=number, ran_us=number * 1000) for number in range(1, 101)] + [
        attempt(1, type="email", waited_ms=7, ran_us=500),
        attempt(2, attempt=0, waited_ms=10**9),
    ]

    found = reports.durations(frame(spark, rows))

    assertDataFrameEqual(
        found,
        spark.createDataFrame(
            [
                ("images", "resize", 100, 50.0, 95.0, 99.0, 50.0, 95.0, 99.0),
                ("images", "email", 1, 7.0, 7.0, 7.0, 0.5, 0.5, 0.5),
            ],
            "queue string, type string, attempts long, waited_p50_ms double, waited_p95_ms double,"
            "waited_p99_ms double, ran_p50_ms double, ran_p95_ms double, ran_p99_ms double",
        ),
    )


def test_failures_are_counted_by_type_and_error(spark: SparkSession) -> None:
    rows = [
        *(attempt(minute) for minute in range(6)),
        failed(6),
        failed(7, state="dead"),
        failed(8, outcome="lost", state="ready", error_type=None),
        attempt(9, outcome="cancelled", state="cancelled"),
    ]

    found = reports.failures(frame(spark, rows))

    assertDataFrameEqual(
        found,
        spark.createDataFrame(
            [
                ("images", "resize", "failed", "ValueError", 2, 1, 0.2, minutes_after(7)),
                ("images", "resize", "lost", "", 1, 0, 0.1, minutes_after(8)),
            ],
            "queue string, type string, outcome string, error_type string, attempts long,"
            "dead long, share double, last_at timestamp",
        ),
    )


def test_retries_cost_what_failed_attempts_ran(spark: SparkSession) -> None:
    rows = [
        attempt(1, ran_us=6_000_000),
        failed(2, ran_us=1_500_000, cpu_us=250_000),
        failed(3, ran_us=500_000, cpu_us=250_000),
        failed(4, type="email", ran_us=0, cpu_us=0),
    ]

    found = reports.retries(frame(spark, rows))

    assertDataFrameEqual(
        found,
        spark.createDataFrame(
            [
                ("images", "resize", 3, 2, 2.0, 0.5, 0.25, 3.0),
                ("images", "email", 1, 1, 0.0, 0.0, None, None),
            ],
            "queue string, type string, attempts long, failed long, wasted_s double,"
            "wasted_cpu_s double, wasted_share double, attempts_per_done double",
        ),
    )


def test_costs_are_summed_by_type_and_tenant(spark: SparkSession) -> None:
    rows = [
        attempt(1, cpu_us=1_000_000),
        attempt(2, cpu_us=2_000_000),
        attempt(3, tenant="globex", cpu_us=1_000_000, bytes=5),
    ]

    found = reports.costs(frame(spark, rows))

    assertDataFrameEqual(
        found,
        spark.createDataFrame(
            [
                ("images", "resize", "acme", 2, 2.0, 3.0, 20, 0.75),
                ("images", "resize", "globex", 1, 1.0, 1.0, 5, 0.25),
            ],
            "queue string, type string, tenant string, attempts long, ran_s double, cpu_s double,"
            "bytes long, cpu_share double",
        ),
    )


def test_workers_are_ordered_by_how_busy_they_were(spark: SparkSession) -> None:
    rows = [
        attempt(1, worker="w-1", ran_us=60_000_000),
        attempt(2, worker="w-1", ran_us=60_000_000),
        failed(2, worker="w-2", ran_us=30_000_000),
        attempt(3, worker="", outcome="lost", ran_us=0),
    ]

    found = reports.workers(frame(spark, rows))

    assertDataFrameEqual(
        found,
        spark.createDataFrame(
            [
                ("w-1", 2, 0, 120.0, 1.0, minutes_after(0), minutes_after(2), 1.0),
                ("w-2", 1, 1, 30.0, 0.5, minutes_after(1.5), minutes_after(2), 1.0),
            ],
            "worker string, attempts long, failed long, busy_s double, cpu_s double,"
            "first_at timestamp, last_at timestamp, running double",
        ),
    )


def test_a_chart_has_about_a_hundred_steps_at_most() -> None:
    hour, day = 3600, 86_400

    assert [step_for(seconds) for seconds in (0, 60, hour, day, 7 * day, 30 * day)] == [
        *(1, 1, 60, 900, 3 * hour, 12 * hour)
    ]
    assert step_for(3650 * day) == 7 * day
