"""How much comes in, how much ends and how much is there: from `attempts`, which has jobs that have
ended, and from `counts`, which has everything at the instants at which it was counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from penstock.spark.reports.buckets import bucket

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FINAL_STATES = ("done", "dead", "cancelled", "removed")


def backlog(counts: DataFrame, step_s: int) -> DataFrame:
    """How much was in each queue at the end of each step in which it was counted.

    Columns: at, queue, waiting (ready, scheduled and blocked), running, dead.
    """
    columns = (_waiting().alias("waiting"), "running", "dead")
    return (
        counts.select("at", "queue", *columns)
        .groupBy("queue", bucket("at", step_s).alias("step"))
        .agg(*(F.max_by(name, "at").alias(name) for name in ("waiting", "running", "dead")))
        .select(F.col("step").alias("at"), "queue", "waiting", "running", "dead")
        .orderBy("at", "queue")
    )


def flow(attempts: DataFrame, counts: DataFrame, step_s: int) -> DataFrame:
    """What came into each queue and what left it in each step, without steps left out.

    Columns: at, queue, arrived and ended (jobs, or plain tasks), attempts and busy_s (how many
    attempts at jobs ended, and how long these ran), unfinished (what waits or runs at the end of
    the step), is_counted.

    What was counted goes before what follows from the attempts: a job that has not ended is not
    among these, so without counts the last steps show fewer than there are.
    """
    of_jobs, counted = _flow_of_jobs(attempts, step_s), _counted_flow(counts, step_s)
    keys = ["queue", "at"]
    steps = _all_steps(of_jobs.select(keys).union(counted.select(keys)), step_s)
    ended = F.coalesce("ended", F.greatest("counted_ended", F.lit(0.0)), F.lit(0.0))
    return (
        steps.join(of_jobs, keys, "left")
        .join(counted, keys, "left")
        .select(
            "at",
            "queue",
            F.coalesce("counted_arrived", "arrived", F.lit(0.0)).alias("arrived"),
            ended.cast("double").alias("ended"),
            F.coalesce("attempts", F.lit(0)).alias("attempts"),
            F.coalesce("busy_s", F.lit(0.0)).alias("busy_s"),
            F.coalesce("counted_unfinished", "unfinished", F.lit(0.0)).alias("unfinished"),
            F.col("counted_unfinished").isNotNull().alias("is_counted"),
        )
        .orderBy("at", "queue")
    )


def _flow_of_jobs(attempts: DataFrame, step_s: int) -> DataFrame:
    jobs = attempts.groupBy("queue", "job").agg(
        F.min(F.coalesce("created_at", "ended_at")).alias("arrived_at"),
        F.max(F.when(_is_final(), F.col("ended_at"))).alias("ended_at"),
    )
    arrived = _counted_by_step(jobs, "arrived_at", "arrived", step_s)
    ended = _counted_by_step(jobs.where("ended_at IS NOT NULL"), "ended_at", "ended", step_s)
    run = (
        attempts.where(F.col("attempt") > 0)
        .groupBy("queue", bucket("ended_at", step_s).alias("at"))
        .agg(F.count("*").alias("attempts"), (F.sum("ran_us") / 1_000_000).alias("busy_s"))
    )
    keys = ["queue", "at"]
    steps = _all_steps(arrived.select(keys).union(run.select(keys)), step_s)
    so_far = Window.partitionBy("queue").orderBy("at").rowsBetween(Window.unboundedPreceding, 0)
    return (
        steps.join(arrived, keys, "left")
        .join(ended, keys, "left")
        .join(run, keys, "left")
        .fillna(0)
        .withColumn("unfinished", F.sum(F.col("arrived") - F.col("ended")).over(so_far))
        .withColumns({name: F.col(name).cast("double") for name in ("arrived", "unfinished")})
    )


def _counted_flow(counts: DataFrame, step_s: int) -> DataFrame:
    """Between two counts of one queue everything is taken to have come and gone evenly."""
    counted = (
        counts.groupBy("queue", "incarnation", bucket("at", step_s).alias("step"))
        .agg(
            F.max_by("enqueued", "at").alias("enqueued"),
            F.max_by(_waiting() + F.col("running"), "at").alias("unfinished"),
        )
        .withColumnRenamed("step", "at")
    )
    by_time = Window.partitionBy("queue", "incarnation").orderBy("at")
    steps = (F.unix_seconds("at") - F.unix_seconds("at_before")) / step_s
    number = F.col("number")
    change = (F.col("unfinished") - F.col("unfinished_before")) / F.col("steps")
    arrived = (F.col("enqueued") - F.col("enqueued_before")) / F.col("steps")
    between = (
        counted.withColumns(
            {
                f"{name}_before": F.lag(name).over(by_time)
                for name in ("at", "enqueued", "unfinished")
            }
        )
        .where("at_before IS NOT NULL")
        .withColumn("steps", steps.cast("long"))
        .withColumn("number", F.explode(F.sequence(F.lit(1), "steps")))
        .select(
            "queue",
            _seconds_after("at_before", number * step_s).alias("at"),
            arrived.alias("counted_arrived"),
            (arrived - change).alias("counted_ended"),
            (F.col("unfinished_before") + change * number).alias("counted_unfinished"),
        )
    )
    # A queue that was made anew within a step has two counts of it; the fuller one stands.
    return between.groupBy("queue", "at").agg(
        *(F.max(name).alias(name) for name in between.columns[2:])
    )


def _waiting() -> Column:
    return F.col("ready") + F.coalesce("scheduled", F.lit(0)) + F.coalesce("blocked", F.lit(0))


def _is_final() -> Column:
    """Older entries do not have the state that followed; of these, what is done has ended."""
    return F.coalesce("state", "outcome").isin(*FINAL_STATES)


def _counted_by_step(rows: DataFrame, column: str, name: str, step_s: int) -> DataFrame:
    return rows.groupBy("queue", bucket(column, step_s).alias("at")).agg(F.count("*").alias(name))


def _all_steps(steps: DataFrame, step_s: int) -> DataFrame:
    """Each step of each queue from its first to the last of all queues."""
    ends = steps.agg(F.max("at").alias("until"))
    count = (F.unix_seconds("until") - F.unix_seconds("since")) / step_s
    return (
        steps.groupBy("queue")
        .agg(F.min("at").alias("since"))
        .crossJoin(ends)
        .withColumn("number", F.explode(F.sequence(F.lit(0), count.cast("long"))))
        .select("queue", _seconds_after("since", F.col("number") * step_s).alias("at"))
    )


def _seconds_after(at: str, seconds: Column) -> Column:
    return F.timestamp_seconds(F.unix_seconds(at) + seconds)
