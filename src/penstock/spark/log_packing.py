"""Rows of a DataFrame to chunks of messages, by the partition of the log to which they go."""

from __future__ import annotations

import secrets
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.chunks import EMPTY, STRING, array_header
from penstock.errors import InvalidArgument
from penstock.model.logs import MAX_KEY_BYTES, check_key, pack_headers
from penstock.model.staging import MAX_CHUNK_BYTES, MAX_CHUNK_TASKS
from penstock.spark.packing import bounds_of, headers_of, join_columns, sizes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql.types import StructType

    from penstock.spark.packing import Refuse

    Messages = dict[str, pa.Array]
    """column -> what is stored of it, as bytes; of those columns that there are"""

_EMPTY = pa.scalar(EMPTY, pa.binary())
_NOWHERE = -1
_STORED = ("body", "key", "headers", "timestamp")
"""what a message has in a chunk, in this order"""
_TYPES = {
    "body": ("binary", "string"),
    "key": ("string",),
    "headers": ("map<string,string>",),
    "partition": ("int", "bigint", "smallint"),
    "timestamp": ("timestamp",),
}


class MessageChunk(NamedTuple):
    """What is staged in one step."""

    partition: int
    data: bytes
    rows: int


class MessagePacker:
    """Checks rows, chooses a partition for each as `log.append` does, and packs them, all column by
    column.
    """

    def __init__(self, columns: Iterable[str], partitions: int, max_payload: int) -> None:
        self._columns = frozenset(columns)
        self._partitions = partitions
        self._max_payload = max_payload
        self._turn = secrets.randbelow(partitions)
        """the partition of the next message that has no key"""
        self._open: dict[int, Messages] = {}
        """partition -> what does not fill a chunk yet"""

    def pack(self, batch: pa.RecordBatch, refuse: Refuse) -> Iterator[MessageChunk]:
        """The chunks that are full with the rows of a batch."""
        messages, numbers, refused = self._opened(batch)
        for row in sorted(refused):
            refuse(row, refused[row])
        order = numpy.argsort(numbers, kind="stable")[numpy.count_nonzero(numbers == _NOWHERE) :]
        messages = {name: column.take(pa.array(order)) for name, column in messages.items()}
        found, starts = numpy.unique(numbers[order], return_index=True)
        for number, (start, end) in zip(found, pairwise([*starts, len(order)]), strict=True):
            yield from self._filled(int(number), _slice(messages, start, end))

    def rest(self) -> Iterator[MessageChunk]:
        """The chunks that are not full."""
        for number in sorted(self._open):
            yield _sealed(number, self._open.pop(number))

    def _opened(self, batch: pa.RecordBatch) -> tuple[Messages, numpy.ndarray, dict[int, str]]:
        """Messages as they are stored, the partition of each, and why some have none."""
        refused: dict[int, str] = {}
        bodies = batch.column("body").cast(pa.binary())
        sizes = pc.binary_length(bodies)
        for row in _rows_where(pc.is_null(bodies)):
            refused[row] = "column 'body' is null, and a message is bytes"
        for row in _rows_where(pc.greater(sizes, self._max_payload)):
            size = sizes[row].as_py()
            refused[row] = f"the message has {size} bytes and {self._max_payload} is the limit"
        messages = {"body": pc.fill_null(bodies, b"")}
        numbers = numpy.full(batch.num_rows, _NOWHERE)
        if "key" in self._columns:
            messages["key"] = self._keys(batch, refused)
        if "partition" in self._columns:
            numbers = self._given_partitions(batch, refused)
        if "headers" in self._columns:
            messages["headers"] = self._headers(batch, refused)
        if "timestamp" in self._columns:
            messages["timestamp"] = self._times(batch)
        self._choose(numbers, messages.get("key"), [*refused])
        return messages, numbers, refused

    def _keys(self, batch: pa.RecordBatch, refused: dict[int, str]) -> pa.Array:
        keys = batch.column("key")
        sizes = pc.binary_length(keys)
        for row in _rows_where(pc.or_(pc.equal(sizes, 0), pc.greater(sizes, MAX_KEY_BYTES))):
            refused.setdefault(row, _reason(check_key, keys[row].as_py()))
        return pc.fill_null(keys.cast(pa.binary()), b"")

    def _given_partitions(self, batch: pa.RecordBatch, refused: dict[int, str]) -> numpy.ndarray:
        given = batch.column("partition").cast(pa.int64())
        is_wrong = pc.or_(pc.less(given, 0), pc.greater_equal(given, self._partitions))
        for row in _rows_where(is_wrong):
            refused.setdefault(
                row,
                f"partition is {given[row].as_py()}; the log has partitions 0 to "
                f"{self._partitions - 1}",
            )
        return numpy.array(pc.fill_null(given, _NOWHERE))

    def _headers(self, batch: pa.RecordBatch, refused: dict[int, str]) -> pa.Array:
        packed = [b""] * batch.num_rows
        column = batch.column("headers")
        for row in _rows_where(pc.is_valid(column)):
            try:
                packed[row] = pack_headers(dict(column[row].as_py()))
            except InvalidArgument as error:
                refused.setdefault(row, str(error))
        return pa.array(packed, pa.binary())

    def _times(self, batch: pa.RecordBatch) -> pa.Array:
        us = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        return pc.fill_null(pc.divide(us, 1000).cast(pa.string()).cast(pa.binary()), b"")

    def _choose(self, numbers: numpy.ndarray, keys: pa.Array | None, refused: list[int]) -> None:
        """Where no partition is given: that of the key, else each in turn."""
        is_open = numbers == _NOWHERE
        is_open[refused] = False
        if keys is not None:
            encoded = keys.dictionary_encode()
            of_keys = [crc32(key) % self._partitions for key in encoded.dictionary.to_pylist()]
            is_keyed = is_open & (sizes_of(keys) > 0)
            numbers[is_keyed] = numpy.array(of_keys)[encoded.indices.to_numpy()[is_keyed]]
            is_open &= ~is_keyed
        count = int(is_open.sum())
        numbers[is_open] = (self._turn + numpy.arange(count)) % self._partitions
        self._turn = (self._turn + count) % self._partitions
        numbers[refused] = _NOWHERE

    def _filled(self, number: int, messages: Messages) -> Iterator[MessageChunk]:
        """The full chunks of a partition; what is left waits for more."""
        before = self._open.pop(number, None)
        if before is not None:
            messages = {
                name: pa.concat_arrays([before[name], column]) for name, column in messages.items()
            }
        sizes = numpy.sum([sizes_of(column) for column in messages.values()], axis=0)
        for start, end in pairwise(bounds_of(sizes, MAX_CHUNK_TASKS)):
            part = _slice(messages, start, end)
            is_full = end - start == MAX_CHUNK_TASKS or sizes[start:end].sum() >= MAX_CHUNK_BYTES
            if is_full or end < len(sizes):
                yield _sealed(number, part)
            else:
                self._open[number] = part


def _sealed(number: int, messages: Messages) -> MessageChunk:
    strings: list[pa.Array | pa.Scalar] = []
    for name in _STORED:
        column = messages.get(name)
        strings += [_EMPTY] if column is None else [headers_of(sizes_of(column), STRING), column]
    rows = len(messages["body"])
    return MessageChunk(number, array_header(rows * len(_STORED)) + join_columns(strings), rows)


def _slice(messages: Messages, start: int, end: int) -> Messages:
    return {name: column.slice(start, end - start) for name, column in messages.items()}


def _rows_where(is_meant: pa.Array) -> list[int]:
    """The numbers of rows for which something is true, and not null."""
    return pc.indices_nonzero(pc.fill_null(is_meant, False)).to_pylist()  # type: ignore[no-any-return]


def _reason(check: Callable[[object], object], value: object) -> str:
    """Why a check refuses a value."""
    try:
        check(value)
    except InvalidArgument as error:
        return str(error)
    raise AssertionError(f"{value!r} is refused here, but not by {check.__name__}")


def message_columns(schema: StructType) -> frozenset[str]:
    """The columns of a DataFrame that messages are made of; refuses one that cannot be."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, allowed in _TYPES.items():
        if name in types and types[name] not in allowed:
            raise InvalidArgument(
                f"column {name!r} of a message has the type {types[name]}; it is "
                f"{' or '.join(allowed)}, so cast it, or give it another name"
            )
    if "body" not in types:
        raise InvalidArgument(
            f"a message is taken from column 'body', of type string or binary, which is not there; "
            f"the columns are {', '.join(types)}"
        )
    return frozenset(types) & frozenset(_TYPES)
