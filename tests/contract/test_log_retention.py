"""A log keeps what it is told to keep, and a reader that misses something is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.client.fsck import check
from penstock.errors import InvalidArgument, LogTrimmed, WrongKind
from penstock.store.script import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.store.keys import NamespaceKeys
    from tests.servers import RedisServer
    from tests.stored import Stored

SEGMENT = 128


def numbers(log: penstock.Log) -> list[int]:
    return [int(message.body) for message in log.read()]


def append(log: penstock.Log, first: int, end: int) -> None:
    log.append_many([b"%d" % index for index in range(first, end)])


def test_a_log_keeps_at_least_so_many_messages_and_at_most_a_segment_more(
    ps: penstock.Penstock,
) -> None:
    log = ps.log("clicks")
    log.configure(keep_count=100)

    append(log, 0, 2000)

    kept = numbers(log)
    assert kept == list(range(2000 - len(kept), 2000))
    assert 100 <= len(kept) < 100 + SEGMENT
    [part] = log.info().partitions
    assert (part.added, part.trimmed, part.lost) == (2000, 2000 - len(kept), 0)
    assert check(ps).violations == []


def test_a_log_keeps_at_least_so_many_bytes(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    log.configure(keep_bytes=100_000)

    log.append_many([b"x" * 968] * 1000)

    assert 100_000 <= log.info().bytes < 100_000 + 65_536 + 1000
    assert check(ps).violations == []


def test_bytes_are_those_of_bodies_keys_and_headers(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")

    log.append(b"body")
    log.append(b"body", key="key")
    log.append(b"body", key="key", headers={"a": "b"}, at=5)

    assert log.info().bytes == 3 * 32 + 3 * 4 + 2 * 3 + len('{"a":"b"}')
    assert log.trim(before=10**9 * 4) == (3, log.info().partitions[0].added * 32 + 27)
    assert log.info().bytes == 0
    assert check(ps).violations == []


class Clock:
    """The time of scripts, which a test sets."""

    def __init__(self, server: RedisServer, namespace: str) -> None:
        with penstock.connect(server.url, namespace=namespace) as client:
            self._key = client.keys.simulated_clock
        self._server = server

    def set(self, seconds: int) -> None:
        self._server.command("SET", self._key, seconds * 1000)


@pytest.fixture
def timed(server: RedisServer, namespace: str) -> Iterator[tuple[penstock.Penstock, Clock]]:
    clock = Clock(server, namespace)
    clock.set(1_000_000)
    with penstock.connect(server.url, namespace=namespace) as client:
        settings = replace(client.settings, dialect=SIMULATED)
    with penstock.Penstock(settings) as client:
        client.open()
        yield client, clock


def test_a_log_keeps_messages_for_so_long(timed: tuple[penstock.Penstock, Clock]) -> None:
    ps, clock = timed
    log = ps.log("clicks")
    log.configure(keep_s=3600)
    for hour in range(5):
        clock.set(1_000_000 + hour * 1800)
        append(log, hour * 1000, hour * 1000 + 300)

    kept = numbers(log)

    # The last append was at two hours, so what is older than one hour is gone, segment by segment.
    assert min(kept) == 1000 + 257
    clock.set(1_000_000 + 1800 + 3600 + 3600)
    log.trim()
    assert min(numbers(log)) == 3000
    clock.set(1_000_000 + 100_000)
    log.trim()
    assert numbers(log) == []


def test_where_little_is_appended_age_counts_too(
    timed: tuple[penstock.Penstock, Clock],
) -> None:
    ps, clock = timed
    log = ps.log("clicks")
    log.configure(keep_s=600)
    for minute in range(60):
        clock.set(1_000_000 + minute * 60)
        log.append(b"%d" % minute)

    assert 48 - 2 <= min(numbers(log)) <= 49
    assert max(numbers(log)) == 59


def test_retention_waits_for_the_slowest_reader(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    append(log, 0, 1000)
    fast, slow = log.group("fast"), log.group("slow")
    epochs = {group.name: group.take(0, "w1").epoch for group in (fast, slow)}
    found = log.page(0)
    fast.commit(0, epochs["fast"], found[900].id)
    slow.commit(0, epochs["slow"], found[400].id)

    log.configure(keep_count=1)
    append(log, 1000, 2000)

    kept = numbers(log)
    assert 401 - SEGMENT < kept[0] <= 401
    slow.commit(0, epochs["slow"], found[990].id)
    assert 901 - SEGMENT < numbers(log)[0] <= 901
    assert log.info().partitions[0].lost == 0
    assert check(ps).violations == []


def test_retention_waits_for_an_archive_until_it_reads_no_more(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    append(log, 0, 500)
    log.mark("archive", {0: log.page(0)[10].id})
    log.configure(keep_count=1)

    assert log.trim().messages == 0
    log.mark("archive", {0: None})

    assert log.trim().messages == 384
    assert log.lag() == []


def test_a_mark_does_not_move_a_group(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    log.append(b"x")
    log.group("sessions").take(0, "w1")

    with pytest.raises(WrongKind, match="group of consumers"):
        log.mark("sessions", {0: "5-0"})


def test_a_reader_that_is_not_seen_for_long_holds_nothing_back(
    timed: tuple[penstock.Penstock, Clock],
) -> None:
    ps, clock = timed
    log = ps.log("clicks")
    append(log, 0, 500)
    log.group("gone").take(0, "w1")
    log.configure(keep_count=1, expire_s=3600)
    assert log.trim().messages == 0

    clock.set(1_000_000 + 3601)

    assert log.trim().messages == 384
    assert log.info().partitions[0].readers == ()


def test_writers_wait_for_no_reader_once_all_have_expired(
    timed: tuple[penstock.Penstock, Clock],
) -> None:
    ps, clock = timed
    log = ps.log("clicks")
    append(log, 0, 500)
    log.group("gone").take(0, "w1")
    log.configure(keep_count=1, expire_s=3600)
    clock.set(1_000_000 + 1800)
    archive = log.page(0)[10].id
    log.mark("archive", {0: archive})
    clock.set(1_000_000 + 3601)
    append(log, 500, 1000)
    assert log.info().messages == 1000

    clock.set(1_000_000 + 1800 + 3601)
    append(log, 1000, 1500)

    assert log.info().messages < SEGMENT


def test_a_hard_cap_goes_past_a_reader_and_says_so(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    append(log, 0, 500)
    group = log.group("slow")
    taken = group.take(0, "w1")
    log.configure(max_bytes=20_000)

    append(log, 500, 2000)

    [part] = log.info().partitions
    assert part.bytes <= 20_000 + 65_536
    assert part.trimmed == part.lost > 0
    with pytest.raises(LogTrimmed, match=r"partition 0 of log 'clicks'.*read on after") as gap:
        log.page(0, after=taken.offset)
    assert (gap.value.partition, gap.value.trimmed_to) == (0, part.trimmed_to)
    rest = log.page(0, after=gap.value.trimmed_to)
    assert int(rest[0].body) == part.trimmed
    assert check(ps).violations == []


def test_trim_removes_exactly_what_was_appended_before(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=2)
    append(log, 0, 1000)
    found = log.page(1)

    assert log.trim(id=found[200].id, partition=1).messages == 200

    assert log.page(1) == found[200:]
    assert len(log.page(0)) == 500
    assert log.trim(before=found[-1].appended_at + 1).messages == 800
    assert numbers(log) == []
    append(log, 0, 10)
    assert len(numbers(log)) == 10
    assert check(ps).violations == []


def test_trim_stops_at_what_a_reader_needs_unless_it_is_forced(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    append(log, 0, 500)
    found = log.page(0)
    group = log.group("sessions")
    group.commit(0, group.take(0, "w1").epoch, found[150].id)

    assert log.trim(id=found[300].id, partition=0).messages == 151
    assert numbers(log)[0] == 151
    assert log.trim(id=found[300].id, partition=0, force=True).messages == 149

    assert numbers(log)[0] == 300
    assert log.info().partitions[0].lost in (149, 149 + SEGMENT)
    with pytest.raises(LogTrimmed):
        log.page(0, after=found[150].id)
    assert check(ps).violations == []


def test_what_is_to_be_trimmed_is_said_clearly(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    log.append(b"x")

    with pytest.raises(InvalidArgument, match="belongs to one partition"):
        log.trim(id="5-0")
    with pytest.raises(InvalidArgument, match="give a time or an id"):
        log.trim(force=True)


def test_a_reader_that_asks_for_what_is_gone_is_told(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    append(log, 0, 500)
    found = log.page(0)
    log.trim(id=found[200].id, partition=0)

    readings = [
        log.read(since=found[0].appended_at - 1),
        log.read(after=found[0].id),
        log.read(since=found[0].appended_at - 1, reverse=True),
    ]
    for reading in readings:
        with pytest.raises(LogTrimmed):
            list(reading)

    assert numbers(log) == list(range(200, 500))
    rest = list(log.read(since=found[0].appended_at - 1, skip_trimmed=True))
    assert [int(message.body) for message in rest] == list(range(200, 500))
    assert list(log.read(after=found[199].id)) == found[200:]


def test_a_reader_is_told_of_what_goes_while_it_reads(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    append(log, 0, 3000)
    reading = log.read()
    next(reading)

    log.trim(before=4_000_000_000)

    with pytest.raises(LogTrimmed):
        list(reading)


def test_settings_are_passed_on_to_partitions_that_come_later(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=2)
    info = log.configure(keep_count=100, keep_s=60.5)
    assert info.settings == {"keep_count": 100, "keep_ms": 60_500}
    assert log.configure(partitions=3, keep_s=None).settings == {"keep_count": 100}

    append(log, 0, 3000)

    assert all(100 <= part.messages < 100 + SEGMENT for part in log.info().partitions)
    assert check(ps).violations == []


@pytest.mark.parametrize(
    "wrong",
    [{"keep_count": 0}, {"keep_s": -1}, {"keep_bytes": 1.5}, {"max_bytes": True}, {"keep": 5}],
)
def test_what_is_no_setting_is_refused(ps: penstock.Penstock, wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        ps.log("clicks").configure(**wrong)  # type: ignore[arg-type]


def test_a_deleted_log_leaves_nothing_and_can_be_made_anew(
    ps: penstock.Penstock, stored: Stored
) -> None:
    log = ps.log("clicks", partitions=3)
    append(log, 0, 300)
    group = log.group("sessions")
    group.join()
    taken = group.take(1, "w1")
    group.note_error(1, taken.epoch, log.page(1)[0], "no", 1)
    other = ps.log("clicks")
    other.append(b"x")

    assert log.delete() == 301
    assert log.delete() == 0

    assert [key for key in stored.types() if ":memory:" not in key] == []
    other.append(b"new")
    assert [message.body for message in other.read()] == [b"new"]
    assert len(other.info().partitions) == 1
    assert group.take(0, "w1").epoch >= taken.epoch
    assert check(ps).violations == []


def test_what_a_deleted_log_has_left_is_not_taken_for_a_new_one(
    ps: penstock.Penstock, names: NamespaceKeys
) -> None:
    """A client that dies in the middle of a delete leaves partitions behind."""
    log = ps.log("clicks", partitions=2)
    append(log, 0, 10)
    keys = names.queue("clicks")
    entries: Callable[..., object] = ps.store.call
    entries(keys.meta, "UNLINK", keys.meta)
    [incarnation] = ps.store.call(names.queues, "HKEYS", names.queues)
    entries(names.queues, "HDEL", names.queues, incarnation)

    other = ps.log("clicks", partitions=2)
    other.append(b"new", partition=0)

    assert [message.body for message in other.read(partition=0)] == [b"new"]
    report = check(ps)
    assert [violation.kind for violation in report.violations] == ["partition_of_no_log"]
