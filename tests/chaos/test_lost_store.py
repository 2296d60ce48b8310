"""A Redis that cuts connections, forgets scripts, dies, stays away or is full."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from penstock.errors import StoreFull
from tests.chaos.faults import cut_all
from tests.chaos.fleet import LEASE_MS
from tests.chaos.handlers import make_task
from tests.chaos.harness import repeating
from tests.chaos.producers import Producers

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.fleet import WorkerProcess
    from tests.chaos.harness import World

pytestmark = [pytest.mark.xdist_group("chaos"), pytest.mark.timeout(120)]


def test_connections_cut_all_the_time_cost_no_task_and_no_worker(
    world: World, report: Callable[[str], None]
) -> None:
    hooks = [world.fleet.start() for _ in range(4)]
    world.wait_for_workers(hooks)

    with Producers(world.queue) as producers:
        with repeating(lambda: cut_all(world), every_s=0.5) as cuts:
            threading.Event().wait(8)
        took_s = world.wait_for_progress()
    world.drain(len(producers.accepted))

    report(
        f"{sum(cuts)} connections cut in 8 s: {world.finished()} tasks "
        f"finished, 50 more within {took_s:.2f} s of the last cut"
    )
    assert_alive(hooks)
    world.fleet.stop()
    world.assert_all_done(producers.accepted)


def test_workers_wait_while_the_store_takes_no_more_connections(world: World) -> None:
    hooks = [world.fleet.start() for _ in range(3)]
    world.wait_for_workers(hooks)

    with Producers(world.queue) as producers:
        world.wait_for_progress()
        for _ in range(3):
            world.server.client.config_set("maxclients", 2)
            cut_all(world)
            threading.Event().wait(0.5)
            world.server.client.config_set("maxclients", 1000)
            world.wait_for_progress()
    world.drain(len(producers.accepted))

    assert_alive(hooks)
    world.fleet.stop()
    world.assert_all_done(producers.accepted)


def test_a_store_that_forgets_all_scripts_all_the_time_is_taught_again(
    world: World, report: Callable[[str], None]
) -> None:
    hooks = [world.fleet.start() for _ in range(3)]
    world.wait_for_workers(hooks)

    with (
        Producers(world.queue, longest_ms=10) as producers,
        repeating(lambda: world.server.command("SCRIPT", "FLUSH"), every_s=0.1) as flushes,
    ):
        threading.Event().wait(5)
    world.drain(len(producers.accepted))

    report(f"{len(flushes)} SCRIPT FLUSH in 5 s: {world.finished()} tasks finished")
    assert_alive(hooks)
    world.fleet.stop()
    world.assert_all_done(producers.accepted)


def test_a_store_killed_again_and_again_loses_nothing_it_has_acknowledged(
    durable_world: World, report: Callable[[str], None]
) -> None:
    world = durable_world
    hooks = [world.fleet.start() for _ in range(3)]
    world.wait_for_workers(hooks)

    with Producers(world.queue) as producers:
        for _ in range(3):
            world.wait_for_progress(200)
            world.server.kill()
            world.server.start()
    world.drain(len(producers.accepted))

    counters = world.queue.inspect().counters
    report(
        f"Redis killed 3 times: {counters.finished} tasks finished, "
        f"{counters.lost} lost and returned"
    )
    assert_alive(hooks)
    world.fleet.stop()
    world.assert_all_done(producers.accepted)


@pytest.mark.timeout(240)
def test_workers_carry_on_after_an_outage_longer_than_their_lease(
    durable_world: World, chaos_seconds: float, report: Callable[[str], None]
) -> None:
    world = durable_world
    outage_s = 60.0 if chaos_seconds >= 60 else 6.0
    assert outage_s > 2 * LEASE_MS / 1000
    world.queue.configure(max_failures=1000)
    hooks = [world.fleet.start() for _ in range(3)]
    world.wait_for_workers(hooks)

    with Producers(world.queue) as producers:
        world.wait_for_progress()
        world.server.kill()
        threading.Event().wait(outage_s)
        world.server.start()
        took_s = world.wait_for_progress()
    world.drain(len(producers.accepted))

    counters = world.queue.inspect().counters
    report(
        f"Redis away for {outage_s:.0f} s: 50 tasks finished {took_s:.2f} s after its return, "
        f"{counters.lost} of {counters.finished} lost and returned"
    )
    assert_alive(hooks)
    world.fleet.stop()
    world.assert_all_done(producers.accepted)


def test_a_full_store_refuses_new_tasks_and_is_worked_off(world: World) -> None:
    padding = 100_000
    worker = world.fleet.start(concurrency=1)
    world.wait_for_workers([worker])
    used = world.server.client.info("memory")["used_memory"]
    world.server.client.config_set("maxmemory", used + 8_000_000)

    accepted: list[str] = []
    with pytest.raises(StoreFull):
        while len(accepted) < 10_000:
            name = f"big-{len(accepted)}"
            world.queue.enqueue(make_task(name, ms=20, padding=padding))
            accepted.append(name)
    assert len(accepted) >= 20
    world.drain(len(accepted))
    accepted += world.enqueue(["after"], padding=padding)
    world.drain(len(accepted))

    assert_alive([worker])
    world.fleet.stop()
    assert world.queue.inspect().counters.lost == 0
    world.assert_all_done(accepted)


def assert_alive(hooks: list[WorkerProcess]) -> None:
    for worker in hooks:
        assert worker.is_running, worker.log[-3000:]
