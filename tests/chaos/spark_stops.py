"""A data source that stops at chosen points of a write, so that a test can kill right there.

A write goes through Python processes that Spark starts by itself: one that plans it, one for each
task, one that commits. The environment, which all of them inherit, names the points. The first
process that comes to one of them on the way to a queue says so in a file, and waits there until it
is killed or let go; all others pass.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unittest import mock

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from penstock.connection.staging import decide_batch, move_batches, stage_chunk
from penstock.spark import sink
from penstock.spark.source import PenstockSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from penstock.model.staging import Moved
    from penstock.spark.sink import BatchSink, Staged, StreamSink

Point = Literal["planned", "staging", "staged", "decided", "moving", "moved"]
"""planned: nothing is staged. staging: a task has staged its second chunk. staged: all tasks have
ended, nothing is decided. decided: nothing is moved. moving: the first chunk is. moved: all are,
and Spark has not been told.
"""

POINTS, FOLDER = "PENSTOCK_TEST_STOP_AT", "PENSTOCK_TEST_STOP_IN"
_LONGEST_S = 300.0
_INDEX = 4
"""Which argument of `stage_chunk` says the place of the chunk in its stage."""


def stop_file(folder: Path, queue: str, point: Point) -> Path:
    """Says that a process waits at a point, and which; with the suffix .go it lets it go."""
    return folder / f"{queue}-{point}"


@dataclass(frozen=True)
class Stop:
    """Where a write stops, as its writer carries it to all processes."""

    points: tuple[str, ...]
    folder: str
    queue: str

    @classmethod
    def of_environment(cls, queue: str) -> Stop:
        return cls(tuple(os.environ[POINTS].split(",")), os.environ[FOLDER], queue)

    def at(self, point: Point) -> None:
        """Wait here if this is such a point and no other process was at it before."""
        if point not in self.points:
            return
        reached = stop_file(Path(self.folder), self.queue, point)
        try:
            with reached.open("x") as file:
                file.write(f"{os.getpid()}\n")
        except FileExistsError:
            return
        deadline = time.monotonic() + _LONGEST_S
        while not reached.with_suffix(".go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody came to kill the write at {point!r}")
            time.sleep(0.02)

    @contextmanager
    def between_steps(self) -> Iterator[None]:
        """Between the steps that the sink takes, which are real all the same."""

        def stage(*given: Any) -> None:
            stage_chunk(*given)
            if given[_INDEX]:
                self.at("staging")

        def decide(*given: Any) -> bool:
            self.at("staged")
            return decide_batch(*given)

        real_move: Any = move_batches

        def move(*given: Any) -> Moved:
            self.at("decided")
            moved: Moved = real_move(*given, on_progress=lambda _: self.at("moving"))
            self.at("moved")
            return moved

        with mock.patch.multiple(sink, stage_chunk=stage, decide_batch=decide, move_batches=move):
            yield


class StoppingSource(PenstockSource):
    """`format("penstock")` with stops."""

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return _Batch(super().writer(schema, overwrite), self._planned())

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        return _MicroBatch(super().streamWriter(schema, overwrite), self._planned())

    def _planned(self) -> Stop:
        stop = Stop.of_environment(self.options.get("queue") or self.options["jobs"])
        stop.at("planned")
        return stop


@dataclass
class _Batch(DataSourceArrowWriter):
    sink: BatchSink
    stop: Stop

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        with self.stop.between_steps():
            return self.sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        with self.stop.between_steps():
            self.sink.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.sink.abort(messages)


@dataclass
class _MicroBatch(DataSourceStreamArrowWriter):
    sink: StreamSink
    stop: Stop

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        with self.stop.between_steps():
            return self.sink.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        with self.stop.between_steps():
            self.sink.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.sink.abort(messages, batchId)
