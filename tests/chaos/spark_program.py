"""What a driver of Spark runs: `python -m tests.chaos.spark_program ACTION JSON`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import penstock.cli
import penstock.spark
from tests.chaos.spark_stops import POINTS, StoppingSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

READY, DONE = "driver ready", "batch done "
"""Lines that it prints: when Spark runs, and with the name of a batch when that is written."""

TASKS, JOBS = "mail", "orders"
TARGETS = ({"queue": TASKS}, {"jobs": JOBS, "type": "bill"})
"""Where each batch goes."""


def write_batches(
    url: str,
    namespace: str,
    master: str,
    batches: list[str],
    rows: int,
) -> None:
    """Write batches one after the other, each of them as tasks and as jobs at the same time."""
    spark = _session(master)

    def write(batch: str, target: dict[str, str]) -> None:
        # Spark looks up a format in the session of the thread, and a new thread has none.
        session: Any = spark
        session._jvm.SparkSession.setActiveSession(session._jsparkSession)
        numbers = spark.range(0, rows, 1, 4)
        writer = numbers.selectExpr(f"concat('{batch}-', id) AS payload").write.format("penstock")
        options = {"url": url, "namespace": namespace, "batch_id": batch, **target}
        writer.mode("append").options(**options).save()

    with ThreadPoolExecutor(len(TARGETS)) as threads:
        for batch in batches:
            list(threads.map(partial(write, batch), TARGETS))
            _say(DONE + batch)
    spark.stop()


def write_stream(url: str, namespace: str, master: str, files: str, checkpoint: str) -> None:
    """Write the lines of all files, a micro-batch for each file."""
    spark = _session(master)
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", "1").load(files)
    query = (
        lines.selectExpr("value AS payload")
        .writeStream.format("penstock")
        .options(url=url, namespace=namespace, queue=TASKS, checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
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
