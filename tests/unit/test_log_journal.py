"""The checker of the chaos tests finds what it is there to find."""

from __future__ import annotations

import pytest

from tests.chaos.log_journal import Entry, check
from tests.log_promises import Batch

IDS = ["1-0", "2-0", "3-0"]


def entries(*steps: tuple[str, int, int, str]) -> list[Entry]:
    """What happened to single messages: what, epoch, process, id."""
    return [
        Entry(what, float(at), Batch(0, epoch, pid, (id,)))
        for at, (what, epoch, pid, id) in enumerate(steps)
    ]


FIRST = [("begin", 1, 7, "1-0"), ("end", 1, 7, "1-0")]
SECOND = [("begin", 1, 7, "2-0"), ("end", 1, 7, "2-0")]
THIRD = [("begin", 1, 7, "3-0"), ("end", 1, 7, "3-0")]


def test_what_a_killed_owner_had_under_way_comes_again() -> None:
    killed = [("begin", 1, 7, "2-0")]
    again = [("begin", 2, 8, "2-0"), ("end", 2, 8, "2-0"), ("begin", 2, 8, "3-0")]
    check(entries(*FIRST, *killed, *again, ("end", 2, 8, "3-0")), {0: IDS}, set())


def test_a_skipped_message_is_found() -> None:
    with pytest.raises(AssertionError, match="skipped"):
        check(entries(*FIRST, *THIRD), {0: IDS}, set())


def test_a_message_that_nobody_handled_is_found() -> None:
    with pytest.raises(AssertionError, match="never handled"):
        check(entries(*FIRST, *SECOND), {0: IDS}, set())


def test_two_owners_at_once_are_found() -> None:
    both = [("begin", 1, 7, "2-0"), ("begin", 2, 8, "2-0"), ("end", 1, 7, "2-0")]
    rest = [("end", 2, 8, "2-0"), ("begin", 2, 8, "3-0"), ("end", 2, 8, "3-0")]
    with pytest.raises(AssertionError, match="under way"):
        check(entries(*FIRST, *both, *rest), {0: IDS}, set())


def test_an_epoch_that_goes_back_is_found() -> None:
    later = [("begin", 2, 8, "2-0"), ("end", 2, 8, "2-0")]
    with pytest.raises(AssertionError, match="epoch"):
        check(entries(*FIRST, *later, *THIRD), {0: IDS}, set())
