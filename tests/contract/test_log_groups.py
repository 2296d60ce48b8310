"""Groups of consumers: owners, offsets that only go ahead, errors and replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.client.fsck import check
from penstock.errors import InvalidArgument, LogNotFound, OffsetRefused, QueueFull, WrongKind

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.model.logs import FailedMessage
    from penstock.store.keys import NamespaceKeys
    from tests.contract.conftest import Ear


@pytest.fixture
def log(ps: penstock.Penstock) -> penstock.Log:
    """Five messages in one partition."""
    log = ps.log("clicks")
    log.append_many([b"%d" % index for index in range(5)])
    return log


def test_a_group_begins_with_the_oldest_message_or_after_the_newest(log: penstock.Log) -> None:
    found = log.page(0)

    assert log.group("all").take(0, "w1").offset == "0-0"
    assert log.group("new").take(0, "w1", start="latest").offset == found[-1].id
    assert log.group("some").take(0, "w1", start=found[2].id).offset == found[2].id


def test_a_group_that_begins_after_a_trim_has_missed_nothing(log: penstock.Log) -> None:
    log.trim(before=4_000_000_000)

    for start in ("earliest", "latest"):
        taken = log.group(start).take(0, "w1", start=start)
        assert log.page(0, after=taken.offset) == []


def test_the_next_owner_goes_on_where_the_last_one_committed(log: penstock.Log) -> None:
    group, found = log.group("sessions"), log.page(0)
    first = group.take(0, "w1")
    group.commit(0, first.epoch, found[2].id)

    second = group.take(0, "w2")

    assert second.epoch > first.epoch
    assert second.offset == found[2].id
    assert log.page(0, after=second.offset) == found[3:]
    # What another coordinator knows of may be more than what was copied here.
    assert group.take(0, "w3", start=found[3].id).offset == found[3].id
    assert group.take(0, "w3", start=found[0].id).offset == found[3].id


def test_an_owner_that_was_replaced_is_refused(log: penstock.Log) -> None:
    group, found = log.group("sessions"), log.page(0)
    old, new = group.take(0, "w1"), group.take(0, "w2")

    with pytest.raises(OffsetRefused, match=f"taken with epoch {new.epoch}"):
        group.commit(0, old.epoch, found[4].id)
    with pytest.raises(OffsetRefused):
        group.note_error(0, old.epoch, found[0], "no", 1)

    group.commit(0, new.epoch, found[0].id)
    assert group.take(0, "w3").offset == found[0].id
    assert group.errors(0) == []


def test_an_offset_does_not_go_back(log: penstock.Log) -> None:
    group, found = log.group("sessions"), log.page(0)
    taken = group.take(0, "w1")
    group.commit(0, taken.epoch, found[3].id)
    group.commit(0, taken.epoch, found[3].id)

    with pytest.raises(OffsetRefused, match="seek to read"):
        group.commit(0, taken.epoch, found[1].id)
    with pytest.raises(InvalidArgument, match="no id"):
        group.commit(0, taken.epoch, "soon")


@pytest.mark.parametrize("way", ["commit", "seek"])
def test_an_offset_ahead_of_all_messages_and_of_the_clock_passes_over_nothing(
    ps: penstock.Penstock, log: penstock.Log, way: str
) -> None:
    group = log.group("sessions")
    taken = group.take(0, "w1")

    if way == "commit":
        group.commit(0, taken.epoch, "9999999999999-0")
    else:
        group.seek(id="9999999999999-0", partition=0)
    added = log.append(b"later", partition=0)

    again = group.take(0, "w2")
    assert [message.id for message in log.page(0, after=again.offset)] == [added.id]
    assert check(ps).violations == []


def test_an_epoch_that_was_given_elsewhere_must_be_the_greatest(log: penstock.Log) -> None:
    group = log.group("sessions")

    assert group.take(0, "w1", epoch=7).epoch == 7
    for old in (6, 7):
        with pytest.raises(OffsetRefused, match="taken with epoch 7"):
            group.take(0, "w2", epoch=old)
    assert group.take(0, "w2", epoch=8).epoch == 8


def test_what_is_no_epoch_and_no_start_is_refused(log: penstock.Log) -> None:
    group = log.group("sessions")
    epoch = group.take(0, "w1").epoch

    for wrong in (-3, "x", True, 2**60):
        with pytest.raises(InvalidArgument, match=r"epoch is .*give a whole number from 0 up"):
            group.take(0, "w2", epoch=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="'oldest' is no id"):
        group.take(0, "w2", start="oldest")

    group.commit(0, epoch, log.page(0)[0].id)


def test_epochs_grow_over_the_end_of_a_group(log: penstock.Log) -> None:
    group = log.group("sessions")
    before = group.take(0, "w1").epoch
    group.forget()

    assert group.take(0, "w1").epoch >= before
    with pytest.raises(OffsetRefused):
        log.group("unknown").commit(0, before, "5-0")


def test_seek_moves_a_group_and_its_owner_takes_the_partition_again(log: penstock.Log) -> None:
    group, found = log.group("sessions"), log.page(0)
    taken = group.take(0, "w1")
    group.commit(0, taken.epoch, found[4].id)

    group.seek(id=found[1].id, partition=0)

    with pytest.raises(OffsetRefused):
        group.commit(0, taken.epoch, found[4].id)
    again = group.take(0, "w1")
    assert (again.offset, again.epoch > taken.epoch) == (found[1].id, True)
    group.seek(found[0].appended_at)
    assert log.page(0, after=group.take(0, "w1").offset) == found
    group.seek(4_000_000_000)
    assert group.take(0, "w1").offset == found[-1].id  # what comes before that time is not skipped
    group.seek(id="9999999999999999-0", partition=0)
    assert group.take(0, "w1").offset == found[-1].id
    group.seek()
    assert log.page(0, after=group.take(0, "w1").offset) == found
    with pytest.raises(InvalidArgument, match="belongs to one partition"):
        group.seek(id="5-0")


def test_lag_is_counted_to_the_message(ps: penstock.Penstock) -> None:
    log = ps.log("clicks")
    log.append_many([b"x"] * 1000)
    found = log.page(0)
    group = log.group("sessions")
    epoch = group.take(0, "w1").epoch
    log.trim(id=found[50].id, partition=0, force=True)

    for done in (60, 126, 127, 128, 129, 500, 998, 999):
        group.commit(0, epoch, found[done].id)
        [lag] = group.lag()
        assert lag.messages == 999 - done
    assert lag == ("sessions", 0, 0, 0.0)
    log.append(b"new")
    assert group.lag()[0].messages == 1
    assert [lag[:3] for lag in log.lag()] == [("sessions", 0, 1)]
    assert log.group("other").lag() == []


def test_what_was_given_up_is_kept_with_the_reason(log: penstock.Log) -> None:
    log.append(b"bad", key="k", headers={"a": "b"}, at=5)
    group, message = log.group("sessions"), log.page(0)[-1]
    epoch = group.take(0, "w1").epoch

    id = group.note_error(0, epoch, message, "ValueError: no", 3)

    [error] = group.errors(0)
    assert (error.id, error.reason, error.attempts) == (id, "ValueError: no", 3)
    assert error.message == message
    assert group.count_errors() == 1
    assert group.errors(0, after=id) == []
    assert log.group("other").count_errors() == 0


def test_replay_appends_what_was_given_up_for_its_group_alone(ps: penstock.Penstock) -> None:
    log = ps.log("clicks", partitions=2)
    log.append_many([b"%d" % index for index in range(400)])
    group = log.group("sessions")
    for number in range(2):
        epoch = group.take(number, "w1").epoch
        for message in log.page(number):
            group.note_error(number, epoch, message, "no", 1)
    assert group.count_errors() == 400

    assert group.replay() == 400

    assert group.count_errors() == 0
    found = list(log.read())
    again = [message for message in found if message.only_for]
    assert {message.only_for for message in again} == {"sessions"}
    assert sorted(int(message.body) for message in again) == list(range(400))
    assert len(found) == 800
    assert check(ps).violations == []


def test_a_replay_ends_although_messages_are_given_up_meanwhile(
    log: penstock.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, [message, *_] = log.group("sessions"), log.page(0)
    epoch = group.take(0, "w1").epoch
    group.note_error(0, epoch, message, "no", 1)
    read_errors = group.errors

    def fail_again(partition: int) -> list[FailedMessage]:
        found = read_errors(partition)
        group.note_error(0, epoch, message, "again", 1)
        return found

    monkeypatch.setattr(group, "errors", fail_again)

    assert group.replay() == 1
    assert {error.reason for error in read_errors(0)} == {"again"}


def test_a_group_that_is_forgotten_leaves_nothing(log: penstock.Log) -> None:
    group = log.group("sessions")
    group.join()
    group.join()
    epoch = group.take(0, "w1").epoch
    group.note_error(0, epoch, log.page(0)[0], "no", 1)
    assert log.info().groups == ("sessions",)

    group.forget()

    assert log.info().groups == ()
    assert log.info().partitions[0].readers == ()
    assert group.count_errors() == 0


def test_a_group_of_no_log_is_refused(ps: penstock.Penstock) -> None:
    ps.queue("mail").enqueue(b"x")

    with pytest.raises(LogNotFound, match="group 'sessions'"):
        ps.log("clicks").group("sessions").join()
    with pytest.raises(WrongKind):
        ps.log("mail").group("sessions").join()


def test_a_partition_that_the_log_has_not_is_refused(log: penstock.Log) -> None:
    with pytest.raises(InvalidArgument, match="partitions 0 to 0"):
        log.group("sessions").take(1, "w1")


def test_there_are_only_so_many_readers(log: penstock.Log) -> None:
    for index in range(100):
        log.mark(f"reader-{index}", {0: "0-0"})
        log.group(f"group-{index}").join()

    for refused in (
        lambda: log.mark("one more", {0: "0-0"}),
        lambda: log.group("one more").take(0, "w1"),
        lambda: log.group("one more").join(),
        lambda: log.group("one more").seek(),
    ):
        with pytest.raises(QueueFull, match="has 100 readers"):
            refused()


def test_what_is_replayed_is_told_as_messages_that_were_appended(
    log: penstock.Log, names: NamespaceKeys, listen: Callable[[str], Ear]
) -> None:
    # Not as news of a group, after which its consumers would begin to count failures anew.
    group, [message, *_] = log.group("sessions"), log.page(0)
    group.note_error(0, group.take(0, "w1").epoch, message, "no", 1)
    ear = listen(names.queue("clicks").partition(0).appended)

    group.replay()

    assert ear.hear_the_rest() == [next(log.read(reverse=True)).id.encode()]


def test_those_who_wait_for_a_partition_are_told_of_an_append(
    log: penstock.Log, names: NamespaceKeys, listen: Callable[[str], Ear]
) -> None:
    ear = listen(names.queue("clicks").partition(0).appended)

    places = [log.append(b"x"), log.append(b"y")]

    assert ear.hear_the_rest() == [place.id.encode() for place in places]


def test_a_client_that_knows_of_fewer_partitions_asks_again(
    ps: penstock.Penstock,
) -> None:
    log = ps.log("clicks", partitions=1)
    log.append(b"first")
    ps.log("clicks").configure(partitions=2)  # each has an answer of its own

    log.group("g").seek()

    readers = [log.partition_info(number).readers for number in (0, 1)]
    assert [[reader.name for reader in found] for found in readers] == [["g"], ["g"]]
