"""What can be a consumer, and what is refused where it is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"partitions": 5}, "partitions is 5; give a list of numbers"),
        ({"partitions": "01"}, "partitions is '01'; give a list of numbers"),
        ({"partitions": []}, "partitions is empty, so nothing would be read"),
        ({"partitions": [True]}, "a partition is True"),
        ({"batch": 0}, "batch is 0; give a whole number from 1 to 10000"),
        ({"commit": "never"}, "commit is 'never'; give a number of seconds"),
        ({"start": "middle"}, "start is 'middle'; give 'earliest' or 'latest'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(problem)):
        penstock.consumer("clicks", "g", **options)(print)


def test_what_would_handle_nothing_is_refused() -> None:
    mark: Callable[[Any], Any] = penstock.consumer("clicks", "g")

    def yields(message: penstock.Message) -> Iterator[bytes]:
        yield message.body

    with pytest.raises(InvalidArgument, match="yields, so calling it would handle nothing"):
        mark(yields)
    with pytest.raises(InvalidArgument, match="takes nothing"):
        mark(lambda: None)
    with pytest.raises(InvalidArgument, match="5 is no function"):
        mark(5)
