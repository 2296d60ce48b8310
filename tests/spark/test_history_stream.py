"""A stream of history as Spark runs it, without Spark: offsets, limits, marks, losses."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import HistoryLost, InvalidArgument
from penstock.spark.history_offsets import mark_offsets, share_limit
from tests.spark.history_worlds import AT_MOST, EVERYTHING, HistoryWorld, Rows, Stream

if TYPE_CHECKING:
    import penstock
    from tests.servers import RedisServer


@pytest.fixture
def world(ps: penstock.Penstock, server: RedisServer) -> HistoryWorld:
    return HistoryWorld(ps, server)


@pytest.fixture
def short(ps: penstock.Penstock) -> penstock.Jobs:
    """A queue that keeps little history unless somebody reads it."""
    jobs = ps.jobs("mail")
    jobs.configure(history_length=100)
    return jobs


def ids(rows: Rows) -> list[str]:
    return [row["job"] for row in rows]


def test_each_entry_comes_once(world: HistoryWorld) -> None:
    first = world.end_jobs(3)
    stream = world.stream(startingOffsets="earliest")

    assert ids(stream.next_batch()) == first
    assert stream.next_batch() == []
    second = world.end_jobs(2)
    assert ids(stream.next_batch()) == second


def test_a_range_reads_the_same_again(world: HistoryWorld) -> None:
    world.end_jobs(3)
    stream = world.stream(startingOffsets="earliest", entries_per_partition="1")
    start, end = stream.offset, stream.plan()
    before = stream.read(start, end)
    world.end_jobs(3)

    assert stream.read(start, end) == before
    assert len(before) == 3


def test_without_a_word_a_stream_begins_with_what_comes(world: HistoryWorld) -> None:
    world.end_jobs(3)
    stream = world.stream()
    new = world.end_jobs(2)

    assert ids(stream.next_batch()) == new


def test_a_stream_can_begin_at_a_place(world: HistoryWorld, ps: penstock.Penstock) -> None:
    all_ids = world.end_jobs(3)
    place = ps.jobs("mail").history()[0].place

    stream = world.stream(startingOffsets=json.dumps({"mail": place}))

    assert ids(stream.next_batch()) == all_ids[1:]


def test_a_stream_can_wait_for_a_queue(world: HistoryWorld) -> None:
    stream = world.stream(startingOffsets="earliest", reader="lake")
    assert stream.offset == {"mail": ["", "0-0"]}
    assert stream.next_batch() == []

    first = world.end_jobs(3)

    assert ids(stream.next_batch()) == first


def test_offsets_name_the_incarnation_and_the_last_entry(
    world: HistoryWorld, ps: penstock.Penstock
) -> None:
    world.end_jobs(2)
    world.end_jobs(1, "images")
    stream = world.stream(history="mail,images")
    bounds = ps.jobs("mail").history_bounds()

    assert list(stream.offset) == ["images", "mail"]
    assert stream.offset["mail"] == [bounds.incarnation, bounds.last]
    assert stream.reader.reportLatestOffset() == stream.offset


def test_a_trigger_reads_so_many_rows_and_no_more(world: HistoryWorld) -> None:
    all_ids = world.end_jobs(5)
    stream = world.stream(startingOffsets="earliest", maxRowsPerTrigger="2")

    batches = [ids(stream.next_batch()) for _ in range(4)]

    assert batches == [all_ids[:2], all_ids[2:4], all_ids[4:], []]


def test_a_limit_may_be_more_than_one_step(world: HistoryWorld) -> None:
    all_ids = world.end_jobs(4500)
    stream = world.stream(startingOffsets="earliest")

    end = stream.plan(AT_MOST(4100))

    assert ids(stream.read(stream.offset, end)) == all_ids[:4100]
    assert len(stream.read(stream.offset, stream.plan(EVERYTHING))) == 4500


def test_what_comes_after_the_start_of_a_bounded_run_is_left_for_the_next(
    world: HistoryWorld,
) -> None:
    first = world.end_jobs(3)
    stream = world.stream(startingOffsets="earliest", maxRowsPerTrigger="2")
    stream.reader.prepareForTriggerAvailableNow()
    world.end_jobs(3)

    assert [ids(stream.next_batch()) for _ in range(3)] == [first[:2], first[2:], []]


def test_history_is_kept_for_a_named_reader(world: HistoryWorld, short: penstock.Jobs) -> None:
    world.end_jobs(10)
    stream = world.stream(reader="lake")
    stream.plan()

    new = world.end_jobs(1000)

    assert ids(stream.next_batch()) == new
    assert len(short.history(limit=10_000)) == 1010


def test_a_commit_lets_go_what_was_read(world: HistoryWorld, short: penstock.Jobs) -> None:
    stream = world.stream(reader="lake", startingOffsets="earliest")
    stream.plan()
    world.end_jobs(1000)
    stream.next_batch()
    world.end_jobs(10)

    stream.next_batch()  # and with it the commit of the first

    assert len(short.history(limit=10_000)) < 400
    [mark] = short.history_bounds().marks
    assert mark.reader == "lake"


def test_a_run_that_is_over_is_marked_by_the_driver_that_ran_it(
    world: HistoryWorld, ps: penstock.Penstock
) -> None:
    world.end_jobs(3)
    stream = world.stream(reader="lake", startingOffsets="earliest")
    stream.next_batch()

    mark_offsets(ps, "lake", stream.offset)

    bounds = ps.jobs("mail").history_bounds()
    assert [mark.place for mark in bounds.marks] == [bounds.last]


def test_entries_trimmed_before_a_stream_without_a_name_came_are_an_error(
    world: HistoryWorld, short: penstock.Jobs
) -> None:
    world.end_jobs(10)
    stream = world.stream()
    end_before = stream.plan()
    world.end_jobs(1000)

    with pytest.raises(
        HistoryLost,
        match=r"entries of the history of queue 'mail' after .* were removed before they were "
        r"read; the oldest is .*; to go on with what is there, use the option "
        r"failOnDataLoss=false, or --skip-gap on the command line",
    ):
        stream.plan()
    assert end_before == stream.offset


def test_entries_trimmed_while_they_are_read_are_an_error(
    world: HistoryWorld, short: penstock.Jobs
) -> None:
    stream = world.stream(startingOffsets="earliest")
    world.end_jobs(10)
    [part] = stream.reader.partitions(stream.offset, stream.plan())
    world.end_jobs(1000)

    with pytest.raises(HistoryLost, match="were removed before they were read"):
        list(stream.reader.read(part))


def test_a_queue_that_was_made_anew_is_an_error(world: HistoryWorld) -> None:
    world.end_jobs(3)
    stream = world.stream()
    world.reset()
    world.end_jobs(2)

    with pytest.raises(
        HistoryLost, match="queue 'mail' was deleted and made anew, and its history"
    ):
        stream.plan()


def test_a_queue_that_is_gone_is_an_error(world: HistoryWorld) -> None:
    world.end_jobs(3)
    stream = world.stream()
    world.reset()

    with pytest.raises(HistoryLost, match="queue 'mail' is gone, and its history with it"):
        stream.plan()


def test_a_store_that_was_put_back_is_an_error(world: HistoryWorld, ps: penstock.Penstock) -> None:
    world.end_jobs(3)
    stream = world.stream()
    key = ps.keys.queue("mail").history
    ps.store.call(key, "DEL", key)

    with pytest.raises(HistoryLost, match="the store was emptied, or is an older copy"):
        stream.plan()


@pytest.mark.parametrize("how", ["trimmed", "made anew", "emptied"])
def test_a_stream_can_go_on_behind_a_gap(
    world: HistoryWorld, ps: penstock.Penstock, short: penstock.Jobs, how: str
) -> None:
    world.end_jobs(10)
    stream = world.stream(failOnDataLoss="false")
    if how == "trimmed":
        world.end_jobs(1000)
    elif how == "made anew":
        world.reset()
    else:
        key = ps.keys.queue("mail").history
        ps.store.call(key, "DEL", key)
    new = world.end_jobs(5)

    assert ids(stream.next_batch())[-5:] == new
    assert stream.next_batch() == []


def test_a_query_with_an_end_passes_over_one_loss_and_leaves_the_next_to_another(
    world: HistoryWorld, ps: penstock.Penstock, server: RedisServer
) -> None:
    first = world.stream(startingOffsets="earliest")
    world.end_jobs(3)
    first.next_batch()
    world.end_jobs(7)
    server.command("XTRIM", ps.keys.queue("mail").history, "MAXLEN", 2)
    second = world.stream(first.offset, failOnDataLoss="false")
    second.reader.prepareForTriggerAvailableNow()

    assert len(second.next_batch()) == 2
    world.reset()
    world.end_jobs(4)

    assert second.plan() == second.offset
    with pytest.raises(HistoryLost, match="was deleted and made anew"):
        world.stream(second.offset).plan()
    third = world.stream(second.offset, failOnDataLoss="false")
    third.reader.prepareForTriggerAvailableNow()
    assert len(third.next_batch()) == 4


def test_a_planned_batch_whose_queue_was_made_anew_is_an_error(world: HistoryWorld) -> None:
    stream = world.stream(startingOffsets="earliest")
    world.end_jobs(3)
    end = stream.plan()
    world.reset()
    world.end_jobs(2)

    with pytest.raises(HistoryLost, match="was deleted and made anew"):
        stream.read(stream.offset, end)


def test_a_reader_goes_to_executors_without_its_connection(world: HistoryWorld) -> None:
    world.end_jobs(3)
    stream = world.stream(startingOffsets="earliest")
    end = stream.plan()

    copy: Any = pickle.loads(pickle.dumps(stream.reader))

    assert len(Stream(copy, stream.offset).read(stream.offset, end)) == 3


def test_a_queue_that_is_added_begins_as_in_a_new_query(world: HistoryWorld) -> None:
    world.end_jobs(3)
    offset = world.stream().offset
    new = world.end_jobs(2, "images")

    again = world.stream(history="mail,images", startingOffsets="earliest")

    assert ids(Stream(again.reader, offset).next_batch()) == new


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"since": "2026-11-15T00:00Z"}, "option 'since' is for a batch; use read, or leave it"),
        (
            {"startingOffsets": '{"other": "latest"}'},
            "option 'startingOffsets' names other, and option 'history' does not; it names mail",
        ),
        (
            {"startingOffsets": '{"mail": "soon"}'},
            "option 'startingOffsets' is '.*'; give earliest",
        ),
        ({"startingOffsets": "{}"}, "option 'startingOffsets' is '{}'; give earliest, latest, or"),
        ({"maxRowsPerTrigger": "0"}, "option 'maxRowsPerTrigger' is '0'; give a whole number"),
    ],
)
def test_options_that_cannot_be_are_refused(
    world: HistoryWorld, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        world.stream(**options)


@pytest.mark.parametrize(
    ("limit", "lags", "shares"),
    [
        (10, {"a": 5, "b": 5}, {"a": 5, "b": 5}),
        (10, {"a": 900, "b": 100}, {"a": 9, "b": 1}),
        (1, {"a": 1, "b": 9}, {"a": 0, "b": 1}),
        (10, {}, {}),
    ],
)
def test_a_limit_is_shared_by_how_far_each_queue_is_behind(
    limit: int, lags: dict[str, int], shares: dict[str, int]
) -> None:
    assert share_limit(limit, lags) == shares
