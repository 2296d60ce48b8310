"""Jobs, retries, limits and schedules while workers, connections and the store come and go."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from penstock.codec.values import open_result
from tests.chaos.faults import WorkerFaults
from tests.chaos.fleet import HEARTBEAT_MS, LEASE_MS
from tests.chaos.harness import until
from tests.chaos.jobs_functions import LIMITED_AT_ONCE, deadly, slow
from tests.chaos.jobs_producers import JobProducers, PlainJobProducer, Waiter
from tests.chaos.jobs_world import StoreFaults
from tests.chaos.recovery import RecoveryWatch, summary

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.jobs_world import JobWorld

pytestmark = [pytest.mark.xdist_group("chaos"), pytest.mark.timeout(180)]

BOUND_S = (LEASE_MS + HEARTBEAT_MS) / 1000
_SHARE = 0.5
"""of the time for chaos"""


@pytest.mark.timeout(3600)
def test_no_job_is_lost_or_done_twice_while_workers_and_the_store_come_and_go(
    durable_job_world: JobWorld, chaos_seconds: float, report: Callable[[str], None]
) -> None:
    world = durable_job_world
    seconds = chaos_seconds * _SHARE
    seed = random.SystemRandom().randrange(1_000_000)
    world.jobs.limit("host", concurrency=LIMITED_AT_ONCE)

    with RecoveryWatch(world.queue) as killed, Waiter() as waiter:
        faults = WorkerFaults(world, 4, killed, seed)
        world.begin_schedules()
        with JobProducers(world, waiter) as producers:
            with StoreFaults(world, [seconds / 3, 2 * seconds / 3], seed) as store:
                faults.run(seconds)
            faults.heal()
            took_s = world.wait_for_progress()
        slots = world.end_schedules()
        world.drain_jobs()
        until(lambda: not killed.pending, 20)
    world.fleet.stop()

    sent, counters = producers.sent, world.queue.inspect().counters
    jobs = world.assert_every_job_has_ended_once(sent)
    poisoned = sum(job.reason == "poison" for job in jobs.values())
    report(
        f"{seconds:.0f} s, seed {seed}: {len(jobs)} jobs in {counters.started} starts, "
        f"{counters.failed} failed, {counters.lost} lost and returned, {counters.refused} results "
        f"refused, {poisoned} dead after 3 losses; {faults.kills} kills, {faults.freezes} freezes, "
        f"{faults.restarts} restarts, {store.cuts} connections cut, {store.flushes} SCRIPT FLUSH, "
        f"Redis killed {store.kills} times; {len(waiter.results)} results waited for; 50 more done "
        f"within {took_s:.2f} s of the last fault"
    )
    report(
        f"recovery of {len(killed.times_s)} killed workers of jobs: {summary(killed.times_s)} "
        f"(lease + heartbeat: {BOUND_S} s)"
    )
    assert faults.kills and faults.freezes and store.cuts and store.flushes and store.kills
    assert counters.lost and counters.failed
    # A recovery that is cut short is begun again by another, and none while the store is away.
    assert max(killed.times_s) <= 2 * BOUND_S + store.away_s + 5
    for name, (passed, fired) in slots.items():
        assert passed >= seconds - 5, slots
        assert 0 < fired <= passed if name == "third" else fired == passed, slots
    outcomes = {id: jobs[id] for id in waiter.results}
    assert waiter.results == {
        id: open_result(job.outcome) if job.state == "done" else None
        for id, job in outcomes.items()
    }
    world.assert_limits_held(sent)
    world.assert_nothing_is_left_behind()


@pytest.mark.timeout(3600)
def test_no_job_that_is_handed_over_is_lost_or_done_twice(
    durable_job_world: JobWorld, chaos_seconds: float, report: Callable[[str], None]
) -> None:
    world = durable_job_world
    seconds = chaos_seconds * _SHARE
    seed = random.SystemRandom().randrange(1_000_000)

    with RecoveryWatch(world.queue) as killed, Waiter() as waiter:
        faults = WorkerFaults(world, 4, killed, seed)
        with JobProducers(world, waiter, PlainJobProducer) as producers:
            with StoreFaults(world, [seconds / 2], seed) as store:
                faults.run(seconds)
            faults.heal()
            world.wait_for_progress()
        world.drain_jobs()
        until(lambda: not killed.pending, 20)
    world.fleet.stop()

    counters = world.queue.inspect().counters
    jobs = world.assert_every_job_has_ended_once(producers.sent)
    at_once = sum(job.started_at == job.created_at for job in jobs.values())
    report(
        f"{seconds:.0f} s, seed {seed}: {len(jobs)} plain jobs, {at_once} of them handed over, "
        f"{counters.lost} lost and returned; {faults.kills} kills, {faults.freezes} freezes, "
        f"{store.cuts} connections cut, Redis killed {store.kills} times"
    )
    assert faults.kills and faults.freezes and store.cuts and store.kills
    assert at_once > len(jobs) / 10
    assert waiter.results == {id: open_result(jobs[id].outcome) for id in waiter.results}
    world.assert_nothing_is_left_behind()


def test_a_job_that_kills_its_workers_is_poison_and_takes_no_other_with_it(
    job_world: JobWorld,
) -> None:
    world = job_world
    before = [slow.on(world.ps).send(f"before-{n}", 20) for n in range(6)]
    poison = deadly.on(world.ps).send("poison")
    after = [slow.on(world.ps).send(f"after-{n}", 20) for n in range(6)]

    def is_over() -> bool:
        while len(world.fleet.running) < 2:
            world.fleet.start(lease_ms=1000, heartbeat_ms=200)
        return sum(world.jobs.counts()[state] for state in ("done", "dead")) == 13

    until(is_over, 60)
    # The worker that recovered the last one may still be about to take it off the list of workers.
    until(lambda: all(worker.is_alive for worker in world.ps.workers()), 20)
    world.fleet.stop()

    info = poison.info()
    assert (info.state, info.reason, info.crashes, info.failures) == ("dead", "poison", 3, 0)
    assert [attempt.outcome for attempt in poison.attempts()] == ["lost"] * 3
    assert len({attempt.worker for attempt in poison.attempts()}) == 3
    assert {job.state for job in before + after} == {"done"}
    world.assert_nothing_is_left_behind()
