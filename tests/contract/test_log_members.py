"""Groups that the store coordinates, and what the owner of a partition reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import QueueFull
from penstock.store.commands import log_groups
from penstock.store.commands import log_members as members
from penstock.store.commands.logs import NoPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.store.commands.log_members import GroupView
    from penstock.store.keys import PartitionKeys, QueueKeys
    from tests.contract.conftest import Ear

GROUP = "g"


@pytest.fixture
def clicks(ps: penstock.Penstock) -> penstock.Log:
    log = ps.log("clicks", partitions=2)
    log.append_many([penstock.NewMessage(b"%d" % number, partition=0) for number in range(5)])
    return log


@pytest.fixture
def keys(ps: penstock.Penstock) -> QueueKeys:
    return ps.keys.queue("clicks")


@pytest.fixture
def part(keys: QueueKeys) -> PartitionKeys:
    return keys.partition(0)


@pytest.fixture
def join(ps: penstock.Penstock, keys: QueueKeys) -> Callable[..., GroupView]:
    def join(member: str, lease_ms: int = 60_000, partitions: int = 2) -> GroupView:
        command = members.keep_member(keys, GROUP, member, lease_ms, 1, partitions, joins=True)
        view = ps.store.run(command)
        assert view is not None
        return view

    return join


def test_members_see_each_other_and_who_owns_what(
    ps: penstock.Penstock, keys: QueueKeys, join: Callable[..., GroupView]
) -> None:
    assert join("ant").weights == {"ant": 1}
    assert ps.store.run(members.own_partition(keys, GROUP, "ant", 1))

    view = join("bee", partitions=3)

    assert view.weights == {"ant": 1, "bee": 1}
    assert view.owners == {1: "ant"}
    assert view.partitions == 3
    assert 0 < view.wait_ms <= 60_000


def test_a_partition_has_one_owner_until_it_is_given_up(
    ps: penstock.Penstock, keys: QueueKeys, join: Callable[..., GroupView]
) -> None:
    join("ant")
    join("bee")
    own = members.own_partition
    assert ps.store.run(own(keys, GROUP, "ant", 0))
    assert ps.store.run(own(keys, GROUP, "ant", 0))
    assert not ps.store.run(own(keys, GROUP, "bee", 0))

    ps.store.run(members.disown_partitions(keys, GROUP, "bee", 0))
    assert not ps.store.run(own(keys, GROUP, "bee", 0))
    ps.store.run(members.disown_partitions(keys, GROUP, "ant", 0))

    assert ps.store.run(own(keys, GROUP, "bee", 0))


def test_a_member_that_leaves_owns_nothing(
    ps: penstock.Penstock, keys: QueueKeys, join: Callable[..., GroupView]
) -> None:
    join("ant")
    for partition in (0, 1):
        ps.store.run(members.own_partition(keys, GROUP, "ant", partition))

    ps.store.run(members.disown_partitions(keys, GROUP, "ant"))

    assert join("bee") == ({"bee": 1}, {}, 2, -1)
    assert not ps.store.run(members.own_partition(keys, GROUP, "ant", 0))


def test_a_member_whose_time_is_up_is_lost_and_owns_nothing(
    ps: penstock.Penstock, keys: QueueKeys, join: Callable[..., GroupView]
) -> None:
    join("ant", lease_ms=0)
    join("bee")

    assert ps.store.run(members.keep_member(keys, GROUP, "ant", 60_000, 1, 2)) is None
    assert not ps.store.run(members.own_partition(keys, GROUP, "ant", 0))
    assert ps.store.run(members.own_partition(keys, GROUP, "bee", 0))


def test_a_group_has_a_thousand_members_at_most(
    ps: penstock.Penstock, keys: QueueKeys, join: Callable[..., GroupView]
) -> None:
    for number in range(1000):
        join(f"m{number}")

    with pytest.raises(QueueFull, match="has 1000 members"):
        join("one-too-many")
    assert ps.store.run(members.keep_member(keys, GROUP, "m7", 60_000, 1, 2)) is not None


def test_an_owner_reads_what_comes_next(
    ps: penstock.Penstock, clicks: penstock.Log, part: PartitionKeys
) -> None:
    taken = clicks.group(GROUP).take(0, "ant")
    read = ps.store.run(members.read_messages(part, GROUP, taken.epoch, taken.offset, 3))

    assert [message.body for message in read.messages] == [b"0", b"1", b"2"]
    rest = ps.store.run(members.read_messages(part, GROUP, taken.epoch, read.messages[-1].id, 3))
    assert [message.body for message in rest.messages] == [b"3", b"4"]
    last = rest.messages[-1].id
    assert ps.store.run(members.read_messages(part, GROUP, taken.epoch, last, 3)).word == "empty"


def test_an_owner_of_before_reads_nothing(
    ps: penstock.Penstock, clicks: penstock.Log, part: PartitionKeys
) -> None:
    old = clicks.group(GROUP).take(0, "ant")
    clicks.group(GROUP).take(0, "bee")

    assert ps.store.run(members.read_messages(part, GROUP, old.epoch, "0-0", 3)).word == "lost"


def test_a_gap_is_told_with_where_it_ends(
    ps: penstock.Penstock, clicks: penstock.Log, part: PartitionKeys
) -> None:
    taken = clicks.group(GROUP).take(0, "ant")
    ids = [message.id for message in clicks.read(partition=0)]
    clicks.trim(id=ids[3], partition=0, force=True)

    read = ps.store.run(members.read_messages(part, GROUP, taken.epoch, ids[0], 3))

    assert (read.word, read.trimmed_to) == ("trimmed", ids[2])
    behind = ps.store.run(members.read_messages(part, GROUP, taken.epoch, ids[2], 3))
    assert [message.body for message in behind.messages] == [b"3", b"4"]


def test_a_paused_group_reads_nothing_and_is_woken_to_go_on(
    ps: penstock.Penstock,
    clicks: penstock.Log,
    part: PartitionKeys,
    listen: Callable[[str], Ear],
) -> None:
    taken = clicks.group(GROUP).take(0, "ant")
    born = clicks.facts().born
    ps.store.run(members.pause_reading(part, born, GROUP, is_paused=True))
    read = members.read_messages(part, GROUP, taken.epoch, taken.offset, 3)
    assert ps.store.run(read).word == "paused"
    ear = listen(part.appended)

    ps.store.run(members.pause_reading(part, born, GROUP, is_paused=False))

    assert ps.store.run(read).word == "ok"
    assert ear.hear_the_rest() == [b"@" + GROUP.encode()]


def test_a_partition_of_another_log_is_not_paused(
    ps: penstock.Penstock, clicks: penstock.Log, part: PartitionKeys
) -> None:
    with pytest.raises(NoPartition):
        ps.store.run(members.pause_reading(part, "1", GROUP, is_paused=True))


def deaths_of(clicks: penstock.Log) -> tuple[int, str]:
    [reader] = clicks.partition_info(0).readers
    return tuple(reader.deaths)  # type: ignore[return-value]


def test_a_reported_death_counts_for_the_partitions_of_the_worker_and_a_lapse_does_not(
    ps: penstock.Penstock, clicks: penstock.Log
) -> None:
    for how, deaths in (("", (0, "")), ("SIGSEGV", (1, "SIGSEGV"))):
        worker = ps.worker()
        worker.start()
        clicks.group(GROUP).take(0, f"{worker.id}.0")
        worker.heartbeat.stop()

        ps.fail_worker(worker.id, how)

        assert deaths_of(clicks) == deaths


def test_only_a_death_while_a_message_is_tried_alone_counts_again(
    ps: penstock.Penstock, clicks: penstock.Log, part: PartitionKeys
) -> None:
    def die(worker: str) -> int:
        return ps.store.run(log_groups.note_death(part, worker, "SIGSEGV"))

    group = clicks.group(GROUP)
    group.take(0, "w-1.0")
    assert die("w-10") == 0  # another worker, though the names begin alike
    assert die("w-1") == 1
    assert die("w-1") == 0

    taken = group.take(0, "w-2.0")
    assert taken.deaths == (1, "SIGSEGV")
    assert die("w-2") == 0

    def try_alone() -> str:
        trial = members.read_messages(part, GROUP, taken.epoch, "0-0", 1, is_trial=True)
        return ps.store.run(trial).word

    assert try_alone() == "ok"
    assert die("w-2") == 1
    assert group.take(0, "w-3.0").deaths == (2, "SIGSEGV")
    assert try_alone() == "lost"
    assert die("w-3") == 0


def test_deaths_are_forgotten_when_the_offset_is_moved_and_not_before(
    ps: penstock.Penstock, clicks: penstock.Log, part: PartitionKeys
) -> None:
    group = clicks.group(GROUP)
    epoch = group.take(0, "w-1.0").epoch
    ps.store.run(log_groups.note_death(part, "w-1", "SIGSEGV"))

    group.commit(0, epoch, "0-0")
    assert deaths_of(clicks) == (1, "SIGSEGV")

    group.commit(0, epoch, clicks.page(0)[0].id)
    assert deaths_of(clicks) == (0, "")


def test_where_nothing_is_left_to_read_the_death_of_an_owner_does_not_count(
    ps: penstock.Penstock, clicks: penstock.Log, part: PartitionKeys
) -> None:
    group = clicks.group(GROUP)
    group.commit(0, group.take(0, "w-1.0").epoch, clicks.page(0)[-1].id)

    assert ps.store.run(log_groups.note_death(part, "w-1", "SIGSEGV")) == 0
    assert deaths_of(clicks) == (0, "")
