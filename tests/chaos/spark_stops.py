"""A data source that stops at chosen points of a write or a stream, so that a test can kill there.

Either goes through Python processes that Spark starts by itself: one that plans it, one for each
task, one that commits. The environment, which all of them inherit, names the points. The first
process that comes to one of them on the way to a queue or a log, or from a log, says so in a file,
and waits there until it is killed or let go; all others pass.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from unittest import mock

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from penstock.connection.staging import decide_batch, move_batches, stage_chunk
from penstock.spark import log_sink, sink
from penstock.spark.log_stream import LogStreamReader
from penstock.spark.source import PenstockSource
from penstock.store.commands import log_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, InputPartition, WriterCommitMessage
    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from penstock.model.staging import Moved
    from penstock.spark.sink import BatchSink, Staged, StreamSink

WritePoint = Literal["planned", "staging", "staged", "prepared", "decided", "moving", "moved"]
"""planned: nothing is staged. staging: a task has staged a chunk, and has more. staged: all tasks
have ended, nothing is decided. prepared: of a log, all stages are kept until it is decided.
decided: nothing is moved. moving: the first chunk is. moved: all are, and Spark has not been told.
"""
ReadPoint = Literal["asked", "ranged", "reading", "read", "stored"]
"""asked: it is known how far a micro-batch goes, and Spark has not been told. ranged: it is split.
reading: a task has read a page. read: it has read all of its range. stored: Spark says that the
batch before is stored, and that is not noted yet.
"""
Point = WritePoint | ReadPoint

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
        self._reached(point, reached)

    def _reached(self, point: Point, reached: Path) -> None:
        deadline = time.monotonic() + _LONGEST_S
        while not reached.with_suffix(".go").exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody came to kill the write at {point!r}")
            time.sleep(0.02)

    @contextmanager
    def between_steps(self) -> Iterator[None]:
        """Between the steps that the sinks take, which are real all the same."""
        with self._of_queues(), self._of_logs():
            yield

    def _of_queues(self) -> Any:
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

        return mock.patch.multiple(sink, stage_chunk=stage, decide_batch=decide, move_batches=move)

    @contextmanager
    def _of_logs(self) -> Iterator[None]:
        """Each command is made right before it is sent, so what comes before has been done."""
        real: Any = log_sink
        real_stage, real_append = real.stage_chunk, real.append_batch
        moves = count()

        def at_move() -> None:
            self.at("moving" if next(moves) else "decided")

        def stage(*given: Any) -> Any:
            _, _, _, index, *_ = given
            if index:
                self.at("staging")
            return real_stage(*given)

        def append(*given: Any) -> bool:
            is_new: bool = real_append(*given)
            self.at("moved")
            return is_new

        def after(step: Callable[[], None], name: str) -> Any:
            command = getattr(log_batches, name)

            def made(*given: Any) -> Any:
                step()
                return command(*given)

            return made

        commands = {
            "prepare_stages": after(partial(self.at, "staged"), "prepare_stages"),
            "decide_append": after(partial(self.at, "prepared"), "decide_append"),
            "move_messages": after(at_move, "move_messages"),
        }
        with (
            mock.patch.multiple(log_sink, stage_chunk=stage, append_batch=append),
            mock.patch.multiple(log_batches, **commands),
        ):
            yield


class Killed(Stop):
    """Where the first process that comes there is killed."""

    def _reached(self, point: Point, reached: Path) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class StoppingSource(PenstockSource):
    """`format("penstock")` with stops."""

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        return _Batch(super().writer(schema, overwrite), self._planned())

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        return _MicroBatch(super().streamWriter(schema, overwrite), self._planned())

    def streamReader(self, schema: StructType) -> Any:
        reader: Any = super().streamReader(schema)
        reader.__class__ = _Stream
        reader.stop_at = self._stop()
        return reader

    def _planned(self) -> Stop:
        stop = self._stop()
        stop.at("planned")
        return stop

    def _stop(self) -> Stop:
        return Stop.of_environment(self._target_name)

    @property
    def _target_name(self) -> str:
        names = (self.options.get(kind) for kind in ("queue", "jobs", "log"))
        return next(filter(None, names))


def killing_source(point: Point, folder: Path) -> type[DataSource]:
    """`format("penstock_killing")`: the first process that comes to a point is killed there."""

    class KillingSource(StoppingSource):
        @classmethod
        def name(cls) -> str:
            return "penstock_killing"

        def _stop(self) -> Stop:
            return Killed((point,), str(folder), self._target_name)

    return KillingSource


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


class _Stream(LogStreamReader):
    stop_at: Stop

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        end = super().latestOffset(start, limit)
        if end != start:
            self.stop_at.at("asked")
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        parts = super().partitions(start, end)
        self.stop_at.at("ranged")
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for page in super().read(partition):
            yield page
            self.stop_at.at("reading")
        self.stop_at.at("read")

    def commit(self, end: dict[str, Any]) -> None:
        self.stop_at.at("stored")
        super().commit(end)
