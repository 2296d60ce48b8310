"""Messages are appended to a log and read again, by time and by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.client.fsck import check
from penstock.errors import InvalidArgument, LogNotFound, PayloadTooLarge, WrongKind
from penstock.model.logs import Message, NewMessage, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.store.keys import NamespaceKeys
    from tests.stored import Stored


def bodies(messages: object) -> list[bytes]:
    assert hasattr(messages, "__iter__")
    return [message.body for message in messages]


def test_what_is_appended_is_read_as_it_was(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    body = b"\x00\xff any bytes \r\n"

    place = log.append(body, key="user-1", headers={"a": "1", "ü": "é"}, at=1_000_000_000.5)

    [message] = log.read()
    assert (message.partition, message.id) == place
    assert message.body == body
    assert message.key == "user-1"
    assert message.headers == {"a": "1", "ü": "é"}
    assert message.at == 1_000_000_000.5
    assert message.appended_at * 1000 == int(message.id.split("-")[0])


def test_a_message_may_be_nothing_but_a_body(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")

    log.append(b"")

    [message] = log.read()
    assert (message.body, message.key, message.headers) == (b"", None, {})
    assert message.at == message.appended_at
    assert message.only_for is None


def test_messages_of_a_partition_keep_their_order_and_their_ids_grow(
    ps: penstock.Penstock,
) -> None:
    log = ps.log("clicks")
    wanted = [b"%d" % index for index in range(2500)]

    assert log.append_many(wanted) == 2500
    log.append(b"last")

    found = list(log.read())
    assert bodies(found) == [*wanted, b"last"]
    places = [message.place for message in found]
    assert places == sorted(set(places))


def test_messages_that_differ_in_what_they_have_go_in_one_batch(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")

    log.append_many([b"plain", NewMessage(b"key", key="k"), NewMessage(b"at", at=5)])

    assert [(m.body, m.key, m.at == 5) for m in log.read()] == [
        (b"plain", None, False),
        (b"key", "k", False),
        (b"at", None, True),
    ]


def test_messages_with_one_key_are_in_one_partition(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=8)
    keys = [f"user-{index % 20}" for index in range(200)]

    log.append_many([NewMessage(b"%d" % index, key=key) for index, key in enumerate(keys)])

    found = list(log.read())
    assert len(found) == 200
    for message in found:
        assert message.key is not None
        assert message.partition == partition_of(message.key, 8)
    of_one = [int(message.body) for message in found if message.key == "user-7"]
    assert of_one == sorted(of_one)


def test_the_partition_of_a_key_is_the_same_for_ever() -> None:
    assert [partition_of(key, 8) for key in ("user-1", "user-2", "ü")] == [4, 6, 5]


def test_messages_without_a_key_go_to_each_partition_in_turn(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=3)

    one_by_one = [log.append(b"x").partition for _ in range(6)]
    log.append_many([b"y"] * 30)

    assert one_by_one == [0, 1, 2, 0, 1, 2]
    assert [part.messages for part in log.info().partitions] == [12, 12, 12]


def test_a_partition_can_be_named(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=3)

    assert log.append(b"x", key="user-1", partition=2).partition == 2

    assert bodies(log.read(partition=2)) == [b"x"]
    assert bodies(log.read(partition=[0, 1])) == []
    with pytest.raises(InvalidArgument, match="partitions 0 to 2"):
        log.append(b"x", partition=3)
    with pytest.raises(InvalidArgument, match="partitions 0 to 2"):
        log.read(partition=3)


def test_partitions_are_merged_by_time(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=4)
    for index in range(300):
        log.append(b"%d" % index)

    found = list(log.read())
    places = [message.place for message in found]

    assert places == sorted(places)
    assert sorted(bodies(found)) == sorted(b"%d" % index for index in range(300))
    assert list(log.read(reverse=True)) == found[::-1]


def test_a_range_of_time_has_its_beginning_and_not_its_end(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=2)
    log.append_many([b"x"] * 10)
    found = list(log.read())
    first, last = found[0].appended_at, found[-1].appended_at

    assert list(log.read(since=first, until=last + 0.001)) == found
    assert list(log.read(since=last + 0.001)) == []
    assert list(log.read(until=first)) == []
    assert list(log.read(since="2001-01-01T00:00Z", until="2001-01-02T00:00+01:00")) == []
    some = [message for message in found if message.appended_at >= last]
    assert list(log.read(since=last)) == some


def test_reading_goes_on_after_an_id(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    log.append_many([b"%d" % index for index in range(10)])
    found = log.page(0, limit=4)

    rest = log.page(0, after=found[-1].id)

    assert bodies(found + rest) == [b"%d" % index for index in range(10)]
    assert bodies(log.read(after=found[-1].id, limit=2)) == [b"4", b"5"]
    assert bodies(log.page(0, before=found[1].id, reverse=True)) == [b"0"]


def test_more_than_a_page_is_read_both_ways(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=2)
    log.append_many([b"%d" % index for index in range(5000)])

    forwards = list(log.read())

    assert len(forwards) == 5000
    assert list(log.read(reverse=True)) == forwards[::-1]
    assert list(log.read(limit=10, reverse=True)) == forwards[:-11:-1]


def test_what_is_no_place_is_refused(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    log.append(b"x")

    for wrong in ({"since": "yesterday"}, {"since": "2026-01-01T00:00"}, {"until": object()}):
        with pytest.raises(InvalidArgument, match="with a time zone"):
            log.read(**wrong)
    with pytest.raises(InvalidArgument, match="no id of a message"):
        log.read(after="5")
    with pytest.raises(InvalidArgument, match="give one of them"):
        log.read(since=1, after="1-0")
    with pytest.raises(InvalidArgument, match="from 1 up"):
        log.read(limit=0)
    with pytest.raises(InvalidArgument, match="1 to 10000"):
        log.page(0, limit=0)
    with pytest.raises(InvalidArgument, match=r"until \(5\) is before since \(6\), so"):
        log.read(since=6, until=5)
    assert list(log.read(since=5, until=5)) == []


def test_a_partition_that_is_not_there_is_not_taken_for_an_empty_one(
    ps: penstock.Penstock,
) -> None:
    log, group = ps.log("clicks", partitions=2), ps.log("clicks").group("g")
    log.append(b"x", partition=0)

    looks = (log.page, log.partition_info, group.errors, lambda number: log.trim(partition=number))
    for look in looks:
        look(1)
        for wrong in (2, -1, "x"):
            with pytest.raises(InvalidArgument, match="has partitions 0 to 1"):
                look(wrong)  # type: ignore[arg-type]
    with pytest.raises(LogNotFound, match="no log 'clikcs'"):
        ps.log("clikcs").page(0)
    assert check(ps).violations == []


def test_what_is_no_message_is_refused_before_anything_is_sent(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")

    with pytest.raises(InvalidArgument, match="is bytes, not str"):
        log.append("text")  # type: ignore[arg-type]
    with pytest.raises(PayloadTooLarge):
        log.append(b"x" * (1024 * 1024 + 1))
    with pytest.raises(InvalidArgument, match="1 to 1024 bytes"):
        log.append(b"x", key="")
    with pytest.raises(InvalidArgument, match="text to text"):
        log.append(b"x", headers={"a": 1})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument, match="text to text"):
        log.append(b"x", headers={"a": "\ud800"})
    with pytest.raises(InvalidArgument, match="with a time zone"):
        log.append(b"x", at="then")
    with pytest.raises(InvalidArgument, match="is no list"):
        log.append_many(b"abc")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="1 to 1024"):
        ps.log("clicks", partitions=0)

    with pytest.raises(InvalidArgument, match="has partitions 0 to 0"):
        log.append(b"x", partition=7)
    assert log.append_many([]) == 0

    with pytest.raises(LogNotFound):
        log.info()


def test_an_error_says_how_many_messages_were_accepted(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    wrong = [*[b"x"] * 1500, "text"]

    with pytest.raises(InvalidArgument) as refusal:
        log.append_many(wrong)  # type: ignore[arg-type]

    accepted: int = refusal.value.accepted  # type: ignore[attr-defined]
    assert accepted == len(list(log.read()))


def test_a_log_that_does_not_exist_is_made_by_the_first_message(
    ps: penstock.Penstock, stored: Stored
) -> None:
    for absent in (ps.log("clicks").read, ps.log("clicks").info):
        with pytest.raises(LogNotFound, match="the first message"):
            absent()
    assert stored.everything() == {}

    ps.log("clicks", partitions=3).append(b"x")

    assert ps.queues() == ["clicks"]
    assert len(ps.log("clicks").info().partitions) == 3
    assert ps.log("clicks", partitions=2).append(b"x").partition == 0
    assert len(ps.log("clicks").info().partitions) == 3


def test_a_log_gets_more_partitions_and_never_fewer(ps: penstock.Penstock) -> None:
    ps.log("clicks", partitions=2).append_many([b"x"] * 4)
    ps.log("clicks", partitions=4).append(b"more")
    log = ps.log("clicks")

    assert len(log.configure(partitions=3).partitions) == 4
    assert len(log.configure(partitions=6).partitions) == 6

    assert sorted(bodies(log.read())) == [b"more", *[b"x"] * 4]


def test_each_partition_has_a_slot_of_its_own(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    ps.log("a/b", partitions=2).append_many([b"x"] * 2)

    tags = {key.split("}")[0] + "}" for key in stored.types()}
    log = names.queue("a/b")
    assert tags == {names.tag, log.tag, log.partition(0).tag, log.partition(1).tag}
    assert all(names.identify(key) is not None for key in stored.types())
    assert names.queue("a/b/0").tag != log.partition(0).tag


def test_a_name_is_a_queue_or_a_log(ps: penstock.Penstock) -> None:
    ps.log("clicks").append(b"x")
    ps.queue("mail").enqueue(b"x")
    ps.jobs("images").add("resize")
    ps.queue("undecided").pause()

    for name in ("mail", "images", "undecided"):
        for act in (
            ps.log(name).read,
            ps.log(name).info,
            lambda name=name: ps.log(name).append(b"x"),
        ):
            with pytest.raises(WrongKind, match="cannot be a log"):
                act()
    queue = ps.queue("clicks")
    refusals: list[Callable[[], object]] = [
        lambda: queue.enqueue(b"x"),
        lambda: queue.enqueue_unique(b"x"),
        queue.delete,
        queue.pause,
        lambda: queue.configure(max_length=5),
        lambda: ps.jobs("clicks").add("resize"),
        lambda: ps.jobs("clicks").pause_type("resize"),
    ]
    for refused in refusals:
        with pytest.raises(WrongKind, match="'clicks' is a log"):
            refused()
    with ps.worker() as worker, pytest.raises(WrongKind, match="'clicks' is a log"):
        worker.start_work("clicks")
    assert queue.inspect().kind == "logs"


def test_a_message_says_what_it_is() -> None:
    message = Message(2, b"1700000000000-3", [b"b", b"body", b"k", b"user-1"])

    assert repr(message) == "<Message 2/1700000000000-3, key='user-1', 4 bytes>"
    assert message.place == (1_700_000_000_000, 2, 3)
    assert {message} == {Message(2, b"1700000000000-3", [b"b", b"body", b"k", b"user-1"])}
    assert message != "something else"
