"""What a batch read of history returns, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import HistoryLost, InvalidArgument, QueueNotFound, WrongKind
from penstock.spark.history_ranges import interpolate
from tests.spark.history_worlds import HistoryWorld

if TYPE_CHECKING:
    from tests.servers import RedisCluster, RedisServer


@pytest.fixture
def world(ps: penstock.Penstock, server: RedisServer) -> HistoryWorld:
    return HistoryWorld(ps, server)


def test_every_entry_is_a_row(world: HistoryWorld, ps: penstock.Penstock) -> None:
    [id] = world.end_jobs(1, tenant="acme", priority=3)
    ps.jobs("mail").add("email").cancel()

    done, cancelled = world.batch()

    entry, other = ps.jobs("mail").history()
    assert (done["job"], done["queue"], done["place"]) == (id, "mail", entry.place)
    assert (done["outcome"], done["state"], done["attempt"]) == ("done", "done", 1)
    assert (done["tenant"], done["priority"], done["error_type"]) == ("acme", 3, "")
    assert (done["ran_us"], done["cpu_us"], done["bytes"]) == (20, 10, 1)
    assert done["ended_at"] == datetime.fromtimestamp(entry.ended_at, UTC)
    assert (cancelled["outcome"], cancelled["attempt"]) == ("cancelled", 0)
    assert cancelled["place"] == other.place


@pytest.mark.parametrize("entries", ["1", "700", "100000"])
def test_partitions_have_each_entry_once(world: HistoryWorld, entries: str) -> None:
    ids = world.end_jobs(4500)

    rows = world.batch(entries_per_partition=entries)

    assert [row["job"] for row in rows] == ids


def test_several_queues_are_read_together(world: HistoryWorld) -> None:
    first, second = world.end_jobs(2, "mail"), world.end_jobs(3, "images")

    rows = world.batch(history="mail, images")

    assert {(row["queue"], row["job"]) for row in rows} == {
        *(("mail", id) for id in first),
        *(("images", id) for id in second),
    }


def test_rows_are_chosen_by_type_and_tenant(world: HistoryWorld) -> None:
    [acme] = world.end_jobs(1, tenant="acme")
    world.end_jobs(1, tenant="zeta")

    assert [row["job"] for row in world.batch(tenant="acme", type="email")] == [acme]
    assert world.batch(type="other") == []


def test_rows_are_chosen_by_when_they_ended(world: HistoryWorld) -> None:
    world.end_jobs(3)
    [*_, last] = world.batch()
    instant = last["ended_at"]
    after = instant + timedelta(milliseconds=1)

    assert last in world.batch(since=instant.isoformat())
    assert world.batch(since=after.isoformat()) == []
    assert len(world.batch(until=after.isoformat())) == 3
    assert last not in world.batch(until=instant.isoformat())
    assert world.batch(until="2020-01-01T00:00:00Z") == []


def test_a_queue_without_history_has_no_rows(world: HistoryWorld, ps: penstock.Penstock) -> None:
    ps.jobs("mail").add("email")

    assert world.batch() == []


def test_a_queue_that_does_not_exist_is_an_error(world: HistoryWorld) -> None:
    with pytest.raises(QueueNotFound, match="there is no queue 'mail' in namespace"):
        world.batch()


def test_plain_tasks_have_no_history(world: HistoryWorld, queue: penstock.Queue) -> None:
    queue.enqueue(b"task")

    with pytest.raises(WrongKind):
        world.batch()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reader": "lake"}, "option 'reader' is for a stream; use readStream, or leave it out"),
        ({"history": "mail,"}, "option 'history' is 'mail,'; give names of queues with commas"),
        ({"failOnDataLoss": "no"}, "option 'failOnDataLoss' is 'no'; give true or false"),
        ({"startingOffsets": "x"}, "option 'startingOffsets' is 'x'; give earliest, latest, or"),
        ({"since": "today"}, "option 'since' is 'today'; give an instant in ISO 8601"),
    ],
)
def test_options_that_cannot_be_are_refused(
    world: HistoryWorld, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        world.batch(**options)


def test_entries_trimmed_before_they_are_read_are_an_error(
    world: HistoryWorld, ps: penstock.Penstock
) -> None:
    ps.jobs("mail").configure(history_length=100)
    world.end_jobs(100)
    reader = world.batch_reader()
    [part] = reader.partitions()
    world.end_jobs(1000)

    with pytest.raises(HistoryLost, match="were removed before they were read; the oldest is"):
        list(reader.read(part))
    assert list(world.batch_reader(failOnDataLoss="false").read(part)) == []


@pytest.mark.parametrize(
    ("start", "end", "parts", "places"),
    [
        ("0-0", "100-5", 4, ["25-0", "50-0", "75-0"]),
        ("10-0", "10-7", 4, []),
        ("10-0", "12-0", 8, ["11-0"]),
        ("10-0", "90-0", 1, []),
    ],
)
def test_ranges_are_split_evenly_by_time(
    start: str, end: str, parts: int, places: list[str]
) -> None:
    assert interpolate(start, end, parts) == places


def test_history_is_read_from_any_store(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    with penstock.connect(any_store.url, namespace=namespace) as ps:
        world = HistoryWorld(ps, any_store)
        ids = world.end_jobs(4500)

        assert [row["job"] for row in world.batch(entries_per_partition="1000")] == ids
        stream = world.stream(startingOffsets="earliest", reader="lake")
        assert [row["job"] for row in stream.next_batch()] == ids
