"""Columns of messages: each way of making them gives what a message says of itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.model.logs import Message
from penstock.spark.log_columns import SCHEMA, message_batch
from penstock.spark.pages import read_pages

if TYPE_CHECKING:
    import pyarrow as pa

    import penstock
    from tests.servers import RedisServer

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PLAIN = [[b"1795022000000-0", [b"b", b"1"]], [b"1795022000000-1", [b"b", b""]]]
KEYED = [[b"1795022000001-0", [b"b", b"\xff\x00", b"k", "user-ü".encode()]]]
WHOLE = [
    [b"1795022000002-0", [b"b", b"3", b"k", b"", b"h", b'{"a":"b"}', b"t", b""]],
    [b"1795022000003-0", [b"b", b"4", b"k", b"x", b"h", b"", b"t", b"-86400001"]],
]


def expected(partition: int, entries: list[Any]) -> list[dict[str, Any]]:
    """What the messages themselves say."""
    messages = [Message(partition, id, fields) for id, fields in entries]
    return [
        {
            "key": message.key,
            "body": message.body,
            "headers": list(message.headers.items()),
            "partition": partition,
            "offset": message.id,
            "timestamp": _EPOCH + timedelta(milliseconds=round(1000 * message.at)),
        }
        for message in messages
    ]


@pytest.mark.parametrize(
    "entries",
    [
        [],
        PLAIN,
        PLAIN + KEYED,
        KEYED + WHOLE + PLAIN,
        [[b"9-0", [b"b", b"early"]], *PLAIN],
        [[b"10000000000000-7", [b"b", b"late"]], [b"17950220000011-0", [b"b", b"later"]]],
    ],
    ids=["none", "plain", "some with keys", "all parts", "few digits", "many digits"],
)
def test_a_row_is_what_its_message_says(entries: list[Any]) -> None:
    batch = message_batch(3, entries)

    assert batch.schema == SCHEMA
    batch.validate(full=True)
    assert batch.to_pylist() == expected(3, entries)


def test_messages_that_were_appended_again_for_one_group_are_passed_over() -> None:
    again = [b"1795022000009-0", [*WHOLE[0][1], b"g", b"mail"]]

    assert message_batch(0, [again, *PLAIN]).to_pylist() == expected(0, PLAIN)
    assert message_batch(0, [again]).num_rows == 0


@pytest.mark.parametrize("size", [1, 30_000])
def test_pages_have_many_small_messages_or_few_large_ones(
    ps: penstock.Penstock, server: RedisServer, size: int
) -> None:
    log = ps.log("clicks")
    sent = [b"%05d" % number + b"x" * size for number in range(1200)]
    log.append_many(sent)
    key = ps.keys.queue("clicks").partition(0).messages

    def open_page(found: list[Any]) -> pa.RecordBatch:
        return message_batch(0, found)

    batches = list(read_pages(ps.store, key, "0-0", "+", open_page))

    bodies = [body for batch in batches for body in batch.column("body").to_pylist()]
    assert bodies == sent
    # The third request is the first for which it is known how large messages are.
    assert [batch.num_rows for batch in batches][:3] == [500, 500, 200 if size == 1 else 34]
