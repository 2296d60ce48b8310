"""Each defect of qdo and Queuey (seed-systems 2.4, Q1 to Q12), shown to be gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client.fsck import check
from penstock.connection.wire import pack_ahead
from penstock.coordination.assignment import assign
from penstock.errors import OffsetRefused
from penstock.model.logs import START
from penstock.store.command import Operation
from penstock.store.commands import log_members, logs
from tests.contract.test_qdo_statements import Reader, fill
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.store.keys import NamespaceKeys
    from tests.running_worker import RunningWorker

# The scripts behind it are tested on every store.
pytestmark = pytest.mark.stores("debian")


def test_q01_after_a_restart_no_partition_is_read_again(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """Q1: only some cursors were found again on a start, and the rest was processed again."""
    log = ps.log("clicks", partitions=10)
    fill(log, 30)
    first, second = Reader("clicks"), Reader("clicks")
    serve(*first.consumers, until_empty=True).join()
    log.append(b"new", partition=7)

    serve(*second.consumers, until_empty=True).join()

    assert len(set(first.found)) == len(first.found) == 30
    assert second.found == [("clicks", 7, b"new")]


def test_q02_what_was_not_committed_comes_again_and_what_was_does_not(
    ps: penstock.Penstock,
) -> None:
    """Q2: a crash repeated a message, which was not said. Ours is at least once: a commit is the
    line, and docs/consumers.md says so.
    """
    log = ps.log("clicks")
    fill(log, 3)
    group = log.group("g")
    taken = group.take(0, "w1")
    messages = log.page(0, after=taken.offset)
    group.commit(0, taken.epoch, messages[0].id)

    after_a_crash = group.take(0, "w2")

    again = log.page(0, after=after_a_crash.offset)
    assert [message.body for message in again] == [b"1", b"2"]


def test_q03_an_owner_of_before_reads_nothing_and_moves_no_offset(
    ps: penstock.Penstock, names: NamespaceKeys
) -> None:
    """Q3: after the loss of a session, the old owner went on and set the cursor back."""
    log = ps.log("clicks")
    fill(log, 3)
    group, messages = log.group("g"), log.page(0)
    old = group.take(0, "w1")
    new = group.take(0, "w2")
    group.commit(0, new.epoch, messages[2].id)

    part = names.queue("clicks").partition(0)
    read = ps.store.run(log_members.read_messages(part, "g", old.epoch, START, 10))
    assert (read.word, read.messages) == ("lost", [])
    with pytest.raises(OffsetRefused, match="was taken with epoch"):
        group.commit(0, old.epoch, messages[0].id)
    with pytest.raises(OffsetRefused, match="does not go back"):
        group.commit(0, new.epoch, messages[0].id)

    assert group.take(0, "w3").offset == messages[2].id


def test_q04_a_worker_that_waits_is_woken_by_a_message_and_by_a_stop(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """Q4: an idle worker slept for up to ten hours, also when it was to stop."""
    log = ps.log("clicks")
    fill(log, 1)
    reader = Reader("clicks")
    worker = serve(*reader.consumers)
    wait_for(lambda: len(reader.found) == 1)

    log.append(b"later")

    wait_for(lambda: reader.bodies[1:] == [b"later"], 5.0)
    worker.stop()
    worker.join(5.0)


def test_q05_what_fails_is_tried_again_then_kept_and_can_be_replayed(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """Q5: a message that failed was skipped for ever."""
    log = ps.log("clicks")
    fill(log, 3)
    tried: list[bytes] = []
    is_mended = False

    @penstock.consumer("clicks", "g", attempts=2, backoff=0.001)
    def consumer(message: penstock.Message) -> None:
        tried.append(message.body)
        if message.body == b"1" and not is_mended:
            raise ValueError("no")

    serve(consumer, until_empty=True).join()
    assert tried == [b"0", b"1", b"1", b"2"]
    is_mended = True
    assert log.group("g").replay() == 1
    serve(consumer, until_empty=True).join()

    assert tried[4:] == [b"1"]
    assert log.group("g").count_errors() == 0


def test_q06_partitions_that_come_later_are_read_and_there_may_be_a_thousand(
    ps: penstock.Penstock,
    serve: Callable[..., RunningWorker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Q6: new queues were ignored until a restart, and over a thousand cursors were too many."""
    monkeypatch.setattr("penstock.worker.group_reading._GROWTH_EVERY_S", 0.1)
    fill(ps.log("clicks"), 1)
    group = ps.log("many", partitions=1024).group("g")
    for partition in range(1024):
        group.commit(partition, group.take(partition, "w1").epoch, f"{partition}-1")
    found = [group.take(partition, "w2").offset for partition in range(1024)]
    assert found == [f"{partition}-1" for partition in range(1024)]
    reader = Reader("clicks")
    serve(*reader.consumers)
    wait_for(lambda: len(reader.found) == 1)

    ps.log("clicks", partitions=2).append(b"new", partition=1)

    wait_for(lambda: reader.found[1:] == [("clicks", 1, b"new")])


def test_q07_a_log_can_have_any_name(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    """Q7: names with a minus crashed, as the name of a partition was cut at it."""
    names = ["with-dash-1", "a-1/2", "ü:{x} y"]
    for name in names:
        fill(ps.log(name), 1)
    reader = Reader(*names)

    serve(*reader.consumers, until_empty=True).join()

    assert sorted(reader.found) == sorted((name, 0, b"0") for name in names)
    assert sorted(ps.queues()) == sorted(names)
    assert check(ps).violations == []


def test_q08_one_request_brings_a_batch(ps: penstock.Penstock, names: NamespaceKeys) -> None:
    """Q8: each message took three requests or more, one at a time."""
    log = ps.log("clicks")
    bodies = fill(log, 500)
    taken = log.group("g").take(0, "w1")
    part = names.queue("clicks").partition(0)

    read = ps.store.run(log_members.read_messages(part, "g", taken.epoch, taken.offset, 500))

    assert [message.body for message in read.messages] == bodies


def test_q09_the_server_gives_the_ids_so_nothing_comes_in_behind_a_reader(
    ps: penstock.Penstock,
) -> None:
    """Q9: ids were those of clocks, so a message of a slow clock was never seen, and the message of
    the cursor came again.
    """
    log = ps.log("clicks")
    fill(log, 2)
    newest = log.page(0)[-1]
    assert log.page(0, after=newest.id) == []

    log.append(b"of a slow clock", at="2001-01-01T00:00Z")

    [message] = log.page(0, after=newest.id)
    assert message.body == b"of a slow clock"
    assert message.at < newest.at
    assert message.place > newest.place


def test_q10_a_worker_that_is_stopped_leaves_its_group_at_once(
    ps: penstock.Penstock, names: NamespaceKeys, serve: Callable[..., RunningWorker]
) -> None:
    """Q10: SIGTERM killed a worker, and others waited until its session had ended."""
    fill(ps.log("clicks"), 1)
    reader = Reader("clicks")
    worker = serve(*reader.consumers)
    wait_for(lambda: len(reader.found) == 1)
    keys = names.queue("clicks")

    def stored(key: str) -> Any:
        return ps.store.call(key, "HLEN", key)

    assert stored(keys.group_members("g")) == stored(keys.group_owners("g")) == 1

    worker.stop()
    worker.join()

    assert stored(keys.group_members("g")) == stored(keys.group_owners("g")) == 0
    assert [lag.messages for lag in ps.log("clicks").group("g").lag()] == [0]


def test_q11_an_append_that_is_sent_again_is_one_message(
    ps: penstock.Penstock, names: NamespaceKeys
) -> None:
    """Q11: a request that timed out was sent again, and its message was there twice."""
    log = ps.log("clicks")
    log.append(b"first")
    part, born = names.queue("clicks").partition(0), log.facts().born
    command = logs.append_messages(part, Operation("lane", 1), born, 1, pack_ahead([b"second"]))

    first, again = ps.store.run(command), ps.store.run(command)

    assert first == again
    assert [message.body for message in log.read()] == [b"first", b"second"]


def test_q12_a_join_and_a_leave_move_one_share_and_nothing_else() -> None:
    """Q12: each join and leave stopped all workers; only what must move does now."""
    three = assign(range(27), {"a": 1, "b": 1, "c": 1}, {})

    four = assign(range(27), {"a": 1, "b": 1, "c": 1, "d": 1}, three)
    without_c = assign(range(27), {"a": 1, "b": 1}, three)

    joined = [partition for partition in range(27) if four[partition] != three[partition]]
    assert {four[partition] for partition in joined} == {"d"}
    assert len(joined) == 6
    left = [partition for partition in range(27) if without_c[partition] != three[partition]]
    assert {three[partition] for partition in left} == {"c"}
