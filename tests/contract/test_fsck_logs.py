"""`penstock fsck` finds what is wrong with a log, and mends what it can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.client.fsck import check, repair
from penstock.store.commands import log_members, logs

if TYPE_CHECKING:
    import penstock
    from penstock.store.keys import NamespaceKeys, PartitionKeys


@pytest.fixture
def log(ps: penstock.Penstock) -> penstock.Log:
    """Two partitions with 500 messages each, and a group that reads the first."""
    log = ps.log("clicks", partitions=2)
    log.append_many([b"x"] * 1000)
    group = log.group("sessions")
    group.join()
    group.commit(0, group.take(0, "w1").epoch, log.page(0)[99].id)
    log.trim(id=log.page(0)[50].id, partition=0)
    return log


@pytest.fixture
def part(names: NamespaceKeys, log: penstock.Log) -> PartitionKeys:
    return names.queue("clicks").partition(0)


def found(ps: penstock.Penstock) -> list[str]:
    return [violation.kind for violation in check(ps).violations]


def test_a_log_that_is_right_is_counted(ps: penstock.Penstock, log: penstock.Log) -> None:
    report = check(ps)

    assert report.violations == []
    assert (report.queues, report.messages, report.tasks) == (1, 950, 0)


def test_messages_that_are_missing_are_found(ps: penstock.Penstock, part: PartitionKeys) -> None:
    ps.store.call(part.messages, "XTRIM", part.messages, "MAXLEN", 5)

    assert found(ps) == ["messages_miscounted"]


def test_a_message_that_should_be_gone_is_found(ps: penstock.Penstock, part: PartitionKeys) -> None:
    ps.store.call(part.state, "HSET", part.state, "trimmed_to", "99999999999999-0")

    assert found(ps) == ["trimmed_message_is_there"]


def test_a_segment_that_is_none_is_found(ps: penstock.Penstock, part: PartitionKeys) -> None:
    ps.store.call(part.segments, "LPUSH", part.segments, "5-0 soon 9")
    report = check(ps)
    assert [violation.kind for violation in report.violations] == ["foreign_entry"]

    assert repair(ps, report).violations == []


def test_a_segment_that_is_miscounted_is_found(ps: penstock.Penstock, part: PartitionKeys) -> None:
    ps.store.call(part.segments, "RPUSH", part.segments, "5-0 7 9")

    assert found(ps) == ["segment_miscounted"]


def test_segments_that_are_gone_are_missed(ps: penstock.Penstock, part: PartitionKeys) -> None:
    ps.store.call(part.segments, "DEL", part.segments)

    assert found(ps) == ["segment_miscounted"]


@pytest.mark.parametrize("garbage", [b"", b"phantom \xff", b"9999999999999999"])
@pytest.mark.parametrize("field", ["kind", "process", "born"])
def test_a_log_that_cannot_be_read_loses_no_message(
    ps: penstock.Penstock,
    names: NamespaceKeys,
    part: PartitionKeys,
    log: penstock.Log,
    field: str,
    garbage: bytes,
) -> None:
    """What tells the partitions of a log from those of one that was deleted may be damaged."""
    if field == "process" and garbage.isdigit():
        garbage = b"1"  # the partitions are of a newer log; a greater number says of an older one
    key = part.state if field == "born" else names.queue("clicks").meta
    before = ps.store.call(key, "HGET", key, field)
    ps.store.call(key, "HSET", key, field, garbage)
    report = check(ps)
    assert report.violations != []
    repair(ps, report)

    ps.store.call(key, "HSET", key, field, before)

    assert (found(ps), log.info().messages) == ([], 950)


def test_the_reader_that_retention_waits_for_is_missed(
    ps: penstock.Penstock, part: PartitionKeys, log: penstock.Log
) -> None:
    log.mark("archive", {0: log.info().partitions[0].last})
    ps.store.call(part.offsets, "HDEL", part.offsets, "sessions")

    assert found(ps) == ["floor_of_no_reader"]


def test_members_of_a_group_that_are_none_are_found_and_removed(
    ps: penstock.Penstock, names: NamespaceKeys, log: penstock.Log
) -> None:
    keys = names.queue("clicks")
    members, owners = keys.group_members("sessions"), keys.group_owners("sessions")
    ps.store.run(log_members.keep_member(keys, "sessions", "w1", 60_000, 1, 2, joins=True))
    ps.store.run(log_members.own_partition(keys, "sessions", "w1", 0))
    assert found(ps) == []
    ps.store.call(members, "HSET", members, b"\xff", "soon")
    ps.store.call(owners, "HSET", owners, "1", "nobody")
    report = check(ps)
    assert [violation.kind for violation in report.violations] == ["foreign_entry"] * 2

    assert repair(ps, report).violations == []


def test_a_paused_group_whose_name_is_no_text_is_found_and_removed(
    ps: penstock.Penstock, part: PartitionKeys, log: penstock.Log
) -> None:
    log.group("sessions").pause(0)
    ps.store.call(part.paused, "SADD", part.paused, b"\xff")
    report = check(ps)
    assert [violation.kind for violation in report.violations] == ["foreign_entry"]

    assert repair(ps, report).violations == []

    assert log.group("sessions").paused() == [0]


@pytest.mark.parametrize("entry", ["soon", "1 0-0 5 w-1\nshot"])
def test_an_offset_that_is_none_is_found(
    entry: str, ps: penstock.Penstock, part: PartitionKeys, log: penstock.Log
) -> None:
    ps.store.call(part.offsets, "HSET", part.offsets, "odd", entry)

    assert found(ps) == ["offset_is_none"]
    log.append(b"x")
    log.trim()
    assert [lag.reader for lag in log.lag()] == ["sessions"]


def test_an_offset_beyond_the_end_is_found(ps: penstock.Penstock, part: PartitionKeys) -> None:
    entry = "7 99999999999999-0 99999999999999 w1"
    ps.store.call(part.offsets, "HSET", part.offsets, "ahead", entry)

    assert found(ps) == ["offset_is_beyond_the_end"]


def test_a_reader_that_retention_forgets_is_waited_for_again(
    ps: penstock.Penstock, part: PartitionKeys, log: penstock.Log
) -> None:
    ps.store.call(part.state, "HDEL", part.state, "floor")
    report = check(ps)
    assert [violation.kind for violation in report.violations] == ["reader_is_not_waited_for"]

    assert repair(ps, report).violations == []

    assert log.info().partitions[0].floor == log.info().partitions[0].readers[0].offset


def test_settings_that_were_not_passed_on_are(
    ps: penstock.Penstock, names: NamespaceKeys, log: penstock.Log
) -> None:
    """A client that dies in the middle of a change leaves partitions with the old ones."""
    keys = names.queue("clicks")
    ps.store.run_once(
        lambda operation: logs.put_log(keys, operation, 2, {"keep_count": 1, "keep_ms": None})
    )
    report = check(ps)
    assert [violation.kind for violation in report.violations] == ["partition_has_old_settings"] * 2

    assert repair(ps, report).violations == []

    log.append_many([b"x"] * 300)
    assert all(part.messages < 500 for part in log.info().partitions[1:])


def test_what_a_deleted_log_has_left_is_removed(
    ps: penstock.Penstock, names: NamespaceKeys, log: penstock.Log
) -> None:
    keys = names.queue("clicks")
    group = log.group("sessions")
    group.note_error(0, log.info().partitions[0].readers[0].epoch, log.page(0)[0], "no", 1)
    deleted = ps.store.run_once(lambda operation: logs.delete_log(keys, operation))
    assert deleted is not None
    report = check(ps)
    assert [violation.kind for violation in report.violations] == ["partition_of_no_log"] * 2

    # The entry on the list of queues is left for an hour, in case that somebody is about to use it.
    assert repair(ps, report).violations == []

    assert ps.store.call(keys.partition(0).messages, "EXISTS", keys.partition(0).messages) == 0
    left = keys.partition(0).errors("sessions")
    assert ps.store.call(left, "EXISTS", left) == 0


def test_a_partition_that_a_new_log_has_is_not_removed(
    ps: penstock.Penstock, names: NamespaceKeys, log: penstock.Log
) -> None:
    ps.store.run_once(lambda operation: logs.delete_log(names.queue("clicks"), operation))
    report = check(ps)
    anew = ps.log("clicks", partitions=2)
    anew.append_many([b"new"] * 2)

    assert repair(ps, report).violations == []

    assert len(list(anew.read())) == 2
