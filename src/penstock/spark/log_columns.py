"""Messages of a log as Arrow columns, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.logs import unpack_headers
from penstock.spark.schemas import MESSAGES, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMA = arrow_schema(MESSAGES)

_KEY, _HEADERS, _AT = 3, 5, 7
"""Where each stands among the fields of an entry, if there are so many."""
_MOST_FIELDS = 8
"""Those that have more were appended again for one group alone; others pass over them."""


def message_batch(partition: int, entries: Sequence[Any]) -> pa.RecordBatch:
    """The messages of a reply to XRANGE."""
    kept = [entry for entry in entries if len(entry[1]) <= _MOST_FIELDS]
    fields = [entry[1] for entry in kept]
    widest = max(map(len, fields), default=0)
    offsets = _texts([entry[0] for entry in kept])
    columns = {
        "key": _texts(_values(fields, _KEY)) if widest > _KEY else pa.nulls(len(kept), pa.string()),
        "body": pa.array([each[1] for each in fields], pa.binary()),
        "headers": _headers(fields, widest),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), len(kept)),
        "offset": offsets,
        "timestamp": _timestamps(offsets, fields, widest),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _values(fields: list[list[bytes]], index: int) -> list[bytes | None]:
    return [each[index] or None if len(each) > index else None for each in fields]


def _texts(values: list[bytes] | list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string())


def _headers(fields: list[list[bytes]], widest: int) -> pa.Array:
    if widest <= _HEADERS:
        none = pa.array([], pa.string())
        return pa.MapArray.from_arrays(pa.array([0] * (len(fields) + 1), pa.int32()), none, none)
    packed = _values(fields, _HEADERS)
    found = [list(unpack_headers(each or b"").items()) for each in packed]
    return pa.array(found, SCHEMA.field("headers").type)


def _timestamps(offsets: pa.Array, fields: list[list[bytes]], widest: int) -> pa.Array:
    """Of the events, or else of appending, which is what an id begins with."""
    ms = pc.list_element(pc.split_pattern(offsets, "-"), 0).cast(pa.int64())
    if widest > _AT:
        ms = pc.coalesce(_texts(_values(fields, _AT)).cast(pa.int64()), ms)
    return pc.multiply(ms, 1000).cast(SCHEMA.field("timestamp").type)
