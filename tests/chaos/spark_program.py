"""What a driver of Spark runs: `python -m tests.chaos.spark_program ACTION JSON`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import penstock.cli
import penstock.spark
from tests.chaos.spark_stops import POINTS, StoppingSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

READY, DONE = "driver ready", "batch done "
"""Lines that it prints: when Spark runs, and with the name of a batch when that is written."""

TASKS, JOBS, LOG, COPY = "mail", "orders", "clicks", "copy"
QUEUES = (TASKS, JOBS)
TASKS_OF_BATCH = 4
"""Each of them has rows that follow each other."""


class Target(NamedTuple):
    """Where rows go, and in which column."""

    options: dict[str, str]
    column: str = "payload"


TARGETS = {
    TASKS: Target({"queue": TASKS}),
    JOBS: Target({"jobs": JOBS, "type": "bill"}),
    LOG: Target({"log": LOG, "partitions": "2"}, "body"),
}


def write_batches(
    url: str, namespace: str, master: str, batches: list[str], rows: int, targets: list[str]
) -> None:
    """Write batches one after the other, each of them to all targets at the same time."""
    spark = _session(master)

    def write(batch: str, target: Target) -> None:
        # Spark looks up a format in the session of the thread, and a new thread has none.
        session: Any = spark
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)
        numbers = spark.range(0, rows, 1, TASKS_OF_BATCH)
        lines = numbers.selectExpr(f"concat('{batch}-', id) AS {target.column}")
        options = {"url": url, "namespace": namespace, "batch_id": batch, **target.options}
        lines.write.format("penstock").mode("append").options(**options).save()

    with ThreadPoolExecutor(len(targets)) as threads:
        for batch in batches:
            list(threads.map(partial(write, batch), [TARGETS[name] for name in targets]))
            _say(DONE + batch)
    spark.stop()


def write_stream(
    url: str, namespace: str, master: str, files: str, checkpoint: str, target: str
) -> None:
    """Write the lines of all files, a micro-batch for each file."""
    spark = _session(master)
    options, column = TARGETS[target]
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(files)
    query = (
        lines.selectExpr(f"value AS {column}")
        .writeStream.format("penstock")
        .options(url=url, namespace=namespace, checkpointLocation=checkpoint, **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def read_stream(url: str, namespace: str, master: str, folder: str, checkpoint: str) -> None:
    """Copy what is in a log into Parquet files; with no folder, to another log."""
    spark = _session(master)
    at = {"url": url, "namespace": namespace}
    reader = spark.readStream.format("penstock").options(
        **at, log=LOG, reader=COPY, startingOffsets="earliest", maxOffsetsPerTrigger=4000
    )
    if folder:
        writer = reader.option("minPartitions", 4).load().writeStream.format("parquet")
        writer = writer.option("path", folder)
    else:
        writer = reader.load().writeStream.format("penstock")
        writer = writer.options(**at, log=COPY, partitions=2)
    located = writer.option("checkpointLocation", checkpoint)
    located.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def run_command(arguments: list[str]) -> None:
    """`penstock ...`, as it would be called at a shell."""
    sys.argv = ["penstock", *arguments]
    penstock.cli.main()


def _session(master: str) -> SparkSession:
    spark = penstock.spark.session(master, config={"spark.ui.enabled": "false"})
    _say(READY)
    return spark


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


ACTIONS: dict[str, Callable[..., None]] = {
    "batches": write_batches,
    "stream": write_stream,
    "read": read_stream,
    "command": run_command,
}


def main(action: str, given: dict[str, Any]) -> None:
    if POINTS in os.environ:
        # The name penstock.spark.session is taken by the function of the module.
        module: Any = importlib.import_module("penstock.spark.session")
        module.PenstockSource = StoppingSource
    ACTIONS[action](**given)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
