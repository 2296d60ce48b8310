"""The pipeline, played in the order in which it happens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.client import fsck
from penstock.demo.orders import jobs, steps
from penstock.demo.orders.generate import write_orders
from penstock.demo.orders.outcome import Joined, Outcome, find_disagreements
from penstock.spark import lake
from penstock.spark.reports.report import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.demo.orders.stage import Stage
    from penstock.demo.processes import WorkerProcess

_EXECUTORS = "executors"
_MOST_PER_S = 2000
_KILL_AT = 0.15
_TO_SPARK_AT = 0.5
_READER = "lake"


def tell_story(stage: Stage) -> Outcome:
    """Orders are charged by two workers, of which one is killed, and then by workers on Spark."""
    sent = _send(stage)
    recovery_s = _work_here(stage)
    _work_on_spark(stage)
    stage.view.begin("Spark joins what became of the jobs to the orders")
    results = steps.join_results(stage.spark, stage.files, stage.store).cache()
    joined = _count(stage, results)
    letters = _remind(stage, results)
    in_redis, in_lake = _archive(stage)
    _report(stage)

    stage.view.begin("counting everything once more")
    report = fsck.check(stage.client)
    return Outcome(
        orders=stage.orders,
        sent=sent,
        done=joined.done,
        dead=joined.dead,
        failed_before=joined.failed_before,
        lost_attempts=stage.client.queue(jobs.ORDERS).inspect().counters.lost,
        on_spark=joined.on_spark,
        letters=letters,
        attempts=len(in_redis),
        archived=len(in_lake),
        recovery_s=round(recovery_s, 2),
        seconds=round(time.monotonic() - stage.began_at, 1),
        report=str(stage.page),
        lake=str(stage.lake),
        disagreements=find_disagreements(
            stage.orders, sent, joined, letters, set(in_redis), in_lake, report
        ),
    )


def _send(stage: Stage) -> int:
    write_orders(stage.files, stage.orders)
    stage.view.tell(f"{stage.orders:,} orders written to {stage.files} as Parquet")
    rate = min(_MOST_PER_S, max(50, stage.orders // 25))
    stage.queue.limit(rate=rate, per=1)
    # However many there are, none is forgotten before it is counted.
    stage.queue.configure(keep_count=10 * stage.orders, keep_bytes=2**40)
    stage.client.jobs(jobs.REMINDERS).configure()
    stage.queue.mark_history(_READER, "0-0")
    stage.view.begin("Spark reads them and sends jobs")
    sent = steps.send_orders(
        stage.spark,
        stage.files,
        stage.store,
        stage.work / "checkpoint",
        # None is sent before Spark has planned how; that takes seconds, and is no news.
        lambda rows: stage.view.show("orders sent", rows, stage.orders) if rows else None,
    )
    stage.view.tell(f"Spark sent {sent:,} of them as jobs; the bank takes {rate:,} a second")
    return sent


def _work_here(stage: Stage) -> float:
    """Returns how long it took until the orders of the killed worker were back."""
    first, second = stage.start_worker(jobs.ORDERS), stage.start_worker(jobs.ORDERS)
    stage.until(lambda: None not in (stage.held(first), stage.held(second)))
    stage.view.tell("two workers started")
    stage.until(lambda: stage.ended >= stage.orders * _KILL_AT)
    recovery_s = _kill(stage, second)
    stage.until(lambda: stage.ended >= stage.orders * _TO_SPARK_AT)
    stage.stop_workers()
    stage.view.tell(f"{first} stopped; {stage.orders - stage.ended:,} orders are left for Spark")
    return recovery_s


def _kill(stage: Stage, worker: WorkerProcess) -> float:
    stage.until(lambda: bool(stage.held(worker)))
    worker.kill()
    killed_at = time.monotonic()
    stage.view.tell(f"{worker} killed with SIGKILL; orders that it held: {stage.held(worker) or 0}")
    stage.until(lambda: stage.held(worker) is None)
    recovery_s = time.monotonic() - killed_at
    stage.view.tell(f"they are back in the queue after {recovery_s:.1f} s")
    return recovery_s


def _work_on_spark(stage: Stage) -> None:
    stage.view.begin("Spark starts workers on its executors")
    summaries = steps.work_on_spark(
        stage.spark,
        stage.store,
        _EXECUTORS,
        stage.lease_ms,
        lambda work: stage.view.show("orders have ended", stage.orders - work.left, stage.orders),
    )
    done = sum(summary.finished for summary in summaries)
    stage.view.tell(f"{len(summaries)} workers on Spark's executors finished {done:,} attempts")


def _count(stage: Stage, results: DataFrame) -> Joined:
    row = results.selectExpr(
        "count(*)",
        "count(DISTINCT order_id)",
        "count_if(state = 'done')",
        "count_if(state = 'dead')",
        "count_if(state = 'done' AND failures > 0)",
        f"count_if(worker LIKE '{_EXECUTORS}.%')",
        "coalesce(sum(result.paid), 0)",
    ).first()
    joined = Joined(*(row or ()))
    stage.view.tell(f"results joined to the orders: {joined.paid / 100:,.2f} EUR paid")
    return joined


def _remind(stage: Stage, results: DataFrame) -> int:
    """Returns how many letters were written."""
    stage.view.begin("a job for each customer whose card was refused")
    stage.start_worker(jobs.REMINDERS)
    letters = steps.remind_customers(
        results,
        stage.store,
        lambda batch: stage.view.show("letters written", batch.ended, batch.total),
    )
    written = letters.where("result.letter IS NOT NULL").count()
    stage.stop_workers()
    stage.view.tell(f"letters to customers whose card was refused: {written:,}")
    return written


def _archive(stage: Stage) -> tuple[list[str], list[str]]:
    """Returns the attempts that Redis has, and those of the lake."""
    spark, queues = stage.spark, f"{jobs.ORDERS},{jobs.REMINDERS}"
    reader = spark.read.format("penstock").options(**stage.store._asdict())
    stage.view.begin("reading the history of all attempts")
    in_redis = _places(reader.option("history", queues).load())
    steps.keep_history(
        spark,
        stage.lake,
        stage.store,
        lambda done: stage.view.show("attempts archived", done.total, len(in_redis)),
    )
    in_lake = _places(lake(stage.lake, spark=spark))
    stage.view.tell(f"{len(in_lake):,} attempts archived in the Delta table {stage.lake}/attempts")
    return in_redis, in_lake


def _places(attempts: DataFrame) -> list[str]:
    return [row[0] for row in attempts.selectExpr("concat(queue, ' ', place)").collect()]


def _report(stage: Stage) -> None:
    steps.write_report(
        stage.spark,
        stage.lake,
        stage.page,
        lambda name: stage.view.show(
            "tables of the report made", TABLES.index(name) + 1, len(TABLES)
        ),
    )
    stage.view.tell(f"report written: {stage.page}")
