"""A failed task is held for its backoff, takes no slot meanwhile, and goes back in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.model.processes import Failed, PastFailures
from penstock.worker.source import Cancelled
from tests.unit.test_feed import NOW, World

if TYPE_CHECKING:
    from penstock.executors.context import Context

MOST = 5


def fail(world: World, *contexts: Context, counts: tuple[int, ...] = (0,)) -> list[str]:
    """These fail, and the store says how often they had failed before."""
    for context in contexts:
        context.outcome = "failed"
    world.end(*contexts)
    assert world.steps() == [f"ask_delays {[context.token for context in contexts]}"]
    return world.answer(PastFailures(MOST, list(counts)))


def test_a_failed_task_is_held_and_its_slot_is_free() -> None:
    world = World(backoff=2)
    first, _ = world.run(5, 6)

    assert fail(world, first) == ["claim limit=1"]
    assert world.answer(world.found(7)) == ["begin [7]"]
    assert world.feed.wake_at == NOW + 2
    assert 5 in world.feed.held


def test_a_task_that_was_held_long_enough_goes_back() -> None:
    world = World(backoff=2)
    fail(world, *world.run(5))

    world.now += 2

    assert world.steps() == ["report [5]"]
    assert world.answer(Failed(0, [])) == []
    assert world.feed.totals.failed == 1
    assert world.feed.is_done
    assert world.feed.wake_at == float("inf")


@pytest.mark.parametrize(
    ("backoff", "before", "held_s"),
    [
        (3, 0, 3),
        (3, 3, 3),
        (3, 4, 0),  # it dies now
        ("exponential:1:60:0", 0, 1),
        ("exponential:1:60:0", 3, 8),
        ("exponential:1:6:0", 3, 6),
        ("named:own", 2, 30),
        ("named:broken", 0, None),
        ("named:unknown", 0, None),
    ],
)
def test_how_long_a_task_is_held(
    backoff: float | str, before: int, held_s: float | None, caplog: pytest.LogCaptureFixture
) -> None:
    own = {"own": lambda failures: 10 * failures, "broken": lambda failures: 1 / 0}
    world = World(backoff=backoff, backoffs=own)

    steps = fail(world, *world.run(5), counts=(before,))

    if held_s == 0:
        assert steps == ["report [5]"]
    elif held_s is None:  # the default, of which chance takes off up to a half
        assert NOW + 0.5 <= world.feed.wake_at <= NOW + 1
        assert "using the default" in caplog.text
    else:
        assert world.feed.wake_at == NOW + held_s


def test_a_worker_that_stops_gives_back_at_once_what_it_holds() -> None:
    world = World(backoff=60)
    first, second = world.run(5, 6)
    fail(world, first)
    world.answer(world.found())

    world.feed.stopping()

    assert world.steps() == ["report [5]"]
    world.answer(Failed(0, []))
    assert not world.feed.is_done
    assert fail(world, second) == ["report [6]"], "one that fails while it stops is not held"
    world.answer(Failed(0, []))
    assert world.feed.is_done


def test_a_held_task_that_is_cancelled_is_not_tried_again() -> None:
    world = World(backoff=60)
    [context] = world.run(5)
    fail(world, context)

    world.feed.cancelled(Cancelled(up_to=9, task=b"5"))

    assert world.steps() == ["cancel [5]", "claim [5] limit=2"]
    assert context.outcome == "finished"


def test_a_task_that_is_cancelled_while_its_delay_is_asked_for_is_not_tried_again() -> None:
    world = World(backoff=60)
    [context] = world.run(5)
    context.outcome = "failed"
    world.end(context)
    world.steps()

    world.feed.cancelled(Cancelled(up_to=9, task=b"5"))
    assert world.steps() == ["cancel [5]"]
    world.source.cancel(context)

    assert world.answer(PastFailures(MOST, [0])) == ["claim [5] limit=2"]
    assert context.outcome == "finished"


def test_of_too_many_held_tasks_the_next_one_goes_back_early() -> None:
    world = World(slots=1001, backoff="named:later", backoffs={"later": lambda failures: failures})
    contexts = world.run(*range(1, 1002))

    # The last one would be held for the shortest time.
    steps = fail(world, *contexts[:1000], counts=(1,) * 1000)
    assert steps == ["claim limit=1000"]
    world.answer(world.found())
    assert fail(world, contexts[1000], counts=(0,)) == ["report [1001]"]


def test_nothing_is_held_after_the_lease_is_lost() -> None:
    world = World(backoff=60)
    fail(world, *world.run(5))

    world.feed.close()

    assert world.feed.wake_at == float("inf")
    assert not world.feed.held
