"""What breaks in Spark while it reads a log or appends to one, and what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from penstock.client.fsck import check
from tests.chaos.spark_stops import killing_source, stop_file
from tests.spark.archive_rig import PATIENCE_S
from tests.spark.log_worlds import LogWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    import penstock
    from tests.chaos.spark_stops import Point
    from tests.servers import RedisServer


@pytest.fixture
def world(ps: penstock.Penstock, server: RedisServer) -> LogWorld:
    return LogWorld(ps, server)


def stages(ps: penstock.Penstock) -> list[bytes]:
    found: list[bytes] = ps.store.call("x", "KEYS", f"*{ps.keys.namespace}*:stage:*")
    return found


@pytest.mark.parametrize(("point", "name"), [("reading", "clicks"), ("staging", "copy")])
def test_a_python_worker_that_is_killed_while_it_copies_a_log_costs_and_doubles_nothing(
    spark: SparkSession,
    world: LogWorld,
    ps: penstock.Penstock,
    server: RedisServer,
    namespace: str,
    tmp_path: Path,
    point: Point,
    name: str,
) -> None:
    world.append(5000)
    spark.dataSource.register(killing_source(point, tmp_path))
    at = {"url": server.url, "namespace": namespace}
    reader = spark.readStream.format("penstock_killing").options(**at, log="clicks")
    rows = reader.option("startingOffsets", "earliest").load()
    writer = rows.writeStream.format("penstock_killing").options(**at, log="copy", partitions=2)
    located = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    located.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)

    assert not psutil.pid_exists(int(stop_file(tmp_path, name, point).read_text()))
    for number in range(2):
        expected = [message.body for message in world.log.read(partition=number)]
        assert [message.body for message in ps.log("copy").read(partition=number)] == expected
    assert check(ps).violations == []


def test_a_batch_that_fails_leaves_nothing_and_is_appended_once_when_it_is_written_again(
    spark: SparkSession, ps: penstock.Penstock, server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"

    def fail_when_staged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if not ready.exists():
            raise RuntimeError("the source is down")

    rows = spark.range(0, 5000, 1, 2).selectExpr("CAST(id AS STRING) AS body")
    rows = rows.mapInArrow(fail_when_staged, "body string")

    def write() -> None:
        options: Any = {"url": server.url, "namespace": namespace, "log": "orders"}
        writer = rows.write.format("penstock").mode("append").options(**options, partitions=2)
        writer.option("batch_id", "2026-11-15").save()

    with pytest.raises(Exception, match="the source is down"):
        write()
    assert list(ps.log("orders").read()) == []
    ready.touch()
    write()
    write()

    found = sorted(int(message.body) for message in ps.log("orders").read())
    assert found == list(range(5000))
    assert all(ps.store.call(key.decode(), "PTTL", key.decode()) > 0 for key in stages(ps))
