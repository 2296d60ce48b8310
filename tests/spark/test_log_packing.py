"""Rows become chunks column by column, as if each had been packed by itself. No server."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pyarrow as pa
import pytest

from penstock.model.logs import MAX_KEY_BYTES
from penstock.model.staging import MAX_CHUNK_TASKS
from penstock.spark.log_packing import MessageChunk, MessagePacker

if TYPE_CHECKING:
    from collections.abc import Iterable

COLUMNS: dict[str, tuple[Any, list[Any]]] = {
    "body": (pa.binary(), [b"", b"y" * 700]),
    "key": (pa.string(), [None, "a", "é" * (MAX_KEY_BYTES // 2)]),
    "headers": (pa.map_(pa.string(), pa.string()), [None, [], [("a", "b")]]),
    "partition": (pa.int32(), [None, 0, 2]),
    "timestamp": (pa.timestamp("us", "UTC"), [None, 0, 1_763_000_000_123_456, -2_000_000]),
}
PARTITIONS = 3

Row = dict[str, Any]


def packed(packer: MessagePacker, batches: Iterable[list[Row]]) -> list[MessageChunk]:
    """The chunks of all rows, none of which is refused."""

    def refuse(row: int, reason: str) -> None:
        raise AssertionError(f"row {row} is refused: {reason}")

    chunks = [chunk for rows in batches for chunk in packer.pack(record_batch(rows), refuse)]
    return [*chunks, *packer.rest()]


def record_batch(rows: list[Row]) -> pa.RecordBatch:
    names = COLUMNS if not rows else rows[0]
    arrays = {name: pa.array([row[name] for row in rows], COLUMNS[name][0]) for name in names}
    return pa.record_batch(arrays)


def strings_in(chunk: MessageChunk) -> list[bytes]:
    """What a script finds in a chunk."""
    found, at = [], 5
    assert chunk.data[:1] == b"\xdd"
    while at < len(chunk.data):
        if chunk.data[at] == 0xA0:
            found.append(b"")
            at += 1
            continue
        assert chunk.data[at] == 0xDB
        end = at + 5 + int.from_bytes(chunk.data[at + 1 : at + 5])
        found.append(chunk.data[at + 5 : end])
        at = end
    assert len(found) == int.from_bytes(chunk.data[1:5]) == 4 * chunk.rows
    return found


def stored(row: Row) -> list[bytes]:
    key, at, headers = row.get("key"), row.get("timestamp"), row.get("headers")
    return [
        row["body"],
        b"" if key is None else key.encode(),
        b'{"a":"b"}' if headers else b"",
        b"" if at is None else b"%d" % (at // 1000),
    ]


@pytest.mark.parametrize("columns", [["body"], ["body", "key"], list(COLUMNS)])
def test_messages_are_packed_in_order_where_they_belong(columns: list[str]) -> None:
    choose = random.Random(7).choice
    rows = [{name: choose(COLUMNS[name][1]) for name in columns} for _ in range(6200)]
    for number, row in enumerate(rows):
        row["body"] += b"%06d" % number
    batches = [rows[:0], rows[:1], rows[1:5000], rows[5000:]]

    chunks = packed(MessagePacker(columns, PARTITIONS, 1000), batches)

    places: dict[bytes, int] = {}
    for number in range(PARTITIONS):
        strings = [s for chunk in chunks if chunk.partition == number for s in strings_in(chunk)]
        found = [strings[at : at + 4] for at in range(0, len(strings), 4)]
        bodies = [body for body, *_ in found]
        there = set(bodies)
        assert found == [stored(row) for row in rows if row["body"] in there]
        places |= dict.fromkeys(bodies, number)
    assert len(places) == len(rows)
    given = [row for row in rows if row.get("partition") is not None]
    keyed = [row for row in rows if row.get("partition") is None and row.get("key") is not None]
    others = [row for row in rows if row.get("partition") is None and row.get("key") is None]
    assert [places[row["body"]] for row in given] == [row["partition"] for row in given]
    assert [places[row["body"]] for row in keyed] == [
        crc32(row["key"].encode()) % PARTITIONS for row in keyed
    ]
    first = places[others[0]["body"]]
    assert [places[row["body"]] for row in others] == [
        (first + turn) % PARTITIONS for turn in range(len(others))
    ]
    assert max(chunk.rows for chunk in chunks) == MAX_CHUNK_TASKS
