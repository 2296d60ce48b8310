"""What a stream of a log can be told, by its options and by its checkpoint, without Spark."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument, InvalidName, LogTrimmed
from tests.spark.log_worlds import LogWorld, bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

    import penstock
    from tests.servers import RedisServer


@pytest.fixture
def world(ps: penstock.Penstock, server: RedisServer) -> Iterator[LogWorld]:
    with closing(LogWorld(ps, server)) as world:
        yield world


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "option 'endingOffsets' is for a batch; use read, or leave"),
        (
            {"startingOffsets": '{"other": {"0": "latest"}}'},
            "option 'startingOffsets' is about log other, and option 'log' is clicks",
        ),
        ({"startingOffsets": '{"clicks": {"0": "soon"}}'}, "is '.*'; give earliest, latest, or"),
        ({"startingOffsets": '{"clicks": {"x": "latest"}}'}, "is '.*'; give earliest, latest"),
        ({"startingOffsets": "{}"}, "option 'startingOffsets' is '{}'; give earliest, latest"),
        (
            {"startingOffsets": "earliest", "startingTimestamp": "0"},
            "'startingOffsets' and 'startingTimestamp' both say where; give one of them",
        ),
        (
            {"startingTimestamp": "0", "startingOffsetsByTimestamp": '{"clicks": {"0": 5}}'},
            "'startingTimestamp' and 'startingOffsetsByTimestamp' both say where; give one of",
        ),
        (
            {"startingOffsetsByTimestamp": '{"clicks": {"0": "noon"}}'},
            r"'startingOffsetsByTimestamp' is '.*'; give JSON with a time of each partition, such",
        ),
        ({"startingOffsetsByTimestamp": '{"clicks": {"born": 5}}'}, "is '.*'; give JSON with a"),
        (
            {"startingOffsetsByTimestamp": '{"other": {"0": 5}}'},
            "option 'startingOffsetsByTimestamp' is about log other, and option 'log' is clicks",
        ),
        ({"endingOffsetsByTimestamp": '{"clicks": {"0": 5}}'}, "is for a batch; use read, or"),
        ({"maxOffsetsPerTrigger": "0"}, "option 'maxOffsetsPerTrigger' is '0'; give a whole"),
        ({"startingTimestamp": "noon"}, "'startingTimestamp' is 'noon'; give an instant in ISO"),
    ],
)
def test_options_that_cannot_be_are_refused(
    world: LogWorld, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        world.stream(**options)


@pytest.mark.parametrize(
    ("option", "value"), [("startingOffsets", '"earliest"'), ("startingOffsetsByTimestamp", "5")]
)
def test_a_partition_that_is_not_there_is_refused(world: LogWorld, option: str, value: str) -> None:
    world.append(1)

    with pytest.raises(
        InvalidArgument,
        match=f"option '{option}' is about partition 2, and log 'clicks' has partitions 0 to 1",
    ):
        world.stream(**{option: f'{{"clicks": {{"2": {value}}}}}'})


def test_a_reader_has_a_name_that_can_be_shown(world: LogWorld) -> None:
    with pytest.raises(InvalidName, match=r"reader name .* holds a control character"):
        world.stream(reader="a\n")


def test_a_checkpoint_belongs_to_one_log(world: LogWorld) -> None:
    stream = world.stream({"orders": {"born": "5", "0": "0-0"}})

    with pytest.raises(InvalidArgument, match="that of a stream of log orders, and not of clicks"):
        stream.plan()


def test_offsets_of_a_query_can_begin_another(world: LogWorld) -> None:
    world.append(10)
    offset = world.stream().offset
    new = world.append(4)

    again = world.stream(startingOffsets=json.dumps(offset))
    assert bodies(again.next_batch()) == new

    world.log.delete()
    world.append(4)
    with pytest.raises(LogTrimmed, match="made anew"):
        world.stream(startingOffsets=json.dumps(offset))


@pytest.mark.parametrize("place", ["1-0", "9999999999999-0"])
def test_a_message_that_is_not_there_any_more_is_no_start(world: LogWorld, place: str) -> None:
    world.append(10, partition=0)
    world.log.trim(id=world.ids()[5], partition=0)
    starts = json.dumps({"clicks": {"0": place}})

    with pytest.raises(LogTrimmed):
        world.stream(startingOffsets=starts)
    world.stream(startingOffsets=starts, failOnDataLoss="false").plan()
