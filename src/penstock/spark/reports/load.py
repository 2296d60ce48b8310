"""How much comes in, how much ends and how much is there: from `attempts`, which has jobs that were
tried or have ended, and from `counts`, which has everything at the instants of counting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from penstock.spark.reports.buckets import bucket

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import Column, DataFrame, WindowSpec

_MINUTE_S = 60

FINAL_STATES = ("done", "dead", "cancelled", "removed")


def placed(counts: DataFrame, last: datetime, step_s: int) -> DataFrame:
    """The same counts, at times that suit short steps.

    A count has the minute in which it was made, which can be as long as many steps. It is then
    taken to be of the last step of that minute, or of `last`, when the lake ends.
    """
    if step_s >= _MINUTE_S:
        return counts
    is_minute = F.pmod(F.unix_micros("at"), F.lit(_MINUTE_S * 1_000_000)) == 0
    late = F.least(_seconds_after("at", F.lit(_MINUTE_S - step_s)), F.lit(last))
    return counts.withColumn("at", F.when(is_minute, F.greatest("at", late)).otherwise(F.col("at")))


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
    the step), is_known.

    Between two counts of a queue, these tell what arrived and is unfinished. Elsewhere it follows
    from the attempts. A job that was never tried has none, so `unfinished` can be too small there:
    `is_known` is true only where a count shows that no job is missing. Of plain tasks there are no
    attempts, so what was not counted is NULL.
    """
    so_far = _by_time().rowsBetween(Window.unboundedPreceding, 0)
    derived = _filled(_moves(attempts, counts, step_s), step_s).withColumns(
        {
            "arrived_so_far": F.sum("arrived").over(so_far),
            "derived": F.sum(F.col("arrived") - F.col("ended")).over(so_far),
            "is_plain": F.coalesce(F.bool_or("is_plain").over(_of_queue()), F.lit(False)),
        }
    )
    counted_ended = F.when(F.col("counted_ended") < 0, 0.0).otherwise(F.col("counted_ended"))
    return (
        derived.withColumn(
            "is_known", F.col("counted_unfinished").isNotNull() | _are_attempts_enough()
        )
        .select(
            "at",
            "queue",
            F.coalesce("counted_arrived", _of_jobs("arrived")).alias("arrived"),
            F.coalesce(_of_jobs("ended"), counted_ended).alias("ended"),
            "attempts",
            "busy_s",
            F.coalesce("counted_unfinished", _of_jobs("derived")).alias("unfinished"),
            "is_known",
        )
        .orderBy("at", "queue")
    )


def _moves(attempts: DataFrame, counts: DataFrame, step_s: int) -> DataFrame:
    """What attempts and counts say about each step of which they say anything."""
    jobs = attempts.groupBy("queue", "job").agg(
        F.min(F.coalesce("created_at", "ended_at")).alias("arrived_at"),
        F.max(F.when(_is_final(), F.col("ended_at"))).alias("ended_at"),
    )
    arrived = jobs.select("queue", bucket("arrived_at", step_s).alias("at"), _one("arrived"))
    ended = jobs.where("ended_at IS NOT NULL").select(
        "queue", bucket("ended_at", step_s).alias("at"), _one("ended")
    )
    run = attempts.where(F.col("attempt") > 0).select(
        "queue",
        bucket("ended_at", step_s).alias("at"),
        F.lit(1).alias("attempts"),
        (F.col("ran_us") / 1_000_000).alias("busy_s"),
    )
    moves = run
    for others in (arrived, ended, _counted_flow(counts, step_s)):
        moves = moves.unionByName(others, allowMissingColumns=True)
    sums = ("arrived", "ended", "attempts", "busy_s")
    # A queue that was made anew within a step has two counts of it; the fuller one stands.
    most = [name for name in moves.columns if name not in ("queue", "at", *sums)]
    return moves.groupBy("queue", "at").agg(
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums),
        *(F.max(name).alias(name) for name in most),
    )


def _counted_flow(counts: DataFrame, step_s: int) -> DataFrame:
    """What counts say. Between two of one queue, work is taken to have come and gone evenly.

    `enqueued` is what had arrived by the end of a step with a count, since the queue was made.
    """
    counted = (
        counts.groupBy("queue", "incarnation", bucket("at", step_s).alias("step"))
        .agg(
            F.max_by("enqueued", "at").alias("enqueued"),
            F.max_by(_waiting() + F.col("running"), "at").alias("unfinished"),
            F.bool_or(F.col("kind") == "tasks").alias("is_plain"),
        )
        .withColumnRenamed("step", "at")
    )
    by_time = Window.partitionBy("queue", "incarnation").orderBy("at")
    before = {
        f"{name}_before": F.lag(name).over(by_time) for name in ("at", "enqueued", "unfinished")
    }
    steps = (F.unix_seconds("at") - F.unix_seconds("at_before")) / step_s
    change = (F.col("unfinished") - F.col("unfinished_before")) / F.col("steps")
    arrived = (F.col("enqueued") - F.col("enqueued_before")) / F.col("steps")
    left = F.col("steps") - F.col("number")
    return (
        counted.withColumns(before)
        .withColumn("steps", F.coalesce(steps.cast("long"), F.lit(1)))
        .withColumn("number", F.explode(F.sequence(F.lit(1), "steps")))
        .select(
            "queue",
            _seconds_after("at", -left * step_s).alias("at"),
            arrived.alias("counted_arrived"),
            (arrived - change).alias("counted_ended"),
            F.coalesce(F.col("unfinished") - change * left, "unfinished")
            .cast("double")
            .alias("counted_unfinished"),
            F.when(left == 0, F.col("enqueued")).alias("enqueued"),
            "is_plain",
        )
    )


def _filled(moves: DataFrame, step_s: int) -> DataFrame:
    """The same with a row for each step of a queue, from its first to the last of all queues."""
    next_at = F.lead("at").over(_by_time())
    last_at = F.max("at").over(Window.partitionBy())
    steps = (F.unix_seconds("next_at") - F.unix_seconds("at")) / step_s
    is_there = F.col("number") == 0
    zero = {"arrived", "ended", "attempts", "busy_s"}
    others = [name for name in moves.columns if name not in {"queue", "at", *zero}]
    return (
        moves.withColumn("next_at", F.coalesce(next_at, _seconds_after(last_at, F.lit(step_s))))
        .withColumn("number", F.explode(F.sequence(F.lit(0), steps.cast("long") - 1)))
        .select(
            "queue",
            _seconds_after("at", F.col("number") * step_s).alias("at"),
            *(F.when(is_there, F.col(name)).otherwise(0).alias(name) for name in sorted(zero)),
            *(F.when(is_there, F.col(name)).alias(name) for name in others),
        )
    )


def _are_attempts_enough() -> Column:
    """Whether the attempts tell of all jobs, up to the first count of a queue.

    They do if they are of as many jobs as the queue has had since it was made. If they are only of
    all that is unfinished when it is counted, they do so from the first ending on: what ended
    earlier is in no lake.
    """
    counted_at = F.when(F.col("enqueued").isNotNull(), F.col("at"))
    first_counted_at = F.min(counted_at).over(_of_queue())
    first_ended_at = F.min(F.when(F.col("ended") > 0, F.col("at"))).over(_of_queue())
    has_all_jobs = F.col("arrived_so_far") == F.col("enqueued")
    has_all_unfinished = F.col("derived") >= F.col("counted_unfinished")
    is_since = F.min_by(has_all_jobs, counted_at).over(_of_queue()) | (
        F.min_by(has_all_unfinished, counted_at).over(_of_queue()) & (F.col("at") >= first_ended_at)
    )
    return F.coalesce((F.col("at") <= first_counted_at) & is_since, F.lit(False))


def _of_queue() -> WindowSpec:
    return Window.partitionBy("queue")


def _by_time() -> WindowSpec:
    return _of_queue().orderBy("at")


def _waiting() -> Column:
    return F.col("ready") + F.coalesce("scheduled", F.lit(0)) + F.coalesce("blocked", F.lit(0))


def _is_final() -> Column:
    """Older entries do not have the state that followed; of these, what is done has ended."""
    return F.coalesce("state", "outcome").isin(*FINAL_STATES)


def _one(name: str) -> Column:
    return F.lit(1.0).alias(name)


def _of_jobs(name: str) -> Column:
    return F.when(~F.col("is_plain"), F.col(name))


def _seconds_after(at: Column | str, seconds: Column) -> Column:
    return F.timestamp_seconds(F.unix_seconds(at) + seconds)
