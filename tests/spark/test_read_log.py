"""`format("penstock")` with the option `log`, in Spark: batches, and streams that restart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.spark.log_worlds import LogWorld

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    import penstock
    from tests.servers import RedisServer


@pytest.fixture
def world(ps: penstock.Penstock, server: RedisServer) -> LogWorld:
    return LogWorld(ps, server)


class Query:
    """A query that is started again and again on one checkpoint, and what it has read."""

    def __init__(
        self, spark: SparkSession, url: str, namespace: str, folder: Path, **options: str
    ) -> None:
        self.batches: list[list[bytes]] = []
        self._stream = spark.readStream.format("penstock").options(
            url=url, namespace=namespace, log="clicks", **options
        )
        self._folder = folder
        self._fails_once = False

    def fail_once(self) -> None:
        """Let the next batch fail when it has been read."""
        self._fails_once = True

    def run(self) -> StreamingQuery:
        """Read what there is now."""

        def keep(batch: DataFrame, number: int) -> None:
            found = sorted(bytes(row.body) for row in batch.select("body").collect())
            if self._fails_once:
                self._fails_once = False
                raise RuntimeError("the sink is down")
            self.batches.append(found)

        query = (
            self._stream.load()
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(self._folder))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return query


def offsets_of(query: StreamingQuery, name: str) -> Any:
    """What the last progress of a query says."""
    progress = query.lastProgress
    assert progress is not None
    return json.loads(progress["sources"][0][name])


def test_a_log_is_a_table(read: DataFrameReader, world: LogWorld) -> None:
    world.append(2500)
    world.log.append(b"last", key="k", headers={"a": "b", "c": "d"}, at="2026-11-15T00:00Z")

    table = read.option("log", "clicks").option("minPartitions", "5").load()

    assert (
        table.filter("body <> 'last'").selectExpr("partition", "offset").distinct().count() == 2500
    )
    [row] = table.filter("key = 'k'").selectExpr("headers", "unix_seconds(timestamp)").collect()
    assert tuple(row) == ({"a": "b", "c": "d"}, 1_794_700_800)


def test_a_stream_counts_the_same_messages_through_failures_and_restarts(
    spark: SparkSession, world: LogWorld, server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    world.log.configure(keep_count=1)
    query = Query(
        *(spark, server.url, namespace, tmp_path),
        startingOffsets="earliest",
        maxOffsetsPerTrigger="600",
        reader="counts",
    )
    world.append(2)
    query.run()
    first = world.append(1000)
    query.fail_once()
    with pytest.raises(Exception, match="the sink is down"):
        query.run()
    second = world.append(500)
    ended = query.run()

    assert [len(batch) for batch in query.batches] == [2, 600, 600, 300]
    assert sorted(body for batch in query.batches[1:] for body in batch) == first + second
    progress = [json.loads(each["sources"][0]["latestOffset"]) for each in ended.recentProgress]
    assert progress[0] is None  # that was planned by the run before
    assert [latest["clicks"].pop("lag")["messages"] for latest in progress[1:]] == [300, 0]
    assert progress[-1] == offsets_of(ended, "endOffset")
    assert {lag.reader for lag in world.log.lag()} == {"counts"}


def test_a_stream_says_what_was_lost_and_can_go_on(
    spark: SparkSession, world: LogWorld, server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    world.append(3)
    Query(spark, server.url, namespace, tmp_path, startingOffsets="earliest").run()
    world.log.delete()
    new = world.append(2)

    with pytest.raises(Exception, match="log 'clicks' was deleted and made anew"):
        Query(spark, server.url, namespace, tmp_path).run()
    query = Query(spark, server.url, namespace, tmp_path, failOnDataLoss="false")
    query.run()

    assert query.batches == [new]


def test_a_stream_from_log_to_log_appends_each_message_once(
    spark: SparkSession,
    world: LogWorld,
    ps: penstock.Penstock,
    server: RedisServer,
    namespace: str,
    tmp_path: Path,
) -> None:
    at = {"url": server.url, "namespace": namespace}
    reader = spark.readStream.format("penstock").options(**at, log="clicks")
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 40).load()

    def run() -> None:
        writer = rows.writeStream.format("penstock").options(**at, log="copy", partitions="3")
        located = writer.option("checkpointLocation", str(tmp_path))
        located.trigger(availableNow=True).start().awaitTermination(120)

    sent = world.append(100)
    run()
    # As if the driver had died before it could note that the last batch is stored.
    for name in ("2", ".2.crc"):
        (tmp_path / "commits" / name).unlink()
    sent += world.append(20)
    run()

    copied = sorted(message.body for message in ps.log("copy").read())
    assert copied == sent
    # A row that was read has a partition, to which it goes again.
    for number in (0, 1):
        found = [message.body for message in ps.log("copy").page(number)]
        assert found == [message.body for message in world.log.page(number)]


def test_a_dataframe_is_appended_to_a_log_once(
    spark: SparkSession, ps: penstock.Penstock, server: RedisServer, namespace: str
) -> None:
    rows = spark.range(100).selectExpr(
        "CAST(id AS STRING) AS body", "concat('user-', id % 7) AS key", "map('n', 'x') AS headers"
    )
    for _ in range(2):
        rows.repartition(3).write.format("penstock").mode("append").options(
            url=server.url, namespace=namespace, log="orders", batch_id="2026-11-15"
        ).save()

    found = list(ps.log("orders").read())
    assert sorted(int(message.body) for message in found) == list(range(100))
    assert {message.key for message in found} == {f"user-{n}" for n in range(7)}
    assert {tuple(message.headers.items()) for message in found} == {(("n", "x"),)}
