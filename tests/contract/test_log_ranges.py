"""What follows a message of a partition: whether it is all there, how much, and in which parts."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from penstock.store.commands.logs import describe_range

if TYPE_CHECKING:
    import penstock
    from penstock.model.logs import RangeInfo


class Partition:
    """One partition with a thousand messages, and their ids."""

    def __init__(self, ps: penstock.Penstock) -> None:
        self.log = ps.log("clicks")
        self.log.append_many([b"%d" % number for number in range(1000)])
        self.ids = [message.id for message in self.log.page(0, limit=10_000)]
        self.keys = ps.keys.queue("clicks").partition(0)
        self._store = ps.store

    def look(self, start: str, end: str = "+", most: int = 0, parts: int = 1) -> RangeInfo:
        return self._store.run(describe_range(self.keys, start, end, most, parts))

    def shortest_look_s(self, start: str) -> float:
        """What a look takes when nothing disturbs it."""
        times = []
        for _ in range(20):
            began_at = time.perf_counter()
            self.look(start)
            times.append(time.perf_counter() - began_at)
        return min(times)

    def delete_messages(self) -> None:
        self._store.call(self.keys.messages, "DEL", self.keys.messages)


@pytest.fixture
def partition(ps: penstock.Penstock) -> Partition:
    return Partition(ps)


@pytest.mark.parametrize(("start", "end"), [(0, 999), (5, 6), (127, 128), (128, 700), (3, 991)])
def test_the_messages_of_a_range_are_counted(partition: Partition, start: int, end: int) -> None:
    info = partition.look(partition.ids[start], partition.ids[end])

    assert info.messages == end - start
    assert info.ends == (partition.ids[end],)


def test_a_range_goes_to_the_newest_message(partition: Partition) -> None:
    info = partition.look("0-0")

    assert (info.messages, info.ends) == (1000, (partition.ids[-1],))
    assert (info.earliest, info.latest) == ("0-0", partition.ids[-1])
    assert partition.look(partition.ids[-1]).messages == 0
    assert partition.look("9999999999999-0").messages == 0


@pytest.mark.parametrize("most", [1, 127, 128, 129, 640, 989])
def test_a_range_can_have_so_many_messages_at_most(partition: Partition, most: int) -> None:
    info = partition.look(partition.ids[9], most=most)

    assert (info.messages, info.ends) == (most, (partition.ids[9 + most],))


@pytest.mark.parametrize("parts", [2, 3, 7, 500, 1000])
def test_parts_of_a_range_are_of_about_equal_size(partition: Partition, parts: int) -> None:
    ends = partition.look("0-0", parts=parts).ends

    places = [-1, *(partition.ids.index(end) for end in ends)]
    sizes = [after - before for before, after in pairwise(places)]
    assert len(sizes) == parts
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == 1000


def test_there_are_no_more_parts_than_messages(partition: Partition) -> None:
    assert partition.look(partition.ids[-3], parts=10).ends == tuple(partition.ids[-2:])


def test_ranges_are_counted_behind_what_was_trimmed(partition: Partition) -> None:
    partition.log.trim(id=partition.ids[200], partition=0)

    info = partition.look(partition.ids[199], parts=2)

    assert info.messages == 800
    assert info.ends == (partition.ids[599], partition.ids[999])


def test_a_range_is_whole_unless_something_after_its_start_is_gone(partition: Partition) -> None:
    ids = partition.ids
    assert all(partition.look(start).is_whole for start in ("0-0", ids[0], ids[200], ids[-1]))

    partition.log.trim(id=ids[200], partition=0)

    assert not any(partition.look(start).is_whole for start in ("0-0", ids[0], ids[198]))
    assert all(partition.look(start).is_whole for start in (ids[199], ids[200], ids[-1]))


def test_a_range_that_starts_at_a_message_which_is_not_there_is_not_whole(
    partition: Partition,
) -> None:
    before = partition.look(partition.ids[500])
    partition.delete_messages()
    partition.log.append(b"new")
    after = partition.look(partition.ids[500])

    assert before.is_whole
    assert before.at == partition.ids[500]
    assert not after.is_whole
    assert after.at == ""


def test_a_partition_that_was_not_opened_has_nothing(ps: penstock.Penstock) -> None:
    info = ps.store.run(describe_range(ps.keys.queue("clicks").partition(3), "0-0", parts=5))

    assert (info.born, info.last, info.messages, info.ends) == ("", "", 0, ())
    assert info.is_whole


def test_a_look_at_all_messages_takes_no_longer_the_more_there_are(partition: Partition) -> None:
    partition.log.append_many([b"x"] * 50_000)

    from_nothing = partition.shortest_look_s("0-0")
    from_the_first = partition.shortest_look_s(partition.ids[0])

    # Redis itself takes fifty times as long to find that no message is before the first.
    assert from_nothing < 5 * from_the_first
