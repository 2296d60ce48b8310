"""Are we behind, when will we be done, and how much must run at the same time?

The model: a queue goes on as in its last six steps. The unfinished work changes by the mean change
of these steps; the load is the arrival rate times the time that a job takes with all its attempts
(Little's law), which is how many jobs run at the same time if none is to wait for long; with a
target of 80 % of the time busy, so much is needed more.

How good it is: the same rule, applied at every step of the past to predict the next one, and
compared with what happened. The error of "nothing changes" stands beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STEPS = 6
"""How many steps the model looks back."""

TARGET = 0.8
"""Which share of the time what runs jobs should be busy: more leaves no room for peaks."""

CLEAR_S = 3600
"""How soon the backlog should be gone, for `needed_to_clear`."""


def backtest(flowed: DataFrame) -> DataFrame:
    """What the model says about each step of the past, beside what happened.

    Columns: at, queue, change (of what is unfinished), predicted, error and error_of_no_change
    (both without sign). `predicted` needs at least two steps before.
    """
    by_time = Window.partitionBy("queue").orderBy("at")
    before = by_time.rowsBetween(-STEPS, -1)
    change = F.col("unfinished") - F.lag("unfinished").over(by_time)
    return (
        flowed.withColumn("change", change)
        .withColumn(
            "predicted", F.when(F.count("change").over(before) >= 2, F.avg("change").over(before))
        )
        .where("predicted IS NOT NULL")
        .select(
            "at",
            "queue",
            "change",
            "predicted",
            F.abs(F.col("change") - F.col("predicted")).alias("error"),
            F.abs("change").alias("error_of_no_change"),
        )
        .orderBy("at", "queue")
    )


def outlook(flowed: DataFrame, step_s: int) -> DataFrame:
    """What the model says about the future, one row for each queue.

    Columns: queue, at (the end of the last step), unfinished, is_counted (else `unfinished` only
    has jobs that have ended since), arrived_per_s, ended_per_s, service_s (time that a job takes
    with all its attempts; NULL for plain tasks), running (how many ran at the same time), load,
    needed (to keep up, at the target), needed_to_clear (to be done within an hour besides),
    verdict, done_at (NULL if it never will), error and error_of_no_change (mean, per step), tested
    (steps).

    The verdict is 'behind' or 'catching up' if the mean change of the last steps is larger than
    the error of the model, else 'keeping up'.
    """
    newest = Window.partitionBy("queue").orderBy(F.desc("at"))
    recent = flowed.withColumn("age", F.row_number().over(newest)).where(F.col("age") <= STEPS + 1)
    seconds = F.count_if(F.col("age") <= STEPS) * step_s
    tested = (
        backtest(flowed)
        .groupBy("queue")
        .agg(
            F.avg("error").alias("error"),
            F.avg("error_of_no_change").alias("error_of_no_change"),
            F.count("*").alias("tested"),
        )
    )
    oldest = F.max_by("unfinished", "age")
    newest_value = F.min_by("unfinished", "age")
    rates = recent.groupBy("queue").agg(
        _seconds_after(F.max("at"), F.lit(step_s)).alias("at"),
        newest_value.alias("unfinished"),
        F.min_by("is_counted", "age").alias("is_counted"),
        (_total("arrived") / seconds).alias("arrived_per_s"),
        (_total("ended") / seconds).alias("ended_per_s"),
        F.try_divide(_total("busy_s"), F.when(_total("attempts") > 0, _total("ended"))).alias(
            "service_s"
        ),
        (_total("busy_s") / seconds).alias("running"),
        F.try_divide(newest_value - oldest, F.count("*") - 1).alias("change"),
    )
    load = F.col("arrived_per_s") * F.col("service_s")
    to_clear = (F.col("arrived_per_s") + F.col("unfinished") / CLEAR_S) * F.col("service_s")
    return (
        rates.join(tested, "queue", "left")
        .withColumn("load", load)
        .withColumn("needed", F.ceil(load / TARGET))
        .withColumn("needed_to_clear", F.ceil(to_clear / TARGET))
        .withColumn("verdict", _verdict())
        .withColumn("done_at", _done_at(step_s))
        .select(
            *("queue", "at", "unfinished", "is_counted", "arrived_per_s", "ended_per_s"),
            *("service_s", "running", "load", "needed", "needed_to_clear", "verdict", "done_at"),
            *("error", "error_of_no_change"),
            F.coalesce("tested", F.lit(0)).alias("tested"),
        )
        .orderBy(F.desc("unfinished"), "queue")
    )


def _total(name: str) -> Column:
    """Of the last steps; the one before them only tells from where they began."""
    return F.sum(F.when(F.col("age") <= STEPS, F.col(name)))


def _verdict() -> Column:
    noise = F.coalesce("error", F.lit(0.0))
    return (
        F.when(F.col("change") > noise, "behind")
        .when(F.col("change") < -noise, "catching up")
        .otherwise("keeping up")
    )


def _done_at(step_s: int) -> Column:
    steps = F.col("unfinished") / -F.col("change")
    is_ending = (F.col("verdict") == "catching up") & (F.col("unfinished") > 0)
    return F.when(is_ending, _seconds_after(F.col("at"), F.ceil(steps * step_s)))


def _seconds_after(at: Column, seconds: Column) -> Column:
    return F.timestamp_seconds(F.unix_seconds(at) + seconds)
