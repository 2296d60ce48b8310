"""A group that never rests: every partition is read, and little moves."""

from __future__ import annotations

from collections import Counter
from math import ceil
from random import Random

from penstock.coordination.settling import Settling

PARTITIONS = 32
MEMBERS = 16


class Group:
    """Members that see each other at once, on a clock of the test. A release takes a step."""

    def __init__(self) -> None:
        self.now = 0.0
        self.members: dict[str, Settling] = {}
        self.owners: dict[int, str] = {}
        self.read: Counter[int] = Counter()
        self.moves = 0
        self._last: dict[int, str] = {}

    def join(self, name: str) -> None:
        self.members[name] = Settling(name, 3.0)

    def leave(self, name: str) -> None:
        del self.members[name]
        self.owners = {p: m for p, m in self.owners.items() if m != name}

    def step(self, seconds: float) -> None:
        self.now += seconds
        weights = dict.fromkeys(self.members, 1)
        seen = dict(self.owners)
        for name, settling in self.members.items():
            settling.seen(weights, seen, PARTITIONS, self.now)
            assigned = settling.assigned(self.now)
            for partition in [p for p, m in seen.items() if m == name and p not in assigned]:
                del self.owners[partition]
            for partition in assigned:
                assert self.owners.get(partition, name) == name, "claimed from its owner"
                self.owners[partition] = name
                self.moves += self._last.get(partition, name) != name
                self._last[partition] = name
        self.read.update(self.owners.keys())

    def rest(self, seconds: float) -> None:
        for _ in range(int(seconds / 0.1)):
            self.step(0.1)


def full_group() -> Group:
    group = Group()
    for number in range(MEMBERS):
        group.join(f"m{number}")
    group.rest(20)
    assert Counter(Counter(group.owners.values()).values()) == {2: MEMBERS}
    return group


def test_a_member_added_to_sixteen_moves_few_and_all_are_served() -> None:
    group = full_group()
    group.moves = 0

    group.join("new")
    group.rest(20)

    assert 0 < group.moves <= ceil(PARTITIONS / (MEMBERS + 1))
    assert len(group.owners) == PARTITIONS


def test_in_a_storm_every_partition_advances_and_each_change_moves_little() -> None:
    group, random = full_group(), Random(7)
    for round in range(60):
        group.read.clear()
        group.moves = 0
        leaves = len(group.members) >= MEMBERS
        if leaves:
            group.leave(random.choice(sorted(group.members)))
        else:
            group.join(f"guest-{round}")
        group.rest(2)
        assert len(group.read) == PARTITIONS, "a partition was not read"
        assert group.moves <= ceil(PARTITIONS / len(group.members)) + 1
    group.rest(20)
    counts = Counter(group.owners.values())
    assert sum(counts.values()) == PARTITIONS
    assert max(counts.values()) - min(counts.values()) <= 1
