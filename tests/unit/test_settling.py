"""What a member makes of a group that changes."""

from __future__ import annotations

from math import inf

from penstock.coordination.settling import Settling

ANT, BOTH = {"ant": 1}, {"ant": 1, "bee": 1}
ALL_ANTS = dict.fromkeys(range(4), "ant")


def settled(member: str) -> Settling:
    """One that has seen ant own everything for long."""
    settling = Settling(member, 3.0)
    settling.seen(ANT, ALL_ANTS, 4, 0.0)
    assert settling.assigned(100.0) == ({0, 1, 2, 3} if member == "ant" else set())
    return settling


def test_partitions_without_an_owner_move_within_half_a_second() -> None:
    settling = Settling("ant", 3.0)
    settling.seen(ANT, {}, 4, 10.0)

    assert settling.assigned(10.0) == set()
    assert settling.due_at(10.0) <= 10.5
    assert settling.assigned(settling.due_at(10.0)) == {0, 1, 2, 3}


def test_an_owner_gives_nothing_up_before_a_join_has_settled() -> None:
    settling = settled("ant")

    settling.seen(BOTH, ALL_ANTS, 4, 100.0)

    assert settling.assigned(102.9) == {0, 1, 2, 3}
    assert settling.due_at(102.9) == 103.0
    assert settling.assigned(103.0) == {0, 1}


def test_what_is_being_moved_is_not_asked_for_before_it_is_released() -> None:
    settling = settled("bee")
    settling.seen(BOTH, ALL_ANTS, 4, 100.0)

    assert settling.assigned(200.0) == set()
    assert settling.due_at(200.0) == inf

    settling.seen(BOTH, {0: "ant", 1: "ant"}, 4, 200.0)
    assert settling.assigned(200.5) == {2, 3}


def test_members_that_join_one_after_the_other_cause_one_move() -> None:
    settling = settled("ant")
    settling.seen(BOTH, ALL_ANTS, 4, 100.0)
    settling.seen(BOTH | {"cat": 1}, ALL_ANTS, 4, 102.0)

    assert settling.assigned(104.9) == {0, 1, 2, 3}
    assert settling.assigned(105.0) == {0, 1}


def test_a_group_that_never_rests_is_balanced_all_the_same() -> None:
    settling = settled("ant")
    kept: list[int] = []
    for second in range(100, 120):
        settling.seen(ANT | {f"guest-{second}": 1}, ALL_ANTS, 4, float(second))
        kept.append(len(settling.assigned(second + 0.9)))

    assert kept[:8] == [4] * 8
    assert 2 in kept


def test_a_crash_during_unrest_moves_only_what_has_no_owner() -> None:
    settling = settled("ant")
    settling.seen(BOTH, {0: "ant", 1: "ant", 2: "bee", 3: "bee"}, 4, 100.0)
    settling.seen(ANT | {"cat": 1}, {0: "ant", 1: "ant"}, 4, 101.0)

    assert settling.assigned(101.5) >= {0, 1}
    assert len(settling.assigned(101.5)) == 2
