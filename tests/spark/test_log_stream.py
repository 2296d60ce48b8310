"""A stream of a log as Spark runs it, without Spark: offsets, limits, marks, losses."""

from __future__ import annotations

import json
import pickle
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidArgument, LogTrimmed, WrongKind
from penstock.spark import mark_offsets
from penstock.spark.log_planning import share_parts
from tests.spark.log_worlds import LogWorld, Stream, bodies, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import penstock
    from tests.servers import RedisServer


@pytest.fixture
def world(ps: penstock.Penstock, server: RedisServer) -> Iterator[LogWorld]:
    with closing(LogWorld(ps, server)) as world:
        yield world


def test_each_message_comes_once(world: LogWorld) -> None:
    first = world.append(3)
    stream = world.stream(startingOffsets="earliest")

    assert bodies(stream.next_batch()) == first
    assert stream.next_batch() == []
    second = world.append(5000)
    assert bodies(stream.next_batch()) == second


def test_a_range_reads_the_same_again(world: LogWorld) -> None:
    world.append(50)
    stream = world.stream(startingOffsets="earliest", minPartitions="7")
    start, end = stream.offset, stream.plan()
    before = stream.read(start, end)
    world.append(50)

    assert stream.read(start, end) == before
    assert len(before) == 50


def test_without_a_word_a_stream_begins_with_what_comes(world: LogWorld) -> None:
    world.append(3)
    stream = world.stream()
    new = world.append(2)

    assert bodies(stream.next_batch()) == new


def test_a_stream_can_begin_at_a_message_of_each_partition(world: LogWorld) -> None:
    all_bodies = world.append(6, partition=0)
    starts = {"clicks": {"0": world.ids()[3], "1": "earliest"}}

    stream = world.stream(startingOffsets=json.dumps(starts))

    assert bodies(stream.next_batch()) == all_bodies[4:]


def test_a_stream_can_begin_at_a_time(world: LogWorld) -> None:
    world.append(3, partition=0)
    last_ms = int(world.ids()[-1].partition("-")[0])
    while not (found := world.log.page(0, after=f"{last_ms}-9999")):
        new = world.append(1, partition=0)
    later_ms = int(found[0].appended_at * 1000)

    stream = world.stream(startingTimestamp=str(later_ms))

    assert bodies(stream.next_batch()) == new
    with pytest.raises(InvalidArgument, match=r"'startingTimestamp' lies \d+ s ahead of the store"):
        world.stream(startingTimestamp="2999-01-01T00:00Z")


def test_a_stream_can_begin_at_a_time_of_each_partition(world: LogWorld) -> None:
    world.append(3)
    new = world.append(2, partition=1)
    later_ms = int(world.ids(1)[-2].partition("-")[0])
    times = json.dumps({"clicks": {"1": later_ms}})

    rows = world.stream(startingOffsetsByTimestamp=times).next_batch()

    assert {row["partition"] for row in rows} == {1}  # the other begins with what comes
    assert {row["body"] for row in rows} >= set(new)
    assert all(int(row["offset"].partition("-")[0]) >= later_ms for row in rows)
    with pytest.raises(InvalidArgument, match=r"'startingOffsetsByTimestamp' lies \d+ s ahead of"):
        world.stream(startingOffsetsByTimestamp='{"clicks": {"0": "2999-01-01T00:00Z"}}')


def test_progress_says_how_far_a_stream_is_behind(world: LogWorld) -> None:
    world.append(10)
    stream = world.stream(startingOffsets="earliest", maxOffsetsPerTrigger="4", reader="dashboard")
    lags = []
    for _ in range(4):
        stream.next_batch()
        lags.append(stream.reader.reportLatestOffset()["clicks"].pop("lag"))

    assert [lag["messages"] for lag in lags] == [6, 2, 0, 0]
    waited = [lag["seconds"] for lag in lags]
    assert waited[0] > 0 and waited[2:] == [0, 0]
    assert sum(lag.messages for lag in world.log.lag()) == 0  # the same, once it is committed
    latest = json.dumps(stream.reader.reportLatestOffset())
    assert '"lag"' in latest
    assert world.stream(startingOffsets=latest).offset == stream.offset


def test_a_stream_can_wait_for_a_log(world: LogWorld) -> None:
    stream = world.stream(reader="dashboard")
    assert stream.offset == {"clicks": {"born": ""}}
    assert stream.next_batch() == []

    first = world.append(3)

    assert bodies(stream.next_batch()) == first


def test_a_partition_that_is_added_is_read_from_its_beginning(world: LogWorld) -> None:
    world.append(3)
    stream = world.stream()
    world.log.configure(partitions=3)
    new = world.append(2, partition=2)

    assert bodies(stream.next_batch()) == new


def test_offsets_name_the_log_and_the_last_message_of_each_partition(world: LogWorld) -> None:
    world.append(3, partition=1)
    stream = world.stream()

    expected = {"born": world.log.facts().born, "0": "0-0", "1": world.ids(1)[-1]}
    assert stream.offset == {"clicks": expected}
    assert list(stream.offset["clicks"]) == ["born", "0", "1"]
    assert stream.reader.reportLatestOffset() == stream.offset


def test_a_trigger_reads_so_many_messages_and_no_more(world: LogWorld) -> None:
    world.append(900, partition=0)
    world.append(100, partition=1)
    stream = world.stream(startingOffsets="earliest", maxOffsetsPerTrigger="300")

    batches = [stream.next_batch() for _ in range(5)]

    assert [len(batch) for batch in batches] == [300, 300, 300, 100, 0]
    assert 25 <= sum(row["partition"] == 1 for row in batches[0]) <= 35
    assert len({(row["partition"], row["offset"]) for batch in batches for row in batch}) == 1000


def test_what_comes_after_the_start_of_a_bounded_run_is_left_for_the_next(world: LogWorld) -> None:
    first = world.append(5)
    stream = world.stream(startingOffsets="earliest", maxOffsetsPerTrigger="3")
    stream.reader.prepareForTriggerAvailableNow()
    world.append(3)
    world.log.configure(partitions=3)
    world.append(1, partition=2)

    batches = [stream.next_batch() for _ in range(3)]

    assert bodies(batches[0] + batches[1]) == first
    assert batches[2] == []


def test_there_are_at_least_so_many_partitions(world: LogWorld) -> None:
    world.append(990, partition=0)
    world.append(10, partition=1)
    stream = world.stream(startingOffsets="earliest", minPartitions="5")

    parts = stream.parts()
    sizes = [len(rows_of(list(stream.reader.read(part)))) for part in parts]

    assert len(world.stream(startingOffsets="earliest").parts()) == 2
    assert sizes == [198] * 5 + [10]


@pytest.mark.parametrize(
    ("least", "sizes", "parts"),
    [(4, [50, 50], [2, 2]), (5, [990, 10], [5, 1]), (9, [2], [2]), (3, [0, 0], [1, 1])],
)
def test_parts_are_shared_by_size(least: int, sizes: list[int], parts: list[int]) -> None:
    assert share_parts(least, sizes) == parts


def test_messages_are_kept_for_a_named_reader(world: LogWorld) -> None:
    world.log.configure(keep_count=100)
    world.append(10)
    stream = world.stream(reader="dashboard")
    stream.plan()

    new = world.append(2000)

    assert bodies(stream.next_batch()) == new
    assert {lag.reader: lag.messages for lag in world.log.lag()} == {"dashboard": 1000}


def test_a_commit_lets_go_what_was_read(world: LogWorld) -> None:
    world.log.configure(keep_count=100)
    stream = world.stream(reader="dashboard", startingOffsets="earliest")
    stream.plan()
    world.append(2000)
    stream.next_batch()
    world.append(10)

    stream.next_batch()  # and with it the commit of the first
    world.append(10)

    assert world.log.info().messages < 600
    assert {lag.messages for lag in world.log.lag()} == {10}


def test_nothing_is_trimmed_of_a_partition_that_was_empty_when_it_was_marked(
    world: LogWorld,
) -> None:
    world.log.configure(keep_count=100)
    world.append(1, partition=0)
    stream = world.stream(reader="dashboard")
    stream.plan()

    world.log.append_many([b"x"] * 2000)

    assert len(stream.next_batch()) == 2000


def test_a_run_that_is_over_is_marked_by_the_driver_that_ran_it(
    world: LogWorld, ps: penstock.Penstock
) -> None:
    world.append(6)
    stream = world.stream(reader="dashboard", startingOffsets="earliest")
    stream.next_batch()

    mark_offsets(ps, "dashboard", stream.offset)

    assert [lag.messages for lag in world.log.lag()] == [0, 0]


def test_a_reader_has_no_name_of_a_group(world: LogWorld) -> None:
    world.append(6)
    world.log.group("billing").take(0, "w1")

    with pytest.raises(WrongKind, match="'billing' is a group of consumers"):
        world.stream(reader="billing").plan()


def test_messages_that_are_for_one_group_alone_are_passed_over(world: LogWorld) -> None:
    first = world.append(3, partition=0)
    group = world.log.group("billing")
    taken = group.take(0, "w1")
    group.note_error(0, taken.epoch, world.log.page(0)[0], "no", 5)
    stream = world.stream(startingOffsets="earliest")
    group.replay()

    assert bodies(stream.next_batch()) == first


def test_messages_trimmed_before_a_stream_came_are_an_error(world: LogWorld) -> None:
    world.append(10, partition=0)
    stream = world.stream()
    world.append(10, partition=0)
    world.log.trim(id=world.ids()[15], partition=0, force=True)

    with pytest.raises(
        LogTrimmed,
        match=r"messages of partition 0 of log 'clicks' after .* were removed before they were "
        r"read; the last that is gone is .*; to go on with what is there, use the option "
        r"failOnDataLoss=false, or --skip-gap on the command line; to have messages kept for a "
        r"stream, name it with the option",
    ) as raised:
        stream.plan()
    assert raised.value.trimmed_to < world.ids()[0]


def test_messages_trimmed_up_to_where_a_stream_was_are_no_loss(world: LogWorld) -> None:
    world.append(10, partition=0)
    stream = world.stream()
    new = world.append(10, partition=0)
    world.log.trim(id=world.ids()[10], partition=0)

    assert bodies(stream.next_batch()) == new


@pytest.mark.parametrize("how", ["trimmed", "made anew", "emptied"])
def test_messages_lost_while_they_are_read_are_an_error(world: LogWorld, how: str) -> None:
    world.append(10, partition=0)
    stream = world.stream(startingOffsets="earliest")
    [part] = stream.parts()
    lose(world, how)

    with pytest.raises(LogTrimmed):
        list(stream.reader.read(part))


def test_a_planned_batch_whose_log_was_made_anew_is_an_error(world: LogWorld) -> None:
    stream = world.stream(startingOffsets="earliest")
    world.append(3)
    end = stream.plan()
    lose(world, "made anew")

    with pytest.raises(LogTrimmed, match="log 'clicks' was deleted and made anew; to go on"):
        stream.read(stream.offset, end)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("trimmed", "were removed before they were read"),
        ("made anew", "log 'clicks' was deleted and made anew"),
        ("gone", "log 'clicks' is gone"),
        ("emptied", "is empty and does not have message .*, which it had: the store was emptied"),
        ("put back", "ends at .* and does not have message .*, which it had"),
    ],
)
def test_what_a_stream_has_lost_is_an_error(world: LogWorld, how: str, message: str) -> None:
    world.append(10, partition=0)
    stream = world.stream()
    lose(world, how)

    with pytest.raises(LogTrimmed, match=message):
        stream.plan()


@pytest.mark.parametrize("how", ["trimmed", "made anew", "gone", "emptied", "put back"])
def test_a_stream_can_go_on_behind_a_gap(world: LogWorld, how: str) -> None:
    world.append(10, partition=0)
    stream = world.stream(failOnDataLoss="false")
    lose(world, how)
    new = world.append(5, partition=0)

    assert bodies(stream.next_batch())[-5:] == new
    assert stream.next_batch() == []


def test_a_bounded_run_passes_over_one_loss_and_leaves_the_next(world: LogWorld) -> None:
    world.append(10, partition=0)
    stream = world.stream(failOnDataLoss="false", maxOffsetsPerTrigger="1")
    lose(world, "trimmed")
    stream.reader.prepareForTriggerAvailableNow()
    first = stream.next_batch()
    world.log.trim(id=world.ids()[-1], partition=0, force=True)

    assert len(first) == 1
    assert stream.next_batch() == []
    with pytest.raises(LogTrimmed, match="were removed before they were read"):
        world.stream(stream.offset).plan()


def lose(world: LogWorld, how: str) -> None:
    if how == "trimmed":
        world.append(5, partition=0)
        world.log.trim(id=world.ids()[12], partition=0, force=True)
    elif how in ("gone", "made anew"):
        world.log.delete()
    else:
        world.empty()
    if how in ("made anew", "put back"):
        world.append(2, partition=0)


def test_a_reader_goes_to_executors_without_its_connection(world: LogWorld) -> None:
    world.append(3)
    stream = world.stream(startingOffsets="earliest")
    end = stream.plan()

    copy: Any = pickle.loads(pickle.dumps(stream.reader))

    assert len(Stream(copy, stream.offset).read(stream.offset, end)) == 3
    copy.stop()
