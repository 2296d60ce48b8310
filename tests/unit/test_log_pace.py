"""What two looks at a reader of a log say."""

from __future__ import annotations

import pytest

from penstock.model.log_pace import Look, Pace, pace


def look(at: float, added: int, lag: int, seconds: float = 60.0) -> Look:
    return Look(at, added, lag, seconds)


def test_a_reader_that_handles_more_than_arrives_catches_up() -> None:
    # 100 arrive and 300 are handled in 2 s.
    found = pace(look(10, 1000, 800), look(12, 1100, 600), workers=3, partitions=8)

    assert found == Pace(arriving=50, handled=150, catch_up_s=6, workers_needed=1)


def test_a_reader_that_handles_less_than_arrives_never_catches_up_and_needs_more_workers() -> None:
    # 300 arrive and 100 are handled in 2 s, by two workers: 25 a second each.
    found = pace(look(10, 1000, 800), look(12, 1300, 1000), workers=2, partitions=8)

    assert found == Pace(arriving=150, handled=50, catch_up_s=None, workers_needed=6)


def test_more_workers_than_partitions_are_of_no_use() -> None:
    found = pace(look(10, 1000, 800), look(12, 1300, 1000), workers=2, partitions=4)

    assert found is not None
    assert found.workers_needed == 4


def test_one_that_just_keeps_level_never_catches_up() -> None:
    found = pace(look(0, 1000, 800), look(1, 1100, 800), workers=2, partitions=8)

    assert found == Pace(100, 100, None, 2)


@pytest.mark.parametrize(("lag", "seconds"), [(0, 0.0), (40, 0.5)])
def test_one_that_keeps_up_has_workers_enough(lag: int, seconds: float) -> None:
    found = pace(look(0, 1000, lag), look(1, 1100, lag, seconds), workers=2, partitions=8)

    assert found == Pace(arriving=100, handled=100, catch_up_s=0, workers_needed=2)


@pytest.mark.parametrize("workers", [0, 2])
def test_nobody_can_tell_how_many_workers_are_needed_if_nothing_is_handled(workers: int) -> None:
    found = pace(look(0, 1000, 800), look(1, 1100, 900), workers, partitions=8)

    assert found == Pace(arriving=100, handled=0, catch_up_s=None, workers_needed=None)


def test_one_that_was_sent_back_meanwhile_handles_nothing_rather_than_less() -> None:
    found = pace(look(0, 1000, 0), look(1, 1000, 1000), workers=1, partitions=1)

    assert found == Pace(arriving=0, handled=0, catch_up_s=None, workers_needed=None)


@pytest.mark.parametrize("after", [look(0, 1100, 800), look(1, 10, 5)])
def test_nothing_is_said_without_time_or_if_the_log_was_made_anew(after: Look) -> None:
    assert pace(look(0, 1000, 800), after, workers=1, partitions=1) is None
