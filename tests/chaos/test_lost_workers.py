"""Workers that are killed, frozen and restarted while tasks flow."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.chaos.faults import WorkerFaults
from tests.chaos.fleet import HEARTBEAT_MS, LEASE_MS
from tests.chaos.handlers import make_task, name_of
from tests.chaos.harness import until
from tests.chaos.producers import Producers
from tests.chaos.recovery import RecoveryWatch, summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.harness import World

pytestmark = [pytest.mark.xdist_group("chaos"), pytest.mark.timeout(120)]

BOUND_S = (LEASE_MS + HEARTBEAT_MS) / 1000


@pytest.mark.timeout(3600)
def test_no_task_is_lost_or_finished_twice_while_workers_are_killed_and_frozen(
    world: World, chaos_seconds: float, report: Callable[[str], None]
) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    world.queue.configure(max_failures=1_000_000)

    with RecoveryWatch(world.queue) as killed:
        faults = WorkerFaults(world, 5, killed, seed)
        with Producers(world.queue, longest_ms=120) as producers:
            faults.run(chaos_seconds)
        faults.heal()
        world.drain(len(producers.accepted))
        until(lambda: not killed.pending, 20)
    world.fleet.stop()

    counters = world.queue.inspect().counters
    ended = len(world.journal.ended())
    report(
        f"{chaos_seconds:.0f} s, seed {seed}: {counters.finished} tasks finished in {ended} "
        f"executions, {faults.kills} kills, {faults.freezes} freezes, {faults.restarts} restarts "
        f"({faults.at_work} at work), {counters.lost} tasks lost and returned, "
        f"{counters.refused} results refused"
    )
    report(
        f"recovery of {len(killed.times_s)} killed workers: {summary(killed.times_s)} "
        f"(lease + heartbeat: {BOUND_S} s)"
    )
    world.assert_all_done(producers.accepted)
    assert world.ps.workers() == []
    assert faults.kills and faults.freezes and counters.lost
    assert counters.refused > 0
    assert max(killed.times_s) <= BOUND_S + 5


def test_one_new_worker_recovers_ten_that_were_killed_at_once(
    world: World, report: Callable[[str], None]
) -> None:
    hooks = [world.fleet.start(concurrency=3) for _ in range(10)]
    world.wait_for_workers(hooks)
    running = world.enqueue((f"running-{n}" for n in range(30)), "wait")
    until(lambda: len(world.journal.started()) == 30, 30)
    waiting = world.enqueue(f"waiting-{n}" for n in range(10))
    world.queue.pause()
    holders = {record.task: record.worker for record in world.journal.started()}

    with RecoveryWatch(world.queue) as watch:
        for worker in hooks:
            ids = world.members(worker)
            worker.kill()
            for id_ in ids:
                watch.lost(id_)
        world.fleet.start()
        until(lambda: not watch.pending, 30)

    tasks = [name_of(task) for task in world.queue.page().tasks]
    assert tasks[30:] == waiting
    assert sorted(tasks[:30]) == sorted(running)
    for holder in set(holders.values()):
        own = [task for task in running if holders[task] == holder]
        assert [task for task in tasks if holders.get(task) == holder] == own
    report(f"recovery of 10 workers by one that started after: {summary(watch.times_s)}")

    world.open_gate()
    world.queue.resume()
    world.drain(40)
    world.fleet.stop()
    world.assert_all_done(running + waiting)


def test_a_frozen_worker_comes_back_under_a_new_name_and_its_result_is_not_taken(
    world: World,
) -> None:
    frozen, peer = world.fleet.start(concurrency=2), world.fleet.start(concurrency=2)
    world.wait_for_workers([frozen, peer])
    accepted = world.enqueue(["a", "b", "c", "d"], "wait")
    until(lambda: len(world.journal.started()) == 4, 20)
    old_id = next(iter(world.members(frozen)))

    frozen.freeze()
    until(lambda: old_id not in world.queue.inspect().held, 20)
    world.open_gate()
    world.drain(4)
    frozen.thaw()
    until(lambda: len(world.journal.ended()) == 6, 20)
    until(lambda: old_id not in world.members(frozen) and world.members(frozen), 20)

    assert world.queue.inspect().counters.lost == 2
    world.fleet.stop()
    world.assert_all_done(accepted)


@pytest.mark.parametrize("neighbours_ms", [20, 1000])
def test_a_task_that_kills_its_workers_ends_up_dead_and_takes_no_other_with_it(
    world: World, neighbours_ms: int
) -> None:
    world.queue.configure(max_failures=3)
    before = world.enqueue((f"before-{n}" for n in range(6)), ms=neighbours_ms)
    poison = make_task("poison", "die")
    world.queue.enqueue(poison)
    after = world.enqueue((f"after-{n}" for n in range(6)), ms=neighbours_ms)

    def is_over() -> bool:
        while len(world.fleet.running) < 2:
            world.fleet.start(lease_ms=1000, heartbeat_ms=200)
        state = world.queue.inspect()
        return state.dead > 0 and state.ready == state.running == 0

    until(is_over, 60)
    world.fleet.stop()

    assert world.queue.dead().tasks == [poison]
    deaths = [record for record in world.journal.started() if record.task == "poison"]
    assert len(deaths) == 3
    world.assert_all_done(before + after, dead=1)


def test_a_handler_that_computes_for_longer_than_the_lease_keeps_it(world: World) -> None:
    hooks = [world.fleet.start(concurrency=1) for _ in range(2)]
    world.wait_for_workers(hooks)

    accepted = world.enqueue(["long"], "spin", ms=2 * LEASE_MS)
    world.drain(1)
    world.fleet.stop()

    counters = world.queue.inspect().counters
    assert (counters.started, counters.lost, counters.refused) == (1, 0, 0)
    world.assert_all_done(accepted)
