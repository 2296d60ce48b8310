"""Rows of Spark as JSON, column by column: Arrow makes the texts of a column in one go.

`docs/spark.md` has the table of what becomes of each type; what is not in it is refused.
"""

from __future__ import annotations

from base64 import b64encode
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import InvalidArgument, Unserialisable

if TYPE_CHECKING:
    from collections.abc import Sequence

_TO_ESCAPE = r'["\\\x00-\x1f]'
_LOOKS_WHOLE = r"^-?\d+$"


def json_rows(batch: pa.RecordBatch, columns: Sequence[str]) -> list[bytes]:
    """Each row as a JSON object that has the given columns, in UTF-8 and without spaces.

    Raises InvalidArgument for a column whose type has no JSON form, and Unserialisable for one that
    has a value without any; to know which row it is in, give fewer rows.
    """
    parts: list[Any] = []
    for number, name in enumerate(columns):
        parts += ["," if number else "{", encode_basestring(name) + ":"]
        try:
            parts.append(_texts(batch.column(name)))
        except _NoJsonValue as error:
            raise Unserialisable(f"column {name!r} cannot be written as JSON: it {error}") from None
        except _NoJsonType as error:
            raise InvalidArgument(f"column {name!r} cannot be written as JSON: {error}") from None
    if not parts:
        return [b"{}"] * batch.num_rows
    objects = pc.binary_join_element_wise(*parts, "}", "")
    rows: list[bytes] = objects.cast(pa.binary()).to_pylist()
    return rows


class _NoJsonValue(Exception):
    """A value that has no JSON form."""


class _NoJsonType(Exception):
    """A type that has no JSON form for any value."""


def _texts(values: pa.Array) -> pa.Array:
    """The JSON of each value."""
    kind = values.type
    if len(values) == 0:
        return pa.array([], pa.string())
    if pa.types.is_null(kind):
        return pa.array(["null"] * len(values), pa.string())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        texts = values.cast(pa.string())
    elif pa.types.is_floating(kind):
        texts = _floats(values)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = _strings(values.cast(pa.string()))
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        texts = _mapped(values, lambda value: f'"{b64encode(value).decode()}"')
    elif pa.types.is_decimal(kind):
        texts = _mapped(values, lambda value: f'"{value:f}"')
    elif pa.types.is_date(kind) or pa.types.is_time(kind):
        texts = _quoted(values.cast(pa.string()))
    elif pa.types.is_timestamp(kind):
        texts = _instants(values)
    elif pa.types.is_struct(kind):
        texts = _objects(values)
    elif pa.types.is_map(kind):
        texts = _maps(values)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        offsets, elements = _within(values.offsets, values.values)
        texts = _joined("[", offsets, _texts(elements), "]")
    else:
        raise _NoJsonType(f"there is no form for the type {kind}; cast it to another one first")
    # Also what is null inside of something that is not.
    return pc.if_else(values.is_null(), "null", texts) if values.null_count else texts


def _floats(values: pa.Array) -> pa.Array:
    if not pc.all(pc.is_finite(values), min_count=0).as_py():
        raise _NoJsonValue(
            "has NaN or an infinite number, which JSON has not; replace them, as by NULL"
        )
    texts = values.cast(pa.string())
    # 2.0 is written as 2 here, which would come out as another type at the other end.
    is_whole = pc.match_substring_regex(texts, _LOOKS_WHOLE)
    return pc.if_else(is_whole, pc.binary_join_element_wise(texts, ".0", ""), texts)


def _strings(values: pa.Array) -> pa.Array:
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        raise _NoJsonValue(
            "has text that is not valid UTF-8; send it as BINARY, or clean it first"
        ) from None
    if pc.any(pc.match_substring_regex(values, _TO_ESCAPE)).as_py():
        return _mapped(values, encode_basestring)
    return _quoted(values)


def _instants(values: pa.Array) -> pa.Array:
    """Values of a type with a time zone are stored in UTC."""
    texts = values.cast(pa.timestamp("us")).cast(pa.string())
    end = '"' if values.type.tz is None else 'Z"'
    return pc.binary_join_element_wise('"', pc.replace_substring(texts, " ", "T"), end, "")


def _objects(values: pa.Array) -> pa.Array:
    parts: list[Any] = []
    for number, (field, column) in enumerate(zip(values.type, values.flatten(), strict=True)):
        parts += ["," if number else "{", encode_basestring(field.name) + ":", _texts(column)]
    if not parts:
        return pa.array(["{}"] * len(values), pa.string())
    return pc.binary_join_element_wise(*parts, "}", "")


def _maps(values: pa.Array) -> pa.Array:
    if not pa.types.is_string(values.type.key_type):
        raise _NoJsonType(
            f"there is no form for maps with keys of the type {values.type.key_type}; make the "
            "keys STRING first, as with transform_keys"
        )
    offsets, keys, items = _within(values.offsets, values.keys, values.items)
    entries = pc.binary_join_element_wise(_texts(keys), _texts(items), ":")
    return _joined("{", offsets, entries, "}")


def _within(offsets: pa.Array, *children: pa.Array) -> list[pa.Array]:
    """Offsets and children of some rows alone; Arrow gives out the children of all rows that
    these were sliced from.
    """
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    return [
        pc.subtract(offsets, offsets[0]),
        *(child.slice(first, last - first) for child in children),
    ]


def _joined(start: str, offsets: pa.Array, texts: pa.Array, end: str) -> pa.Array:
    lists = pa.LargeListArray if pa.types.is_int64(offsets.type) else pa.ListArray
    joined = pc.binary_join(lists.from_arrays(offsets, texts), ",")
    return pc.binary_join_element_wise(start, joined, end, "")


def _quoted(texts: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise('"', texts, '"', "")


def _mapped(values: pa.Array, text_of: Any) -> pa.Array:
    return pa.array(
        [None if value is None else text_of(value) for value in values.to_pylist()], pa.string()
    )
