"""Compares what is there with what should be, each with how often it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = TypeVar("Row")


def assert_each_once(found: Iterable[Row], expected: Iterable[Row]) -> None:
    """Nothing is lost and nothing is double. It shows a few examples, as all would take minutes."""
    there, wanted = Counter(found), Counter(expected)
    lost, double = wanted - there, there - wanted
    examples = (lost.most_common(3), double.most_common(3))
    assert (lost.total(), double.total()) == (0, 0), examples
