"""Rows as JSON, without Spark."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument, Unserialisable
from penstock.spark.rows import json_rows

UTC_US = pa.timestamp("us", "UTC")
MAP = pa.map_(pa.string(), pa.int64())


def batch_of(values: list[Any], kind: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch({"x": pa.array(values, kind)})


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.bool_(), True, "true"),
        (pa.int8(), -7, "-7"),
        (pa.int64(), 2**63 - 1, "9223372036854775807"),
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), 2.0, "2.0"),
        (pa.float64(), -0.0, "-0.0"),
        (pa.float64(), 1e300, "1e+300"),
        (pa.float32(), 0.1, "0.1"),
        (pa.decimal128(20, 9), Decimal("0.000000001"), '"0.000000001"'),
        (pa.decimal128(20, 2), Decimal("12.50"), '"12.50"'),
        (
            pa.string(),
            'é "quoted" \\ \n\x01 \U0001f600',
            r'"é \"quoted\" \\ \n\u0001 ' + '\U0001f600"',
        ),
        (pa.string(), "", '""'),
        (pa.large_string(), "plain", '"plain"'),
        (pa.binary(), b"\xff\x00", '"/wA="'),
        (pa.date32(), date(2026, 11, 15), '"2026-11-15"'),
        (pa.time64("us"), time(8, 30, 0, 5), '"08:30:00.000005"'),
        (UTC_US, datetime(2026, 11, 15, 8, 30, tzinfo=UTC), '"2026-11-15T08:30:00.000000Z"'),
        (
            pa.timestamp("us", "Europe/Berlin"),
            datetime(2026, 11, 15, 8, 30, 0, 123456, tzinfo=UTC),
            '"2026-11-15T08:30:00.123456Z"',
        ),
        (pa.timestamp("us"), datetime(1969, 12, 31, 23), '"1969-12-31T23:00:00.000000"'),
        (pa.list_(pa.string()), ["a", None, 'b"'], '["a",null,"b\\""]'),
        (pa.list_(pa.list_(pa.int64())), [[], [1, 2], None], "[[],[1,2],null]"),
        (MAP, [("a", 1), ('"', None)], '{"a":1,"\\"":null}'),
        (
            pa.struct([("a", pa.int64()), ("b", pa.list_(UTC_US))]),
            {"a": None, "b": [datetime(2026, 1, 2, tzinfo=UTC)]},
            '{"a":null,"b":["2026-01-02T00:00:00.000000Z"]}',
        ),
        (pa.struct([]), {}, "{}"),
        (pa.null(), None, "null"),
    ],
)
def test_a_value_is_written_as_the_table_says(kind: pa.DataType, value: Any, text: str) -> None:
    batch = batch_of([None, value, None, value], kind)

    null, row = b'{"x":null}', f'{{"x":{text}}}'.encode()
    assert json_rows(batch, ["x"]) == [null, row, null, row]
    assert json_rows(batch.slice(1, 2), ["x"]) == [row, null]
    assert json.loads(row) is not None


def test_a_row_has_the_columns_that_were_asked_for_in_their_order() -> None:
    batch = pa.record_batch({"a": [1, 2], 'b"': ["x", "y"], "c": [True, None]})

    assert json_rows(batch, ['b"', "a"]) == [b'{"b\\"":"x","a":1}', b'{"b\\"":"y","a":2}']
    assert json_rows(batch, []) == [b"{}", b"{}"]
    assert json_rows(batch.slice(0, 0), ["a"]) == []


VALUES = {
    "n": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "f": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "s": (pa.string(), st.text()),
    "b": (pa.bool_(), st.booleans()),
    "l": (pa.list_(pa.string()), st.lists(st.none() | st.text())),
    "m": (MAP, st.dictionaries(st.text(), st.none() | st.integers(-(2**63), 2**63 - 1))),
}
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in VALUES.items()}),
    max_size=8,
)


@given(ROWS, st.integers(0, 3))
def test_json_says_what_the_rows_say(rows: list[dict[str, Any]], offset: int) -> None:
    schema = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
    batch = pa.RecordBatch.from_pylist(rows, schema).slice(offset)

    written = [json.loads(row) for row in json_rows(batch, list(VALUES))]

    assert written == rows[offset:]
    assert [type(row["f"]) for row in written] == [type(row["f"]) for row in rows[offset:]]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_are_refused(value: float) -> None:
    with pytest.raises(Unserialisable) as caught:
        json_rows(batch_of([1.0, None, value], pa.float64()), ["x"])

    assert str(caught.value) == (
        "column 'x' cannot be written as JSON: it has NaN or an infinite number, which JSON has "
        "not; replace them, as by NULL"
    )


def test_a_bad_value_inside_of_another_refuses_its_row_alone() -> None:
    kind = pa.struct([("a", pa.list_(pa.float64()))])
    batch = batch_of([{"a": [1.0]}, {"a": [1.0, math.nan]}, {"a": [2.0]}], kind)

    assert json_rows(batch.slice(0, 1), ["x"]) == [b'{"x":{"a":[1.0]}}']
    assert json_rows(batch.slice(2, 1), ["x"]) == [b'{"x":{"a":[2.0]}}']
    with pytest.raises(Unserialisable, match="column 'x' cannot be written as JSON: it has NaN"):
        json_rows(batch.slice(1, 1), ["x"])


def test_text_that_is_no_utf_8_is_refused() -> None:
    broken = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())

    with pytest.raises(Unserialisable, match="it has text that is not valid UTF-8; send it as"):
        json_rows(pa.record_batch({"x": broken}), ["x"])


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (
            pa.duration("us"),
            timedelta(1),
            r"column 'x' cannot be written as JSON: there is no form for the type duration\[us\]; "
            "cast it to another one first",
        ),
        (
            pa.map_(pa.int64(), pa.string()),
            [(1, "a")],
            "there is no form for maps with keys of the type int64; make the keys STRING first",
        ),
    ],
)
def test_types_without_a_json_form_are_refused(
    kind: pa.DataType, value: object, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        json_rows(batch_of([value], kind), ["x"])
