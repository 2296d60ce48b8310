"""The assignment of partitions: balanced, and with no more moves than balance needs."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordination.assignment import assign

if TYPE_CHECKING:
    from random import Random

MEMBERS = st.lists(st.sampled_from("abcdefghijklmnop"), min_size=1, unique=True)
PARTITIONS = st.integers(min_value=0, max_value=64).map(range)


def equal(members: list[str] | str) -> dict[str, int]:
    return dict.fromkeys(members, 1)


def moves(before: dict[int, str], after: dict[int, str]) -> int:
    return sum(before[partition] != member for partition, member in after.items())


def test_as_many_members_as_partitions_get_one_each() -> None:
    assert sorted(assign(range(3), equal("abc"), {}).values()) == ["a", "b", "c"]


def test_fewer_members_get_several_each() -> None:
    assert Counter(assign(range(7), equal("abc"), {}).values()) == {"a": 3, "b": 2, "c": 2}


def test_surplus_members_get_nothing() -> None:
    assert len(set(assign(range(2), equal("abcd"), {}).values())) == 2


def test_nobody_gets_anything_without_members() -> None:
    assert assign(range(4), {}, {0: "a"}) == {}


def test_weights_are_shares() -> None:
    assert Counter(assign(range(9), {"a": 2, "b": 1}, {}).values()) == {"a": 6, "b": 3}


def test_a_partition_of_no_member_that_is_left_goes_to_one_that_is() -> None:
    assert assign(range(2), equal("b"), {0: "a", 1: "b"}) == {0: "b", 1: "b"}


def test_new_partitions_move_none_of_the_others() -> None:
    before = assign(range(4), equal("ab"), {})

    after = assign(range(6), equal("ab"), before)

    assert {partition: after[partition] for partition in before} == before
    assert Counter(after.values()) == {"a": 3, "b": 3}


@given(PARTITIONS, MEMBERS, st.randoms(use_true_random=False))
def test_every_partition_has_one_member_and_counts_differ_by_one_at_most(
    partitions: range, members: list[str], random: Random
) -> None:
    current = {partition: random.choice([*members, "gone"]) for partition in partitions}

    assigned = assign(partitions, equal(members), current)

    assert set(assigned) == set(partitions)
    counts = Counter(assigned.values())
    assert max(counts[m] for m in members) - min(counts[m] for m in members) <= 1


@given(PARTITIONS, MEMBERS, st.randoms(use_true_random=False))
def test_no_assignment_that_is_balanced_moves_fewer(
    partitions: range, members: list[str], random: Random
) -> None:
    """What a member has above its share must move, and what no member has; nothing else."""
    current = {partition: random.choice([*members, "gone"]) for partition in partitions}
    held = Counter(member for member in current.values() if member != "gone")
    share, larger = divmod(len(partitions), len(members))
    by_size = sorted(members, key=lambda member: -held[member])
    kept = sum(min(held[member], share + (place < larger)) for place, member in enumerate(by_size))

    assigned = assign(partitions, equal(members), current)

    assert moves(current, assigned) == len(partitions) - kept


@given(PARTITIONS, MEMBERS)
def test_a_join_moves_one_share_and_a_leave_moves_what_was_left(
    partitions: range, members: list[str]
) -> None:
    before = assign(partitions, equal(members), {})

    joined = assign(partitions, equal([*members, "new"]), before)
    left = assign(partitions, equal(members), joined)

    assert moves(before, joined) <= ceil(len(partitions) / (len(members) + 1))
    assert all(member == "new" for p, member in joined.items() if before[p] != member)
    assert moves(joined, left) == sum(member == "new" for member in joined.values())


@given(
    PARTITIONS,
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 9), min_size=1),
    st.randoms(use_true_random=False),
)
def test_nobody_is_further_than_one_from_the_share_of_its_weight(
    partitions: range, weights: dict[str, int], random: Random
) -> None:
    current = {partition: random.choice(sorted(weights)) for partition in partitions}

    counts = Counter(assign(partitions, weights, current).values())

    for member, weight in weights.items():
        share = len(partitions) * weight / sum(weights.values())
        assert abs(counts[member] - share) < 1
    assert counts.total() == len(partitions)


@pytest.mark.parametrize("count", [1, 5, 32])
def test_what_is_balanced_stays_as_it_is(count: int) -> None:
    before = assign(range(count), equal("abc"), {})

    assert assign(range(count), equal("cba"), before) == before
