"""How much to send is cut into batches, and what is read ahead."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from penstock.client.batches import Batches

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 1024 * 1024


def sizes(items: Iterable[bytes], max_items: int) -> list[int]:
    batches = Batches(items, bytes, len, max_items, list)
    found = []
    while batch := batches.take():
        found.append(len(batch))
    return found


@pytest.mark.parametrize(
    ("items", "expected"),
    [(0, []), (1, [1]), (3, [3]), (4, [3, 1]), (6, [3, 3]), (7, [3, 3, 1])],
)
def test_a_batch_has_so_many_items(items: int, expected: list[int]) -> None:
    assert sizes((b"x" for _ in range(items)), 3) == expected


@pytest.mark.parametrize(
    ("items", "expected"), [(8, [8]), (9, [2, 7]), (18, [2, 8, 8]), (19, [2, 8, 8, 1])]
)
def test_the_first_of_several_batches_is_smaller(items: int, expected: list[int]) -> None:
    assert sizes([b"x"] * items, 8) == expected


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([MIB, 1], [1, 1]),
        ([MIB - 1, 1, 1], [2, 1]),
        ([2 * MIB, 2 * MIB, 1, 1], [1, 1, 2]),
        ([1, 2 * MIB, 1], [1, 1, 1]),
    ],
)
def test_a_batch_has_so_many_bytes(lengths: list[int], expected: list[int]) -> None:
    assert sizes([b"x" * length for length in lengths], 10) == expected


def test_every_item_comes_once_and_in_order() -> None:
    batches = Batches(range(100), lambda item: bytes(item * 1000), len, 7, list)
    sizes: list[int] = []
    while batch := batches.take():
        batches.prepare()
        sizes += map(len, batch)

    assert sizes == [item * 1000 for item in range(100)]


def test_one_batch_is_read_ahead_and_no_more() -> None:
    numbers = count()
    batches = Batches(numbers, lambda item: b"%d" % item, len, 10, list)

    batches.take()
    batches.prepare()
    batches.prepare()

    assert next(numbers) == 20


def test_what_is_wrong_with_an_item_is_said_when_its_batch_is_wanted() -> None:
    def pack(item: int) -> bytes:
        if item == 15:
            raise ValueError("fifteen")
        return b"x"

    batches = Batches((item for item in range(30)), pack, len, 10, list)
    assert batches.take() == [b"x"] * 10

    batches.prepare()

    with pytest.raises(ValueError, match="fifteen"):
        batches.take()


def test_items_that_cannot_say_how_many_they_are_can_still_be_read() -> None:
    class Uncounted(list[bytes]):
        def __len__(self) -> int:
            raise NotImplementedError

    assert sizes(Uncounted([b"x"] * 4), 3) == [3, 1]
