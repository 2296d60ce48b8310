"""A queue is filled from files, and each file is sent once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument
from penstock.spark.ingest import Source, check_rows, ingest
from tests.cli.conftest import CommandLine

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    import penstock
    from tests.servers import RedisServer


def test_files_are_sent_once_and_new_ones_with_the_next_run(
    spark: SparkSession,
    server: RedisServer,
    namespace: str,
    ps: penstock.Penstock,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "orders"
    select = ["order AS id", "amount * 100 AS cents"]
    source = Source(str(folder), "csv", {"header": "true"}, select, "amount > 0")
    seen: list[int] = []

    def run() -> int:
        return ingest(
            spark,
            source,
            {"jobs": "orders", "type": "bill"},
            url=server.url,
            namespace=namespace,
            checkpoint=str(tmp_path / "checkpoint"),
            on_progress=seen.append,
        ).rows

    folder.mkdir()
    (folder / "a.csv").write_text("order,amount\n1,5\n2,0\n3,7\n")
    first = run()
    (folder / "b.csv").write_text("order,amount\n4,9\n")
    second, third = run(), run()

    assert (first, second, third) == (3, 1, 0)
    assert seen[-1] == 0
    jobs = ps.jobs("orders").page("ready").jobs
    assert sorted(json.loads(job.data)["id"] for job in jobs) == ["1", "3", "4"]
    assert {job.type for job in jobs} == {"bill"}


def test_what_is_no_files_is_sent_once_under_its_batch_id(
    spark: SparkSession, server: RedisServer, namespace: str, ps: penstock.Penstock
) -> None:
    target = {"queue": "mail", "payload": "task", "batch_id": "today"}
    source = Source("", "rate-micro-batch", {}, [])
    spark.range(5).createOrReplaceTempView("numbers")
    source = Source("", "penstock", {"url": server.url, "namespace": namespace, "queue": "from"})
    ps.queue("from").enqueue_many([b"a", b"b"])
    source = Source(source.path, source.format, source.options, ["payload AS task"])

    for _ in range(2):
        done = ingest(spark, source, target, url=server.url, namespace=namespace)

    assert (done.rows, done.checkpoint) == (2, "")
    assert sorted(ps.queue("mail").page().tasks) == [b"a", b"b"]


def test_a_dry_run_says_what_would_be_sent_and_what_would_be_refused(
    spark: SparkSession,
    server: RedisServer,
    namespace: str,
    ps: penstock.Penstock,
    tmp_path: Path,
) -> None:
    (tmp_path / "rows.json").write_text('{"task": "a"}\n{"task": null}\n{"task": "b"}\n')
    target = {"queue": "mail", "payload": "task"}

    found = check_rows(
        spark, Source(str(tmp_path), "json"), target, url=server.url, namespace=namespace
    )

    assert found.rows == 3
    assert found.refused == {"column 'task' is null, and a task is bytes": 1}
    assert {"task": "a"} in found.first
    assert ps.queues() == []


def test_a_batch_id_is_not_for_files(spark: SparkSession, server: RedisServer) -> None:
    target = {"queue": "mail", "batch_id": "b"}

    with pytest.raises(InvalidArgument, match="files are sent once by way of the checkpoint"):
        ingest(spark, Source("nowhere", "csv"), target, url=server.url)


def test_the_command_sends_files_and_tells_what_it_did(
    spark: SparkSession,
    server: RedisServer,
    namespace: str,
    ps: penstock.Penstock,
    tmp_path: Path,
) -> None:
    cli = CommandLine(server.url, namespace)
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.json").write_text('{"task": "a"}\n{"task": null}\n')
    read = ("spark", "ingest", str(tmp_path / "rows"), "--format", "json", "--queue", "mail")
    command = (*read, "--set", "payload=task", "--checkpoint", str(tmp_path / "checkpoint"))

    dry = cli(*command, "--dry-run")
    refused = cli(*command)
    sent = cli(*command, "--bad-rows", str(tmp_path / "bad"), "--json")

    assert "1 row would be sent, 1 refused" in dry.output
    assert refused.exit_code == 1 and "column 'task' is null" in refused.output
    assert json.loads(sent.stdout)["rows"] == 2
    assert ps.queue("mail").page().tasks == [b"a"]
    assert len(list((tmp_path / "bad").glob("*.jsonl"))) == 1
