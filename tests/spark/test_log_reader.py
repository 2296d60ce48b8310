"""A batch read of a log without Spark: columns, and where it begins and ends."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument, LogNotFound, LogTrimmed
from tests.spark.log_worlds import LogWorld, bodies

if TYPE_CHECKING:
    import penstock
    from tests.servers import RedisServer


@pytest.fixture
def world(ps: penstock.Penstock, server: RedisServer) -> LogWorld:
    return LogWorld(ps, server)


def test_a_row_has_all_of_a_message(world: LogWorld) -> None:
    at = "2026-11-15T00:00:00.250Z"
    headers = {"browser": "firefox", "page": "ä"}
    world.log.append(b"\xff\x00", key="user-ü", headers=headers, at=at, partition=1)
    [message] = world.log.page(1)

    assert world.batch() == [
        {
            "key": "user-ü",
            "body": b"\xff\x00",
            "headers": list(headers.items()),
            "partition": 1,
            "offset": message.id,
            "timestamp": datetime.fromisoformat(at),
        }
    ]


def test_messages_with_and_without_parts_stand_beside_each_other(world: LogWorld) -> None:
    world.log.append(b"1", partition=0)
    world.log.append(b"2", partition=0, key="k")
    world.log.append(b"3", partition=0, headers={"a": "b"})
    world.log.append(b"4", partition=0, at=5)

    rows = world.batch()

    assert [row["body"] for row in rows] == [b"1", b"2", b"3", b"4"]
    assert [row["key"] for row in rows] == [None, "k", None, None]
    assert [row["headers"] for row in rows] == [[], [], [("a", "b")], []]
    expected = [message.at for message in world.log.page(0)]
    assert [row["timestamp"] for row in rows] == [
        datetime.fromtimestamp(at, UTC) for at in expected
    ]
    assert rows[3]["timestamp"] == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)


def test_messages_of_bodies_alone_have_no_key_and_no_headers(world: LogWorld) -> None:
    sent = world.append(3)

    rows = world.batch()

    assert bodies(rows) == sent
    assert {row["key"] for row in rows} == {None}
    assert [row["headers"] for row in rows] == [[], [], []]


def test_a_batch_goes_from_one_message_to_another(world: LogWorld) -> None:
    sent = world.append(10, partition=0)
    world.append(5, partition=1)
    ids = world.ids()
    starts, ends = {"clicks": {"0": ids[2], "1": "latest"}}, {"clicks": {"0": ids[6]}}

    rows = world.batch(startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends))

    assert bodies(rows) == sent[3:7]


def test_a_batch_goes_from_one_time_to_another(world: LogWorld) -> None:
    world.append(50)
    every = [*world.log.read()]
    middle_ms = int(every[25].appended_at * 1000)

    before = world.batch(endingTimestamp=str(middle_ms))
    after = world.batch(startingTimestamp=str(middle_ms))

    assert len(before) + len(after) == 50
    assert all(int(row["offset"].partition("-")[0]) < middle_ms for row in before)
    assert all(int(row["offset"].partition("-")[0]) >= middle_ms for row in after)
    assert len(world.batch(endingTimestamp="2999-01-01T00:00Z")) == 50
    assert world.batch(endingTimestamp="1") == []


def test_a_batch_goes_from_one_time_to_another_in_each_partition(world: LogWorld) -> None:
    world.append(50)
    middle_ms = int(world.ids(0)[12].partition("-")[0])
    times = json.dumps({"clicks": {"0": middle_ms}})

    before = world.batch(endingOffsetsByTimestamp=times)
    after = world.batch(startingOffsetsByTimestamp=times)

    of_first = [[row for row in rows if row["partition"] == 0] for rows in (before, after)]
    assert all(int(row["offset"].partition("-")[0]) < middle_ms for row in of_first[0])
    assert all(int(row["offset"].partition("-")[0]) >= middle_ms for row in of_first[1])
    assert sum(map(len, of_first)) == 25
    assert [sum(row["partition"] == 1 for row in rows) for rows in (before, after)] == [25, 25]


def test_a_batch_begins_with_what_is_left(world: LogWorld) -> None:
    sent = world.append(10, partition=0)
    ids = world.ids()
    world.log.trim(id=ids[4], partition=0)

    assert bodies(world.batch()) == sent[4:]
    with pytest.raises(LogTrimmed, match="were removed before they were read"):
        world.batch(startingTimestamp="1")
    assert bodies(world.batch(startingTimestamp="1", failOnDataLoss="false")) == sent[4:]


def test_a_log_must_be_there(world: LogWorld) -> None:
    with pytest.raises(LogNotFound, match="there is no log 'clicks'"):
        world.batch()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reader": "x"}, "option 'reader' is for a stream; use readStream, or leave it out"),
        ({"startingOffsets": "latest"}, "a batch that begins with the latest message"),
        ({"endingOffsets": "earliest"}, "or ends with the earliest, has none"),
    ],
)
def test_options_that_cannot_be_are_refused(
    world: LogWorld, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        world.batch(**options)
