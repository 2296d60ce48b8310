"""What happened: transformations of the table `attempts`, each from one DataFrame to another.

An attempt counts as failed unless it is done or was cancelled: the function failed, took its
process down (crashed), or its worker died (lost) or did not renew its lease (lapsed). Rows with
attempt 0 are jobs that ended without one (expired, cancelled, removed); only `throughput` counts
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from penstock.spark.reports.buckets import bucket

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FAILED_OUTCOMES = ("failed", "crashed", "lost", "lapsed")

_ACCURACY = 10_000
_PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def throughput(attempts: DataFrame, step_s: int) -> DataFrame:
    """How many attempts ended in each step of time, by queue.

    Columns: at, queue, done, failed, others (cancelled, or ended without an attempt).
    """
    others = ~_is("done") & ~_is_failed()
    return (
        attempts.groupBy(bucket("ended_at", step_s).alias("at"), "queue")
        .agg(_count(_is("done"), "done"), _count(_is_failed(), "failed"), _count(others, "others"))
        .orderBy("at", "queue")
    )


def durations(attempts: DataFrame) -> DataFrame:
    """How long attempts waited and ran, by queue and type.

    Columns: queue, type, attempts, then in milliseconds waited_p50_ms, waited_p95_ms,
    waited_p99_ms and ran_p50_ms, ran_p95_ms, ran_p99_ms. Percentiles are exact up to 10,000
    different values, and nearly so beyond.
    """
    of = {"waited": F.col("waited_ms"), "ran": F.col("ran_us") / 1000}
    shares = list(_PERCENTILES.values())
    columns = [
        F.col(name)[place].cast("double").alias(f"{name}_{percentile}_ms")
        for name in of
        for place, percentile in enumerate(_PERCENTILES)
    ]
    return (
        _real(attempts)
        .groupBy("queue", "type")
        .agg(
            F.count("*").alias("attempts"),
            *(F.percentile_approx(value, shares, _ACCURACY).alias(n) for n, value in of.items()),
        )
        .select("queue", "type", "attempts", *columns)
        .orderBy(F.desc("attempts"), "queue", "type")
    )


def failures(attempts: DataFrame) -> DataFrame:
    """Which attempts failed, by queue, type, outcome and type of error.

    Columns: queue, type, outcome, error_type (empty if it is not known), attempts, dead (how many
    of these were the last of their job), share (of all attempts of the queue and type), last_at.
    """
    of_type = Window.partitionBy("queue", "type")
    counted = (
        _real(attempts)
        .withColumn("error_type", F.coalesce("error_type", F.lit("")))
        .groupBy("queue", "type", "outcome", "error_type")
        .agg(
            F.count("*").alias("attempts"),
            _count(F.col("state") == "dead", "dead"),
            F.max("ended_at").alias("last_at"),
        )
        .withColumn("share", F.col("attempts") / F.sum("attempts").over(of_type))
    )
    columns = ("queue", "type", "outcome", "error_type", "attempts", "dead", "share", "last_at")
    order = (F.desc("attempts"), "queue", "type", "outcome", "error_type")
    return counted.where(_is_failed()).select(*columns).orderBy(*order)


def retries(attempts: DataFrame) -> DataFrame:
    """What attempts that failed have cost, by queue and type.

    Columns: queue, type, attempts, failed, wasted_s (time they ran), wasted_cpu_s, wasted_share
    (of the time that all attempts of the queue and type ran), attempts_per_done (NULL if none is
    done).
    """
    wasted = F.when(_is_failed(), F.col("ran_us")).otherwise(0)
    wasted_cpu = F.when(_is_failed(), F.col("cpu_us")).otherwise(0)
    return (
        _real(attempts)
        .groupBy("queue", "type")
        .agg(
            F.count("*").alias("attempts"),
            _count(_is_failed(), "failed"),
            _seconds(F.sum(wasted)).alias("wasted_s"),
            _seconds(F.sum(wasted_cpu)).alias("wasted_cpu_s"),
            F.try_divide(F.sum(wasted), F.sum("ran_us")).alias("wasted_share"),
            F.try_divide(F.count("*"), F.count_if(_is("done"))).alias("attempts_per_done"),
        )
        .orderBy(F.desc("wasted_s"), "queue", "type")
    )


def costs(attempts: DataFrame) -> DataFrame:
    """What the work has cost, by queue, type and tenant.

    Columns: queue, type, tenant, attempts, ran_s, cpu_s, bytes (of data handed to workers),
    cpu_share (of all).
    """
    return (
        _real(attempts)
        .groupBy("queue", "type", "tenant")
        .agg(
            F.count("*").alias("attempts"),
            _seconds(F.sum("ran_us")).alias("ran_s"),
            _seconds(F.sum("cpu_us")).alias("cpu_s"),
            F.sum("bytes").alias("bytes"),
        )
        .withColumn("cpu_share", F.try_divide("cpu_s", F.sum("cpu_s").over(Window.partitionBy())))
        .orderBy(F.desc("cpu_s"), "queue", "type", "tenant")
    )


def workers(attempts: DataFrame) -> DataFrame:
    """Which workers did the work.

    Columns: worker, attempts, failed, busy_s (time its attempts ran), cpu_s, first_at and last_at
    (when its first attempt began and its last one ended), running (how many attempts it ran at the
    same time on average between these).
    """
    began_at = F.timestamp_micros(F.unix_micros("ended_at") - F.coalesce("ran_us", F.lit(0)))
    seen_us = F.unix_micros("last_at") - F.unix_micros("first_at")
    return (
        _real(attempts)
        .where(F.col("worker") != "")
        .groupBy("worker")
        .agg(
            F.count("*").alias("attempts"),
            _count(_is_failed(), "failed"),
            _seconds(F.sum("ran_us")).alias("busy_s"),
            _seconds(F.sum("cpu_us")).alias("cpu_s"),
            F.min(began_at).alias("first_at"),
            F.max("ended_at").alias("last_at"),
        )
        .withColumn("running", F.try_divide(F.col("busy_s") * 1_000_000, seen_us))
        .orderBy(F.desc("busy_s"), "worker")
    )


def _real(attempts: DataFrame) -> DataFrame:
    return attempts.where(F.col("attempt") > 0)


def _is(outcome: str) -> Column:
    return F.col("outcome") == outcome


def _is_failed() -> Column:
    return F.col("outcome").isin(*FAILED_OUTCOMES)


def _count(condition: Column, name: str) -> Column:
    return F.count_if(condition).alias(name)


def _seconds(microseconds: Column) -> Column:
    return microseconds / 1_000_000
