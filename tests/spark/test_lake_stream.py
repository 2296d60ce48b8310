"""A stream into the lake that fails at every point, and is started again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import InvalidName, LakeBusy
from penstock.spark.delta import Table
from penstock.spark.failures import penstock_error
from penstock.spark.history_lake import Lake
from penstock.spark.lake_stream import ArchivedBatch, LakeStream
from penstock.spark.schemas import HISTORY
from tests.spark.synthetic_history import history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

BATCHES = 4
ROWS = 100


class Killed(Exception):
    """The process ends here."""


class Rig:
    """Files that are read as a stream, a batch each, into a lake; and what was seen of it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._input = folder / "input"
        self._checkpoint = folder / "checkpoint"
        self.table = Lake(folder / "lake").table("attempts")
        self.seen: list[ArchivedBatch] = []
        self._input.mkdir()

    def add(self, seed: int, queue: str = "images") -> pa.Table:
        rows = history(ROWS, seed, [queue])
        rows = rows.set_column(2, "job", pa.array([f"{seed}-{n}" for n in range(ROWS)]))
        pq.write_table(rows, self._input / f"{seed}.parquet")
        return rows

    def run(self, then: Callable[[ArchivedBatch], None] | None = None) -> None:
        source = self._spark.readStream.schema(HISTORY).option("maxFilesPerTrigger", 1)
        stream = LakeStream(self.table, then or self.seen.append)
        stream.start(
            source.parquet(str(self._input)), str(self._checkpoint), "archive images", once=True
        )
        stream.wait()

    def jobs(self) -> Counter[str]:
        return Counter(self.table.existing().to_pyarrow_table()["job"].to_pylist())


@pytest.fixture
def rig(spark: SparkSession, tmp_path: Path) -> Iterator[Rig]:
    yield Rig(spark, tmp_path)
    for query in spark.streams.active:
        query.stop()


def expected(seeds: range) -> Counter[str]:
    return Counter(f"{seed}-{n}" for seed in seeds for n in range(ROWS))


def test_each_batch_is_archived_once_and_says_how_far_it_came(rig: Rig) -> None:
    last = [rig.add(seed)["place"].to_pylist()[-1] for seed in range(2)]

    rig.run()

    assert rig.jobs() == expected(range(2))
    assert [(batch.rows, batch.is_new) for batch in rig.seen] == [({"images": ROWS}, True)] * 2
    assert {batch.places["images"] for batch in rig.seen} == set(last)


def test_a_stream_that_dies_before_and_after_each_commit_loses_and_doubles_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(BATCHES):
        rig.add(seed)
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

    assert rig.jobs() == expected(range(BATCHES))
    assert [batch.is_new for batch in rig.seen] == [True, False] * BATCHES


def test_what_was_archived_goes_on_where_it_ended(rig: Rig) -> None:
    rig.add(0)
    rig.run()
    rig.add(1)

    rig.run()
    rig.run()

    assert rig.jobs() == expected(range(2))
    assert len(rig.seen) == 2


def test_an_error_on_an_executor_is_told_as_what_it_was(rig: Rig) -> None:
    rig.add(0, queue="é" * 100)

    with pytest.raises(InvalidName, match="archive queues with shorter names"):
        rig.run()


def test_errors_of_penstock_are_found_in_what_spark_says() -> None:
    said = ValueError(
        "Job aborted\nTraceback:\n  penstock.errors.LakeBusy: they failed; let fewer write\n at JVM"
    )

    found = penstock_error(said)

    assert isinstance(found, LakeBusy)
    assert str(found) == "they failed; let fewer write"
    assert penstock_error(ValueError("penstock.errors.Unheard: of")) is None
