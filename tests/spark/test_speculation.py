"""Spark runs a second copy of a slow task: the rows of one of the two get in."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.fsck import check
from tests.multisets import assert_each_once
from tests.spark.clusters import START_S, cluster_environment, standalone

if TYPE_CHECKING:
    from pathlib import Path

    import penstock
    from tests.servers import RedisServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

ROWS, PARTITIONS = 40_000, 4
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Spark never runs the copy of a task on the host where the task runs."""

PROGRAM = f"""
import sys, time
import penstock.spark
from pyspark import TaskContext

master, events, kind, name, column = sys.argv[1:]
spark = penstock.spark.session(master, config={{
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.dir": events,
}})

def slow_at_first(batches):
    context = TaskContext.get()
    yield from batches
    while context.partitionId() == 1 and context.attemptNumber() == 0:
        time.sleep(0.1)  # until Spark ends it, as its twin is done

# More than the pipe from the JVM to a task holds, in several Arrow batches, so that the slow one
# has staged rows.
rows = spark.range(0, {ROWS}, 1, {PARTITIONS}).selectExpr("concat(repeat('x', 100), id) AS body")
rows = rows.mapInArrow(slow_at_first, "body string").withColumnRenamed("body", column)
rows.write.format("penstock").mode("append").option(kind, name).save()
spark.stop()
"""


@pytest.mark.parametrize(
    "target", [("queue", "mail", "payload"), ("log", "clicks", "body")], ids=["queue", "log"]
)
def test_a_slow_task_with_a_speculative_twin_sends_its_rows_once(
    target: tuple[str, str, str],
    server: RedisServer,
    namespace: str,
    ps: penstock.Penstock,
    tmp_path: Path,
) -> None:
    events = tmp_path / "events"
    events.mkdir()
    environment = cluster_environment(server.url, namespace, tmp_path)
    with standalone(environment, tmp_path, HOSTS, cores=1) as master:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, master, events.as_uri(), *target],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=START_S,
            check=False,
        )

    assert ended.returncode == 0, ended.stderr
    begun, ended_well = tasks(events, "Start"), tasks(events, "End")
    assert [task["Speculative"] for task in begun] == [False, True]
    # Spark may stop before it has noted that the slow one was killed.
    assert [task["Speculative"] for task in ended_well if not task["Killed"]] == [True]
    kind, name, _ = target
    if kind == "log":
        found = [message.body for message in ps.log(name).read()]
        stages = ps.keys.queue(name).partition(0).stage("*")
    else:
        queue = ps.queue(name)
        pages = [queue.page(at, 1000).tasks for at in range(0, queue.count(), 1000)]
        found = [task for page in pages for task in page]
        stages = ps.keys.queue(name).stage("*")
    assert_each_once(found, (b"x" * 100 + b"%d" % number for number in range(ROWS)))
    left = list(server.client.scan_iter(stages, 1000))
    assert len(left) == 1  # what the slow one has staged; it expires
    assert check(ps).violations == []


def tasks(events: Path, what: str) -> list[dict[str, Any]]:
    """What Spark says about the start or the end of the slow task and of its twin, in the order in
    which they began.
    """
    lines = [line for file in events.rglob("events_*") for line in file.read_text().splitlines()]
    found = [
        event for event in map(json.loads, lines) if event["Event"] == f"SparkListenerTask{what}"
    ]
    slow = [event["Task Info"] for event in found if event["Task Info"]["Index"] == 1]
    return sorted(slow, key=lambda task: task["Launch Time"])
