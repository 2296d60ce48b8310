"""How many tasks a worker may hold beyond those it is running."""

from __future__ import annotations

import pytest

from penstock.worker.prefetch import TOO_LONG_S, Prefetch


def test_nothing_is_held_ahead_before_anything_is_known() -> None:
    assert Prefetch(4).ahead == 0


@pytest.mark.parametrize(
    ("took_s", "ahead"), [(0.0, 4), (0.001, 4), (0.01, 2), (0.03, 0), (TOO_LONG_S, 0), (9.0, 0)]
)
def test_about_20_ms_of_work_are_held_ahead(took_s: float, ahead: int) -> None:
    prefetch = Prefetch(1)

    prefetch.observe(1, took_s)

    assert prefetch.ahead == ahead


def test_it_grows_with_what_came_at_once() -> None:
    prefetch = Prefetch(2)
    seen = []
    for count in (1, 8, 32, 400):
        prefetch.observe(count, 0.0)
        seen.append(prefetch.ahead)

    assert seen == [8, 32, 128, 1000]


def test_nothing_is_held_ahead_after_a_stall_until_tasks_are_quick_again() -> None:
    prefetch = Prefetch(1)
    prefetch.observe(1, 0.0)

    prefetch.stalled()
    assert prefetch.ahead == 0

    prefetch.observe(1, 0.0)
    assert prefetch.ahead == 0
    prefetch.observe(10, 0.0)
    assert prefetch.ahead == 40
