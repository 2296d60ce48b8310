"""Rows of a DataFrame to chunks of messages, by the partition of the log to which they go."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from itertools import count, repeat
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from penstock.codec.chunks import pack_chunk
from penstock.errors import InvalidArgument
from penstock.model.logs import check_key, pack_headers
from penstock.model.staging import MAX_CHUNK_BYTES, MAX_CHUNK_TASKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.types import StructType

    from penstock.spark.packing import Refuse

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
    """Checks rows, chooses a partition for each as `log.append` does, and packs them."""

    def __init__(self, columns: Iterable[str], partitions: int, max_payload: int) -> None:
        self._columns = frozenset(columns)
        self._partitions = partitions
        self._max_payload = max_payload
        self._turns = count(secrets.randbelow(partitions))
        self._open: dict[int, _Open] = {}

    def pack(self, batch: pa.RecordBatch, refuse: Refuse) -> Iterator[MessageChunk]:
        """The chunks that are full with the rows of a batch."""
        rows = zip(
            batch.column("body").cast(pa.binary()).to_pylist(),
            *(self._values(batch, name) for name in ("key", "headers", "partition")),
            self._times(batch),
            strict=False,
        )
        for index, (body, key, headers, partition, at) in enumerate(rows):
            try:
                values = self._checked(body, key, headers, partition)
            except InvalidArgument as error:
                refuse(index, str(error))
                continue
            number, packed_key, packed_headers = values
            chunk = self._open.setdefault(number, _Open())
            chunk.add(body, packed_key, packed_headers, b"" if at is None else b"%d" % at)
            if chunk.is_full:
                yield self._close(number)

    def rest(self) -> Iterator[MessageChunk]:
        """The chunks that are not full."""
        for number in sorted(self._open):
            yield self._close(number)

    def _close(self, number: int) -> MessageChunk:
        chunk = self._open.pop(number)
        return MessageChunk(number, pack_chunk(chunk.values), len(chunk.values) // 4)

    def _checked(
        self, body: bytes | None, key: str | None, headers: Any, partition: int | None
    ) -> tuple[int, bytes, bytes]:
        if body is None:
            raise InvalidArgument("column 'body' is null, and a message is bytes")
        if len(body) > self._max_payload:
            raise InvalidArgument(
                f"the message has {len(body)} bytes and {self._max_payload} is the limit"
            )
        packed_key = check_key(key)
        if partition is None:
            number = (crc32(packed_key) if packed_key else next(self._turns)) % self._partitions
        elif 0 <= partition < self._partitions:
            number = partition
        else:
            raise InvalidArgument(
                f"partition is {partition}; the log has partitions 0 to {self._partitions - 1}"
            )
        return number, packed_key, pack_headers(dict(headers)) if headers else b""

    def _values(self, batch: pa.RecordBatch, name: str) -> Iterable[Any]:
        return batch.column(name).to_pylist() if name in self._columns else repeat(None)

    def _times(self, batch: pa.RecordBatch) -> Iterable[int | None]:
        if "timestamp" not in self._columns:
            return repeat(None)
        us = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        times: list[int | None] = pc.divide(us, 1000).to_pylist()
        return times


@dataclass(slots=True)
class _Open:
    """A chunk that is being filled."""

    values: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, *message: bytes) -> None:
        self.values += message
        self.size += sum(map(len, message))

    @property
    def is_full(self) -> bool:
        return len(self.values) >= 4 * MAX_CHUNK_TASKS or self.size >= MAX_CHUNK_BYTES


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
