"""Messages of a log as Arrow columns, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy
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
"""Messages that have more were appended again for one group alone; others pass over them."""

_MS_DIGITS = 13


def message_batch(partition: int, entries: Sequence[Any]) -> pa.RecordBatch:
    """The messages of a reply to XRANGE."""
    fields = [entry[1] for entry in entries]
    widest = max(map(len, fields), default=0)
    if widest > _MOST_FIELDS:
        kept = [entry for entry in entries if len(entry[1]) <= _MOST_FIELDS]
        return message_batch(partition, kept)
    offsets = pa.array([entry[0] for entry in entries], pa.binary())
    count = len(fields)
    columns = {
        "key": _texts(_values(fields, _KEY)) if widest > _KEY else pa.nulls(count, pa.string()),
        "body": pa.array([each[1] for each in fields], pa.binary()),
        "headers": _headers(fields, widest),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        "offset": offsets.cast(pa.string()),
        "timestamp": _timestamps(offsets, fields, widest),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _values(fields: list[list[bytes]], index: int) -> list[bytes | None]:
    return [each[index] or None if len(each) > index else None for each in fields]


def _appended_ms(offsets: pa.Array) -> pa.Array:
    """What ids begin with, up to a minus; from 2001 to 2286 always as many digits."""
    if pc.all(pc.equal(pc.binary_slice(offsets, _MS_DIGITS, _MS_DIGITS + 1), b"-")).as_py():
        digits = pc.binary_slice(offsets, 0, _MS_DIGITS)
    else:
        digits = pc.list_element(pc.split_pattern(offsets, b"-"), 0)
    return digits.cast(pa.string()).cast(pa.int64())


def _texts(values: list[bytes] | list[bytes | None]) -> pa.Array:
    return pa.array(values, pa.binary()).cast(pa.string())


def _headers(fields: list[list[bytes]], widest: int) -> pa.Array:
    if widest <= _HEADERS:
        none = pa.array([], pa.string())
        starts = pa.array(numpy.zeros(len(fields) + 1, numpy.int32))
        return pa.MapArray.from_arrays(starts, none, none)
    packed = _values(fields, _HEADERS)
    found = [list(unpack_headers(each or b"").items()) for each in packed]
    return pa.array(found, SCHEMA.field("headers").type)


def _timestamps(offsets: pa.Array, fields: list[list[bytes]], widest: int) -> pa.Array:
    """Of the events, or else of appending."""
    ms = _appended_ms(offsets)
    if widest > _AT:
        ms = pc.coalesce(_texts(_values(fields, _AT)).cast(pa.int64()), ms)
    return pc.multiply(ms, 1000).cast(SCHEMA.field("timestamp").type)
