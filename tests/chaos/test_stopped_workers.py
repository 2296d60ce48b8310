"""Workers that are asked to stop, at any moment."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

import pytest

from tests.chaos.handlers import name_of
from tests.chaos.harness import until
from tests.chaos.producers import Producers

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness import World

pytestmark = [pytest.mark.xdist_group("chaos"), pytest.mark.timeout(120)]

LONGEST_MS = 40


def test_a_worker_stopped_at_any_moment_loses_nothing_and_repeats_nothing(
    world: World, report: Callable[[str], None]
) -> None:
    moments = random.Random(20)
    took_s = []

    with Producers(world.queue, longest_ms=LONGEST_MS) as producers:
        hooks = [world.fleet.start() for _ in range(2)]
        for _ in range(20):
            oldest = hooks.pop(0)
            hooks.append(world.fleet.start())
            world.wait_for_work(oldest)
            threading.Event().wait(moments.uniform(0, 2 * LONGEST_MS / 1000))
            oldest.terminate()
            took_s.append(oldest.wait(30))
            assert oldest.status == 0, oldest.log[-3000:]
    world.drain(len(producers.accepted))
    world.fleet.stop()

    report(f"20 workers stopped at random moments: longest took {max(took_s):.2f} s to leave")
    assert max(took_s) < LONGEST_MS / 1000 + 5
    assert len(world.journal.ended()) == len(producers.accepted)
    counters = world.queue.inspect().counters
    assert (counters.lost, counters.failed, counters.refused) == (0, 0, 0)
    world.assert_all_done(producers.accepted)


def test_tasks_that_run_into_the_grace_time_go_back_and_the_worker_leaves(world: World) -> None:
    worker = world.fleet.start(concurrency=2, grace_s=0.5)
    world.wait_for_workers([worker])
    accepted = world.enqueue(["a", "b", "c"], "wait")
    until(lambda: len(world.journal.started()) == 2, 20)

    worker.terminate()
    took_s = worker.wait(30)

    assert worker.status == 0
    assert 0.5 <= took_s < 5.5
    assert [name_of(task) for task in world.queue.page().tasks] == accepted
    assert world.queue.inspect().failures == 0


def test_a_worker_told_twice_leaves_at_once_and_its_tasks_are_in_front(world: World) -> None:
    worker = world.fleet.start(concurrency=2, grace_s=600)
    world.wait_for_workers([worker])
    accepted = world.enqueue(["a", "b", "c", "d"], "wait")
    until(lambda: len(world.journal.started()) == 2, 20)

    worker.terminate()
    until(lambda: "worker stopping" in worker.log, 20)
    worker.terminate()
    took_s = worker.wait(30)

    assert worker.status == 0
    assert took_s < 5
    assert [name_of(task) for task in world.queue.page().tasks] == accepted
    assert world.queue.inspect().failures == 0

    world.open_gate()
    world.fleet.start()
    world.drain(4)
    world.fleet.stop()
    world.assert_all_done(accepted)


def test_a_worker_told_twice_leaves_soon_even_if_the_store_is_away(world: World) -> None:
    worker = world.fleet.start(grace_s=600)
    world.wait_for_workers([worker])
    world.server.kill()

    worker.terminate()
    until(lambda: "worker stopping" in worker.log, 20)
    worker.terminate()
    took_s = worker.wait(20)

    assert worker.status == 0, worker.log[-3000:]
    assert took_s < 15
