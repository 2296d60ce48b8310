"""`format("penstock")` with the option `log`, in Spark: a batch, and a stream that restarts."""

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
    assert offsets_of(ended, "latestOffset") == offsets_of(ended, "endOffset")
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
