"""Rows of a DataFrame to chunks of tasks, as they are staged."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.chunks import STRING, array_header
from penstock.codec.elements import TAG, plain_element
from penstock.errors import InvalidArgument
from penstock.model.staging import MAX_CHUNK_BYTES, MAX_CHUNK_TASKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql.types import StructType

    from penstock.spark.options import Request

    Refuse = Callable[[int, str], None]
    """is told which row of a batch cannot be sent, and why"""


class Chunk(NamedTuple):
    """What is staged in one step."""

    data: bytes
    rows: int
    largest: int
    """bytes of the largest task, or of the data of the largest job"""


class Packer(Protocol):
    """Makes chunks of the rows that can be sent."""

    def pack(self, batch: pa.RecordBatch, refuse: Refuse) -> Iterator[Chunk]:
        """Chunks of a batch, in the order of its rows."""


@dataclass(frozen=True, slots=True)
class TaskPacker:
    """Takes the task from one column, of text or bytes."""

    column: str
    max_payload: int

    def pack(self, batch: pa.RecordBatch, refuse: Refuse) -> Iterator[Chunk]:
        tasks = batch.column(self.column).cast(pa.binary())
        is_sent = pc.fill_null(pc.less_equal(pc.binary_length(tasks), self.max_payload), False)
        if not pc.all(is_sent).as_py():
            for row in numpy.flatnonzero(~is_sent.to_numpy(zero_copy_only=False)):
                refuse(int(row), self._reason(tasks[int(row)].as_py()))
            tasks = tasks.filter(is_sent)
        tasks = _elements(tasks)
        for part, sizes in split(tasks, MAX_CHUNK_TASKS):
            data = array_header(len(part)) + join_strings(part, sizes, STRING)
            yield Chunk(data, len(part), int(sizes.max()))

    def _reason(self, task: bytes | None) -> str:
        if task is None:
            return f"column {self.column!r} is null, and a task is bytes"
        return f"the task has {len(task)} bytes and {self.max_payload} is the limit"


def task_packer(request: Request, schema: StructType, max_payload: int) -> TaskPacker:
    """A packer for these rows; refuses a DataFrame without a column of tasks."""
    column = request.values["payload"]
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if types.get(column) not in ("string", "binary"):
        found = f"has the type {types[column]}" if column in types else "is not there"
        raise InvalidArgument(
            f"a task is taken from column {column!r}, of type string or binary, which {found}; "
            f"the columns are {', '.join(types)}; name another one by the option 'payload'"
        )
    return TaskPacker(column, max_payload)


def _elements(tasks: pa.Array) -> pa.Array:
    """Tasks as they stand in the queue; hardly any looks different there."""
    is_tagged = pc.starts_with(tasks, TAG)
    if not pc.any(is_tagged).as_py():
        return tasks
    return pa.array([plain_element(task) for task in tasks.to_pylist()], pa.binary())


def split(values: pa.Array, max_rows: int) -> Iterator[tuple[pa.Array, numpy.ndarray]]:
    """Parts of up to `max_rows` and about 1 MiB, in order, with the size of each value."""
    sizes = sizes_of(values)
    for start, end in pairwise(bounds_of(sizes, max_rows)):
        yield values.slice(start, end - start), sizes[start:end]


def sizes_of(values: pa.Array) -> numpy.ndarray:
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False)
    return numpy.asarray(lengths, numpy.int64)


def bounds_of(sizes: numpy.ndarray, max_rows: int) -> list[int]:
    """Where parts of up to `max_rows` and about 1 MiB begin and end."""
    bounds = [0]
    ends = numpy.cumsum(sizes)
    while bounds[-1] < len(sizes):
        start = bounds[-1]
        before = int(ends[start - 1]) if start else 0
        # At least one, however large it is.
        fitting = int(numpy.searchsorted(ends, before + MAX_CHUNK_BYTES, side="right"))
        bounds.append(max(start + 1, min(fitting, start + max_rows, len(sizes))))
    return bounds


def join_strings(values: pa.Array, sizes: numpy.ndarray, prefix: bytes) -> bytes:
    """Each value behind a prefix and its length in four bytes, one after the other."""
    return join_columns([headers_of(sizes, prefix), values])


def headers_of(sizes: numpy.ndarray, prefix: bytes) -> pa.Array:
    """What comes before each value of a column: a prefix, and its length in four bytes."""
    headers = numpy.empty((len(sizes), len(prefix) + 4), numpy.uint8)
    headers[:, : len(prefix)] = numpy.frombuffer(prefix, numpy.uint8)
    headers[:, len(prefix) :] = sizes.astype(">u4").view(numpy.uint8).reshape(-1, 4)
    fixed = pa.binary(headers.shape[1])
    buffers = [None, pa.py_buffer(headers.tobytes())]
    return pa.FixedSizeBinaryArray.from_buffers(fixed, len(sizes), buffers).cast(pa.binary())


def join_columns(columns: list[pa.Array | pa.Scalar]) -> bytes:
    """The values of each row, one after the other, row by row. A scalar stands in every row."""
    joined = pc.binary_join_element_wise(*columns, b"")
    return bytes(memoryview(joined.buffers()[2])[: int(sizes_of(joined).sum())])
