"""Are we behind, when will we be done, and how much must run at the same time?

The model: a queue goes on as in its last six steps. The unfinished work changes by the mean change
of these steps; the load is the arrival rate times the time that a job takes with all its attempts
(Little's law), which is how many jobs run at the same time if none is to wait for long; with a
target of 80 % of the time busy, so much is needed more.

How good it is: the same rule, applied at every step of the past to predict the next one, and
compared with what happened. The error of "nothing changes" stands beside it. Where the past is too
short for this, or not known, the model says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STEPS = 6
"""How many steps the model looks back; it must have been tested on each of them."""

TARGET = 0.8
"""Which share of the time what runs jobs should be busy: more leaves no room for peaks."""

CLEAR_S = 3600
"""How soon the backlog should be gone, for `needed_to_clear`."""


def backtest(flowed: DataFrame) -> DataFrame:
    """What the model says about each step of the past, beside what happened.

    Columns: at, queue, change (of what is unfinished), predicted, error and error_of_no_change
    (both without sign). `predicted` needs at least two steps before. There is no row for a step of
    which the change is not known.
    """
    return (
        _predicted(flowed)
        .where("change IS NOT NULL AND predicted IS NOT NULL")
        .select("at", "queue", "change", "predicted", _error(), _error_of_no_change())
        .orderBy("at", "queue")
    )


def outlook(flowed: DataFrame, step_s: int) -> DataFrame:
    """What the model says about the future, one row for each queue.

    Columns: queue, at (the end of the last step that is known), unfinished, is_known (else
    `unfinished` lacks jobs that were never tried), rates_since and rates_until (of what the rates
    are: the last steps, or all from the first move to the last of a queue that is done),
    arrived_per_s, ended_per_s, service_s
    (time that a job takes with all its attempts; NULL for plain tasks), running (how many ran at
    the same time), load, needed (to keep up, at the target), needed_to_clear (to be done within an
    hour besides), verdict, done_at (NULL if it never will), done_from and done_until (if the model
    errs as it did), error and error_of_no_change (mean, per step), tested (steps).

    The verdict is 'behind' or 'catching up' if the mean change of the last steps is larger than
    the error of the model, else 'keeping up'. It is 'not counted' or 'too short' if the model
    cannot say, and 'done' if nothing is unfinished, and nothing came in the last steps or the model
    could not say more.
    """
    found = _recent(_predicted(flowed)).groupBy("queue").agg(*_rates(step_s))
    load = F.col("arrived_per_s") * F.col("service_s")
    to_clear = (F.col("arrived_per_s") + F.col("unfinished") / CLEAR_S) * F.col("service_s")
    return (
        found.withColumn("load", load)
        .withColumn("needed", F.ceil(load / TARGET))
        .withColumn("needed_to_clear", F.ceil(to_clear / TARGET))
        .withColumn("verdict", _verdict())
        .withColumns(
            {
                "done_at": _done_at(step_s, F.lit(0.0)),
                "done_from": _done_at(step_s, -F.col("error")),
                "done_until": _done_at(step_s, F.col("error")),
            }
        )
        .select(
            *("queue", "at", "unfinished", "is_known", "rates_since", "rates_until"),
            *("arrived_per_s", "ended_per_s", "service_s", "running", "load", "needed"),
            *("needed_to_clear", "verdict", "done_at", "done_from", "done_until"),
            *("error", "error_of_no_change", "tested"),
        )
        .orderBy(F.desc("unfinished"), "queue")
    )


def _predicted(flowed: DataFrame) -> DataFrame:
    """The flow with `change` and `predicted`; each NULL where it is not known."""
    by_time = Window.partitionBy("queue").orderBy("at")
    before = by_time.rowsBetween(-STEPS, -1)
    # Where jobs come into sight that were never tried, the difference is no change.
    is_same = F.col("is_known") == F.lag("is_known").over(by_time)
    change = F.when(is_same, F.col("unfinished") - F.lag("unfinished").over(by_time))
    mean = F.when(F.count("change").over(before) >= 2, F.avg("change").over(before))
    return flowed.withColumn("change", change).withColumn("predicted", mean)


def _recent(predicted: DataFrame) -> DataFrame:
    """Up to the last known step of each queue, with `age` (1 is the last one), `is_active` (whether
    there is work, or came some in the last steps) and `is_rated` (whether the rates are of this
    step).
    """
    of_queue = Window.partitionBy("queue")
    by_age = of_queue.orderBy(F.desc("at"))
    last_steps = by_age.rowsBetween(0, STEPS - 1)
    moved_at = F.when(F.col("arrived") + F.col("ended") > 0, F.col("at"))
    last_known_at = F.max(F.when(F.col("is_known"), F.col("at"))).over(of_queue)
    return (
        predicted.withColumn("last_known_at", last_known_at)
        .where("last_known_at IS NULL OR at <= last_known_at")
        .withColumns(
            {
                "age": F.row_number().over(by_age),
                "first_moved_at": F.min(moved_at).over(of_queue),
                "last_moved_at": F.max(moved_at).over(of_queue),
                "is_active": (F.first("unfinished").over(last_steps) > 0)
                | (F.sum("arrived").over(last_steps) > 0),
            }
        )
        .withColumn("is_active", F.coalesce(F.first("is_active").over(by_age), F.lit(True)))
        .withColumn(
            "is_rated",
            F.when(F.col("is_active"), F.col("age") <= STEPS).otherwise(
                F.col("at").between(F.col("first_moved_at"), F.col("last_moved_at"))
            ),
        )
    )


def _rates(step_s: int) -> list[Column]:
    is_tested = F.col("change").isNotNull() & F.col("predicted").isNotNull()
    attempts = _total("attempts")
    return [
        _seconds_after(F.max("at"), F.lit(step_s)).alias("at"),
        F.min_by("unfinished", "age").alias("unfinished"),
        F.min_by("is_known", "age").alias("is_known"),
        F.bool_or("is_active").alias("is_active"),
        F.min(_rated("at")).alias("rates_since"),
        _seconds_after(F.max(_rated("at")), F.lit(step_s)).alias("rates_until"),
        _rate("arrived", step_s).alias("arrived_per_s"),
        _rate("ended", step_s).alias("ended_per_s"),
        F.try_divide(_total("busy_s"), F.when(attempts > 0, _total("ended"))).alias("service_s"),
        _rate("busy_s", step_s).alias("running"),
        F.avg(F.when(F.col("age") <= STEPS, F.col("change"))).alias("change"),
        F.avg(F.when(is_tested, _error())).alias("error"),
        F.avg(F.when(is_tested, _error_of_no_change())).alias("error_of_no_change"),
        F.count_if(is_tested).alias("tested"),
        # A trend is one of known steps that follow each other up to the end.
        F.count_if((F.col("age") <= STEPS) & F.col("is_known") & is_tested).alias("trusted"),
    ]


def _rated(name: str) -> Column:
    return F.when(F.col("is_rated"), F.col(name))


def _total(name: str) -> Column:
    return F.sum(_rated(name))


def _rate(name: str, step_s: int) -> Column:
    """By the steps in which it is known; 0 if there is none."""
    return F.coalesce(F.try_divide(_total(name), F.count(_rated(name)) * step_s), F.lit(0.0))


def _error() -> Column:
    return F.abs(F.col("change") - F.col("predicted")).alias("error")


def _error_of_no_change() -> Column:
    return F.abs("change").alias("error_of_no_change")


def _verdict() -> Column:
    is_short = F.col("trusted") < STEPS
    return (
        F.when(~F.col("is_known"), "not counted")
        .when((F.col("unfinished") == 0) & (is_short | ~F.col("is_active")), "done")
        .when(is_short, "too short")
        .when(F.col("change") > F.col("error"), "behind")
        .when(F.col("change") < -F.col("error"), "catching up")
        .otherwise("keeping up")
    )


def _done_at(step_s: int, error: Column) -> Column:
    steps = F.col("unfinished") / -(F.col("change") + error)
    is_ending = (F.col("verdict") == "catching up") & (F.col("unfinished") > 0)
    return F.when(is_ending, _seconds_after(F.col("at"), F.ceil(steps * step_s)))


def _seconds_after(at: Column, seconds: Column) -> Column:
    return F.timestamp_seconds(F.unix_seconds(at) + seconds)
