"""What the reports say about load and backlog, on few rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pyspark.testing import assertDataFrameEqual

from penstock.spark.reports import load
from penstock.spark.reports.outlook import backtest, outlook
from tests.spark.report_rows import attempt, count, failed, frame
from tests.spark.synthetic_history import minutes_after

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

FLOW = (
    "at timestamp, queue string, arrived double, ended double, attempts long, busy_s double,"
    "unfinished double, is_known boolean"
)


def flow_of(
    spark: SparkSession, attempts: Sequence[dict[str, Any]], counts: Sequence[dict[str, Any]] = ()
) -> DataFrame:
    return load.flow(frame(spark, attempts), frame(spark, counts, "counts"), 60)


def test_backlog_is_what_was_last_counted_in_each_step(spark: SparkSession) -> None:
    rows = [
        count(0, ready=9),
        count(4, ready=5, scheduled=2, blocked=1, running=3, dead=1),
        count(5, ready=1),
        count(5, queue="letters", kind="tasks", ready=7, scheduled=None, blocked=None),
    ]

    found = load.backlog(frame(spark, rows, "counts"), 300)

    assertDataFrameEqual(
        found,
        spark.createDataFrame(
            [
                (minutes_after(0), "images", 8, 3, 1),
                (minutes_after(5), "images", 1, 0, 0),
                (minutes_after(5), "letters", 7, 0, 0),
            ],
            "at timestamp, queue string, waiting long, running long, dead long",
        ),
    )


def test_without_counts_the_flow_follows_from_the_attempts(spark: SparkSession) -> None:
    rows = [
        failed(1, job="a", created_at=minutes_after(0)),
        attempt(3, job="a", attempt=2, created_at=minutes_after(0), ran_us=2_000_000),
        attempt(1, job="b", created_at=minutes_after(1)),
    ]

    assertDataFrameEqual(
        flow_of(spark, rows),
        spark.createDataFrame(
            [
                (minutes_after(0), "images", 1.0, 0.0, 0, 0.0, 1.0, False),
                (minutes_after(1), "images", 1.0, 1.0, 2, 2.0, 1.0, False),
                (minutes_after(2), "images", 0.0, 0.0, 0, 0.0, 1.0, False),
                (minutes_after(3), "images", 0.0, 1.0, 1, 2.0, 0.0, False),
            ],
            FLOW,
        ),
    )


def test_what_was_counted_goes_before_what_follows_from_attempts(spark: SparkSession) -> None:
    attempts = [attempt(1, created_at=minutes_after(0)), attempt(2, created_at=minutes_after(0))]
    counts = [count(0, enqueued=100, ready=50), count(2, enqueued=120, ready=60, running=4)]

    assertDataFrameEqual(
        flow_of(spark, attempts, counts),
        spark.createDataFrame(
            [
                (minutes_after(0), "images", 2.0, 0.0, 0, 0.0, 50.0, True),
                (minutes_after(1), "images", 10.0, 1.0, 1, 1.0, 57.0, True),
                (minutes_after(2), "images", 10.0, 1.0, 1, 1.0, 64.0, True),
            ],
            FLOW,
        ),
    )


def test_one_count_that_has_all_jobs_makes_the_flow_before_it_known(spark: SparkSession) -> None:
    attempts = [attempt(1, created_at=minutes_after(0)), attempt(2, created_at=minutes_after(0))]

    found = flow_of(spark, attempts, [count(3, enqueued=2)])

    assertDataFrameEqual(
        found,
        spark.createDataFrame(
            [
                (minutes_after(0), "images", 2.0, 0.0, 0, 0.0, 2.0, True),
                (minutes_after(1), "images", 0.0, 1.0, 1, 1.0, 1.0, True),
                (minutes_after(2), "images", 0.0, 1.0, 1, 1.0, 0.0, True),
                (minutes_after(3), "images", 0.0, 0.0, 0, 0.0, 0.0, True),
            ],
            FLOW,
        ),
    )


def test_jobs_that_ended_before_the_lake_began_leave_its_first_steps_unknown(
    spark: SparkSession,
) -> None:
    attempts = [attempt(1, created_at=minutes_after(0)), attempt(2, created_at=minutes_after(0))]

    found = flow_of(spark, attempts, [count(3, enqueued=50)])

    assert [row.is_known for row in found.collect()] == [False, True, True, True]


def test_jobs_that_were_never_tried_are_known_only_where_they_were_counted(
    spark: SparkSession,
) -> None:
    attempts = [attempt(1, created_at=minutes_after(0)), attempt(3, created_at=minutes_after(0))]

    found = flow_of(spark, attempts, [count(2, enqueued=9, ready=8)])

    assert [(row.unfinished, row.is_known) for row in found.collect()] == [
        *((2.0, False), (1.0, False), (8.0, True), (0.0, False))
    ]


def test_a_count_of_a_minute_is_placed_at_its_end_among_seconds(spark: SparkSession) -> None:
    counts = frame(spark, [count(0), count(1), count(2.5)], "counts")
    last = minutes_after(1.5)

    def times(step_s: int) -> list[float]:
        rows = load.placed(counts, last, step_s).collect()
        return [(row.at.timestamp() - minutes_after(0).timestamp()) / 60 for row in rows]

    assert times(6) == [0.9, 1.5, 2.5]
    assert times(60) == [0.0, 1.0, 2.5]


def test_plain_queues_have_a_flow_from_their_counts(spark: SparkSession) -> None:
    plain = {"queue": "letters", "kind": "tasks", "scheduled": None, "blocked": None}
    counts = [count(0, ready=5, enqueued=5, **plain), count(1, ready=3, enqueued=9, **plain)]

    assertDataFrameEqual(
        flow_of(spark, [], counts),
        spark.createDataFrame(
            [
                (minutes_after(0), "letters", None, None, 0, 0.0, 5.0, True),
                (minutes_after(1), "letters", 4.0, 6.0, 0, 0.0, 3.0, True),
            ],
            FLOW,
        ),
    )


def test_counts_of_a_queue_that_was_made_anew_are_not_subtracted(spark: SparkSession) -> None:
    counts = [
        *(count(0, enqueued=100), count(1, enqueued=150)),
        *(count(2, enqueued=3, incarnation="b"), count(3, enqueued=5, incarnation="b")),
    ]

    found = flow_of(spark, [], counts)

    assert [row.arrived for row in found.collect()] == [0.0, 50.0, 0.0, 2.0]


def steady(unfinished: Sequence[float], **changes: float) -> list[tuple[Any, ...]]:
    """A flow of one queue: 60 jobs arrive each minute, and each takes two seconds."""
    usual = {"arrived": 60.0, "ended": 60.0, "attempts": 60, "busy_s": 120.0, **changes}
    return [
        (minutes_after(minute), "images", *usual.values(), value, True)
        for minute, value in enumerate(unfinished)
    ]


def test_each_step_of_the_past_is_predicted_from_those_before(spark: SparkSession) -> None:
    flowed = spark.createDataFrame(steady([0.0, 10.0, 20.0, 30.0, 36.0]), FLOW)

    assertDataFrameEqual(
        backtest(flowed),
        spark.createDataFrame(
            [
                (minutes_after(3), "images", 10.0, 10.0, 0.0, 10.0),
                (minutes_after(4), "images", 6.0, 10.0, 4.0, 6.0),
            ],
            "at timestamp, queue string, change double, predicted double, error double,"
            "error_of_no_change double",
        ),
    )


def test_jobs_that_come_into_sight_with_a_count_are_no_change(spark: SparkSession) -> None:
    rows = steady([0.0, 10.0, 20.0, 30.0, 500.0, 510.0])
    rows = [*((*row[:-1], False) for row in rows[:4]), *rows[4:]]

    found = backtest(spark.createDataFrame(rows, FLOW)).collect()

    assert [(row.change, row.predicted) for row in found] == [(10.0, 10.0), (10.0, 10.0)]


def test_a_queue_that_grows_is_behind_and_needs_more(spark: SparkSession) -> None:
    rows = steady([100.0 * minute for minute in range(10)], arrived=160.0)

    (found,) = outlook(spark.createDataFrame(rows, FLOW), 60).collect()

    assert found.verdict == "behind"
    assert found.done_at is None
    assert (found.unfinished, found.is_known) == (900.0, True)
    assert (round(found.arrived_per_s, 3), found.ended_per_s) == (2.667, 1.0)
    assert (found.service_s, found.running) == (2.0, 2.0)
    assert (round(found.load, 3), found.needed) == (5.333, 7)
    assert found.needed_to_clear == 8
    assert (found.error, found.error_of_no_change, found.tested) == (0.0, 100.0, 7)


def test_a_queue_that_shrinks_says_when_it_will_be_done(spark: SparkSession) -> None:
    rows = steady([float(value) for value in range(190, 90, -10)])

    (found,) = outlook(spark.createDataFrame(rows, FLOW), 60).collect()

    assert found.verdict == "catching up"
    assert found.at.timestamp() == minutes_after(10).timestamp()
    assert found.done_at.timestamp() == minutes_after(20).timestamp()


def test_the_end_is_as_unsure_as_the_model_was_wrong(spark: SparkSession) -> None:
    falling = [500.0 - 40 * minute + 10 * (minute % 2) for minute in range(10)]

    (found,) = outlook(spark.createDataFrame(steady(falling), FLOW), 60).collect()

    assert found.verdict == "catching up"
    assert found.error > 5
    assert found.done_from < found.done_at < found.done_until
    change = (falling[-1] - falling[-7]) / 6
    late_s = falling[-1] / -(change + found.error) * 60
    assert found.done_until.timestamp() == minutes_after(10).timestamp() + math.ceil(late_s)


def test_a_queue_that_is_done_has_the_rates_of_its_work(spark: SparkSession) -> None:
    rows = steady([30.0, 0.0], arrived=90.0)
    idle = [(minutes_after(2 + n), "images", 0.0, 0.0, 0, 0.0, 0.0, True) for n in range(20)]

    (found,) = outlook(spark.createDataFrame(rows + idle, FLOW), 60).collect()

    assert (found.verdict, found.is_known) == ("done", True)
    assert (found.arrived_per_s, found.needed) == (1.5, 4)
    assert found.rates_since.timestamp() == minutes_after(0).timestamp()
    assert found.rates_until.timestamp() == minutes_after(2).timestamp()


def test_few_known_steps_are_too_short_a_past(spark: SparkSession) -> None:
    growing = [10.0 * minute for minute in range(8)]
    unknown = [(*row[:-1], False) for row in steady(growing)]

    def verdict(rows: list[tuple[Any, ...]]) -> str:
        (found,) = outlook(spark.createDataFrame(rows, FLOW), 60).collect()
        return str(found.verdict)

    assert verdict(steady(growing)) == "too short"
    assert verdict([*unknown, *steady([0.0] * 8 + [90.0])[8:]]) == "too short"
    assert verdict(unknown) == "not counted"


def test_the_outlook_is_as_of_the_last_step_that_is_known(spark: SparkSession) -> None:
    rows = steady([100.0 * minute for minute in range(12)])
    rows = [*rows[:10], *((*row[:6], 3.0, False) for row in rows[10:])]

    (found,) = outlook(spark.createDataFrame(rows, FLOW), 60).collect()

    assert (found.verdict, found.unfinished) == ("behind", 900.0)
    assert found.at.timestamp() == minutes_after(10).timestamp()


def test_changes_within_the_error_of_the_model_are_no_trend(spark: SparkSession) -> None:
    rows = steady([50.0, 70.0, 40.0, 65.0, 45.0, 70.0, 50.0, 60.0, 48.0, 55.0])

    (found,) = outlook(spark.createDataFrame(rows, FLOW), 60).collect()

    assert found.verdict == "keeping up"
    assert found.error > 1
    assert found.done_at is None


def test_plain_tasks_have_an_outlook_without_a_service_time(spark: SparkSession) -> None:
    rows = steady([float(value) for value in range(10)], attempts=0, busy_s=0.0)

    (found,) = outlook(spark.createDataFrame(rows, FLOW), 60).collect()

    assert found.verdict == "behind"
    assert (found.service_s, found.load, found.needed) == (None, None, None)
