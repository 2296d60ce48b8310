"""A stream into the lake that fails at every point, and is started again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidName, LakeBusy
from penstock.spark.clients import find_connection
from penstock.spark.delta import Table
from penstock.spark.failures import penstock_error
from penstock.spark.history_archive import HistorySource
from penstock.spark.history_lake import Lake
from penstock.spark.lake_stream import ArchivedBatch, LakeStream
from penstock.spark.range_files import RangeCopier
from penstock.spark.range_stream import RangeSource
from tests.spark.history_worlds import HistoryWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    import penstock
    from tests.servers import RedisServer

BATCHES = 2
ROWS = 100


class Killed(Exception):
    """The process ends here."""


class Rig:
    """The history of a queue, which is read a hundred entries at a time into a lake."""

    def __init__(
        self, spark: SparkSession, ps: penstock.Penstock, server: RedisServer, folder: Path
    ) -> None:
        self._spark = spark
        self._options = {"url": server.url, "namespace": ps.keys.namespace}
        self._connection = find_connection(**self._options)
        self._world = HistoryWorld(ps, server)
        self._checkpoint = folder / "checkpoint"
        self._ps = ps
        self.queue = "images"
        self.table = Lake(folder / "lake").table("attempts")
        self.seen: list[ArchivedBatch] = []

    def add(self, batches: int) -> list[str]:
        """Let so many times a hundred jobs end; returns their ids."""
        return self._world.end_jobs(ROWS * batches, self.queue)

    def run(self, then: Callable[[ArchivedBatch], None] | None = None) -> None:
        self._spark.dataSource.register(RangeSource)
        source = self._spark.readStream.format(RangeSource.name()).options(**self._options)
        source = source.options(history=self.queue, startingOffsets="earliest")
        stream = LakeStream(
            RangeCopier(self._connection, self.table, HistorySource(self.queue)),
            then or self.seen.append,
        )
        ranges = source.option("maxRowsPerTrigger", ROWS).load()
        stream.start(ranges, str(self._checkpoint), "archive", every_s=None)
        stream.wait()

    def jobs(self) -> Counter[str]:
        return Counter(self.table.existing().to_pyarrow_table()["job"].to_pylist())

    def last_place(self) -> str:
        return self._ps.jobs(self.queue).history_bounds().last


@pytest.fixture
def rig(
    spark: SparkSession, ps: penstock.Penstock, server: RedisServer, tmp_path: Path
) -> Iterator[Rig]:
    yield Rig(spark, ps, server, tmp_path)
    for query in spark.streams.active:
        query.stop()


def test_each_batch_is_archived_once_and_says_how_far_it_came(rig: Rig) -> None:
    sent = rig.add(1)
    first = rig.last_place()
    sent += rig.add(1)

    rig.run()

    assert rig.jobs() == Counter(sent)
    assert [(batch.rows, batch.is_new) for batch in rig.seen] == [({"images": ROWS}, True)] * 2
    assert [batch.ranges[-1].end for batch in rig.seen] == [first, rig.last_place()]


def test_a_stream_that_dies_before_and_after_each_commit_loses_and_doubles_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = rig.add(BATCHES)
    append = Table.append
    moments = iter([True, False] * BATCHES)

    def dying_append(table: Table, *batch: object) -> bool:
        if next(moments, None) is True:
            raise Killed("before the commit")
        return append(table, *batch)  # type: ignore[arg-type]

    def dying_then(batch: ArchivedBatch) -> None:
        rig.seen.append(batch)
        if batch.is_new:
            raise Killed("after the commit")

    monkeypatch.setattr(Table, "append", dying_append)
    deaths = 0
    while deaths < 2 * BATCHES:
        with pytest.raises(Killed):
            rig.run(dying_then)
        deaths += 1
    rig.run(dying_then)

    assert rig.jobs() == Counter(sent)
    assert [batch.is_new for batch in rig.seen] == [True, False] * BATCHES


def test_what_was_archived_goes_on_where_it_ended(rig: Rig) -> None:
    sent = rig.add(1)
    rig.run()
    sent += rig.add(1)

    rig.run()
    rig.run()

    assert rig.jobs() == Counter(sent)
    assert len(rig.seen) == 2


def test_an_error_on_an_executor_is_told_as_what_it_was(rig: Rig) -> None:
    rig.queue = "é" * 100
    rig.add(1)

    with pytest.raises(InvalidName, match="archive queues and logs with shorter names"):
        rig.run()


def test_errors_of_penstock_are_found_in_what_spark_says() -> None:
    said = ValueError(
        "Job aborted\nTraceback:\n  penstock.errors.LakeBusy: they failed; let fewer write\n at JVM"
    )

    found = penstock_error(said)

    assert isinstance(found, LakeBusy)
    assert str(found) == "they failed; let fewer write"
    assert penstock_error(ValueError("penstock.errors.Unheard: of")) is None
