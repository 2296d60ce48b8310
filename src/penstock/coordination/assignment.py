"""Which member of a group gets which partitions: a pure function, so that it can be proved."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


def assign(
    partitions: Collection[int], weights: Mapping[str, int], current: Mapping[int, str]
) -> dict[int, str]:
    """Give each partition to a member, with as few moves as balance allows.

    `weights` has every member; one of weight 2 gets twice as much as one of weight 1. With equal
    weights, counts differ by at most one. A partition stays with the member that has it in
    `current`, unless that member is gone or has more than its share. Without members nobody gets
    anything. The same arguments always give the same answer.
    """
    if not weights:
        return {}
    shares = _shares(len(partitions), weights, _counts(partitions, weights, current))
    assigned: dict[int, str] = {}
    for partition in sorted(partitions):
        holder = current.get(partition)
        if holder is not None and shares.get(holder, 0) > 0:
            assigned[partition] = holder
            shares[holder] -= 1
    free = [member for member in sorted(shares) for _ in range(shares[member])]
    moving = [partition for partition in sorted(partitions) if partition not in assigned]
    assigned.update(zip(moving, free, strict=True))
    return assigned


def _counts(
    partitions: Collection[int], weights: Mapping[str, int], current: Mapping[int, str]
) -> Counter[str]:
    """How many of these partitions each member has now."""
    wanted = set(partitions)
    return Counter(m for p, m in current.items() if p in wanted and m in weights)


def _shares(count: int, weights: Mapping[str, int], held: Mapping[str, int]) -> dict[str, int]:
    """How many partitions each member is to have.

    Each gets its part rounded down. What is left goes one by one to members that hold more than
    that already, which saves a move, then to those that lost most by the rounding.
    """
    total = sum(weights.values())
    shares = {member: count * weight // total for member, weight in weights.items()}

    def claim(member: str) -> tuple[bool, int, str]:
        lost = count * weights[member] % total
        return held.get(member, 0) <= shares[member], -lost, member

    left = count - sum(shares.values())
    for member in sorted((m for m in weights if count * weights[m] % total), key=claim)[:left]:
        shares[member] += 1
    return shares
