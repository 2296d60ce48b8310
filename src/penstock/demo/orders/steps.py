"""The steps of the pipeline, each as a program of your own would take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import penstock.spark
from penstock.demo.orders import jobs
from penstock.spark.ingest import Source, ingest
from penstock.spark.reports.page import render

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from penstock.spark import Archived, BatchProgress, WorkerSummary
    from penstock.spark.queue_work import WorkProgress


class Store(NamedTuple):
    """Where the queues are."""

    url: str
    namespace: str


def send_orders(
    spark: SparkSession,
    orders: Path,
    store: Store,
    checkpoint: Path,
    on_progress: Callable[[int], None],
) -> int:
    """Each order becomes one job, in the share of its country. Returns how many were sent."""
    source = Source(
        str(orders), select=["order_id", "customer", "cents", "card", "country AS tenant"]
    )
    target = {
        "jobs": jobs.ORDERS,
        "type": jobs.charge.type,
        "tenant_column": "tenant",
        "attempts": "3",
        "backoff": "1",
    }
    sent = ingest(
        spark,
        source,
        target,
        **store._asdict(),
        checkpoint=str(checkpoint),
        on_progress=on_progress,
    )
    return sent.rows


def work_on_spark(
    spark: SparkSession,
    store: Store,
    name: str,
    lease_ms: int,
    on_progress: Callable[[WorkProgress], None],
) -> list[WorkerSummary]:
    """Workers on Spark's executors do what is left."""
    return penstock.spark.run(
        jobs.__name__,
        jobs.ORDERS,
        spark=spark,
        concurrency=8,
        until_empty=True,
        grace_s=3,
        lease_ms=lease_ms,
        heartbeat_ms=lease_ms // 3,
        name=name,
        **store._asdict(),
        on_progress=on_progress,
    )


def join_results(spark: SparkSession, orders: Path, store: Store) -> DataFrame:
    """Every order with what became of it."""
    reader = spark.read.format("penstock").options(**store._asdict())
    ended = reader.option("jobs", jobs.ORDERS).option("state", "done,dead").load()
    charged = ended.selectExpr(
        "CAST(get_json_object(data, '$.order_id') AS BIGINT) AS order_id",
        "state",
        "failures",
        "worker",
        "from_json(result, 'paid BIGINT, fee BIGINT') AS result",
        "error_message",
    )
    return spark.read.parquet(str(orders)).join(charged, "order_id", "full")


def remind_customers(
    results: DataFrame, store: Store, on_progress: Callable[[BatchProgress], None]
) -> DataFrame:
    """A job for each order that was refused, and its letter beside the order."""
    refused = results.where("state = 'dead'").select("order_id", "customer", "cents")
    letters = penstock.spark.map_jobs(
        refused,
        jobs.remind,
        key="order_id",
        batch_id="reminders",
        result_schema="letter STRING",
        timeout=60,
        **store._asdict(),
        on_progress=on_progress,
    )
    return refused.join(letters, "order_id")


def keep_history(
    spark: SparkSession, lake: Path, store: Store, on_progress: Callable[[Archived], None]
) -> int:
    """Put what happened into a lake. Returns how many attempts that were."""
    queues = [jobs.ORDERS, jobs.REMINDERS]
    done = penstock.spark.archive(
        queues, lake, spark=spark, **store._asdict(), progress=on_progress
    )
    return done.total


def write_report(
    spark: SparkSession, lake: Path, page: Path, on_progress: Callable[[str], None]
) -> None:
    """Make a page with charts of what is in the lake."""
    page.write_text(render(penstock.spark.make_report(lake, spark=spark, progress=on_progress)))
