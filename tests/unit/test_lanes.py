"""No two requests under way ever have the same lane and number."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from penstock.connection.lanes import Lane, Lanes

if TYPE_CHECKING:
    import pytest


def test_a_lane_that_was_given_back_goes_on_counting() -> None:
    lanes = Lanes()
    first = lanes.take()
    name, number = first.name, first.number
    lanes.give_back(first)

    second = lanes.take()

    assert (second.name, second.number) == (name, number + 1)


def test_lanes_in_use_at_once_are_distinct() -> None:
    lanes = Lanes()
    assert len({lanes.take().name for _ in range(100)}) == 100


def test_a_lane_that_is_not_given_back_is_never_seen_again() -> None:
    lanes = Lanes()
    lost = lanes.take()
    for _ in range(10):
        lane = lanes.take()
        assert lane.name != lost.name
        lanes.give_back(lane)


def test_there_are_only_as_many_lanes_as_requests_under_way() -> None:
    lanes = Lanes()
    names = set()
    for _ in range(100):
        pair = [lanes.take(), lanes.take()]
        names |= {lane.name for lane in pair}
        for lane in pair:
            lanes.give_back(lane)
    assert len(names) == 2


def test_clients_share_no_lane() -> None:
    assert Lanes().take().name != Lanes().take().name


def test_threads_never_get_the_same_number_of_a_lane() -> None:
    lanes = Lanes()

    def take_many(_: int) -> list[tuple[str, int]]:
        taken = []
        for _ in range(2000):
            lane = lanes.take()
            taken.append((lane.name, lane.number))
            lanes.give_back(lane)
        return taken

    with ThreadPoolExecutor(8) as threads:
        taken = [operation for many in threads.map(take_many, range(8)) for operation in many]

    assert len(set(taken)) == len(taken) == 16_000


def test_a_child_process_uses_no_lane_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = Lanes()
    kept, used = lanes.take(), lanes.take()
    lanes.give_back(used)
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)

    child = [lanes.take() for _ in range(3)]

    assert not {lane.name for lane in child} & {kept.name, used.name}


def test_a_lane_taken_before_a_fork_does_not_come_back_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lanes = Lanes()
    inherited: Lane = lanes.take()
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    lanes.give_back(lanes.take())

    lanes.give_back(inherited)

    assert {lanes.take().name for _ in range(3)}.isdisjoint({inherited.name})
