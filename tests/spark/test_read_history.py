"""`format("penstock")` with the option `history`, in Spark: a batch, and a stream that restarts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidArgument
from penstock.spark import PenstockSource, mark_offsets
from tests.spark.history_worlds import HistoryWorld

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    import penstock
    from tests.servers import RedisServer


@pytest.fixture
def world(ps: penstock.Penstock, server: RedisServer) -> HistoryWorld:
    return HistoryWorld(ps, server)


class Query:
    """A query that is started again and again on one checkpoint, and what it has read."""

    def __init__(
        self, spark: SparkSession, url: str, namespace: str, folder: Path, **options: str
    ) -> None:
        self.batches: list[list[str]] = []
        self._stream = spark.readStream.format("penstock").options(
            url=url, namespace=namespace, history="mail", **options
        )
        self._folder = folder

    def run(self) -> StreamingQuery:
        """Read what there is now."""

        def keep(batch: DataFrame, number: int) -> None:
            self.batches.append(sorted(row.job for row in batch.select("job").collect()))

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


def test_history_is_a_table(read: DataFrameReader, world: HistoryWorld) -> None:
    ids = world.end_jobs(2500)

    table = read.option("history", "mail").option("entries_per_partition", "1000").load()

    assert sorted(row.job for row in table.select("job").collect()) == sorted(ids)
    [row] = table.groupBy("type", "outcome", "state", "attempt").count().collect()
    assert tuple(row) == ("email", "done", "done", 1, 2500)
    assert table.filter("ended_at >= created_at AND waited_ms >= 0").count() == 2500


def test_a_stream_goes_on_where_it_was(
    spark: SparkSession,
    world: HistoryWorld,
    ps: penstock.Penstock,
    server: RedisServer,
    namespace: str,
    tmp_path: Path,
) -> None:
    first = world.end_jobs(5)
    query = Query(
        *(spark, server.url, namespace, tmp_path),
        startingOffsets="earliest",
        maxRowsPerTrigger="3",
        reader="lake",
    )
    query.run()
    second = world.end_jobs(2)
    ended = query.run()

    assert query.batches == [sorted(first[:3]), sorted(first[3:]), sorted(second)]
    offsets = offsets_of(ended, "endOffset")
    bounds = ps.jobs("mail").history_bounds()
    assert offsets == {"mail": [bounds.incarnation, bounds.last]}
    assert offsets_of(ended, "latestOffset") == offsets
    mark_offsets(ps, "lake", offsets)
    assert [mark.place for mark in ps.jobs("mail").history_bounds().marks] == [bounds.last]


def test_a_stream_says_what_was_lost_and_can_go_on(
    spark: SparkSession,
    world: HistoryWorld,
    server: RedisServer,
    namespace: str,
    tmp_path: Path,
) -> None:
    world.end_jobs(3)
    Query(spark, server.url, namespace, tmp_path, startingOffsets="earliest").run()
    world.reset()
    new = world.end_jobs(2)

    with pytest.raises(Exception, match="queue 'mail' was deleted and made anew"):
        Query(spark, server.url, namespace, tmp_path).run()
    query = Query(spark, server.url, namespace, tmp_path, failOnDataLoss="false")
    query.run()

    assert query.batches == [sorted(new)]


def test_only_history_and_logs_are_streams() -> None:
    source = PenstockSource({"jobs": "mail", "state": "dead"})

    with pytest.raises(InvalidArgument, match="'jobs' is not read as a stream, only history and"):
        source.streamReader(source.schema())
