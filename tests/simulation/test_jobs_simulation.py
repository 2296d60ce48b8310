"""Jobs: seeds that must find nothing, and bugs that must be found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.store.script import SIMULATED, scripts
from tests.simulation.hearing import with_hearing
from tests.simulation.jobs_mutations import JOB_MUTATIONS
from tests.simulation.jobs_world import JobWorld
from tests.simulation.run import private_world, run_seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.conftest import Search
    from tests.simulation.mutations import Mutation

SEEDS = 40
MOST_SEEDS = 200
"""what is rare is waited for, by this many seeds at most"""
STEPS = 300

SOMETIMES = (
    # what goes wrong
    "repetition absorbed",
    "late copy delivered",
    "reply lost on send_jobs",
    "reply lost on start_jobs",
    "reply lost on report_jobs",
    "reply lost on leave_jobs",
    "reply lost on list_schedules",
    "stale report refused",
    "lease stolen",
    "worker recovered with its jobs",
    "worker found out that it was given up",
    "worker crashed",
    "worker stopped",
    "producer crashed",
    "clock jumped",
    "scripts flushed",
    "history marked",
    # how jobs come and end
    "came by send_jobs",
    "came by fire_schedule",
    "handed over",
    "began what was handed over",
    "found what was missed",
    "id made twice",
    "send met a job that was there: queued",
    "send met a job that was there: done",
    "send met a job that was there: window",
    "send met a job that was there: scheduled",
    "debounced",
    "ended: done",
    "ended: failed",
    "ended: final",
    "ended: crashed",
    "ended: lost",
    "ended: lapsed",
    "ended: stopped",
    "ended: cancelled",
    "dead: failed",
    "dead: rejected",
    "dead: expired",
    "dead: lost",
    "dead: poison",
    "gone by remove_jobs",
    "gone by report_jobs",
    "noted",
    # how batches come in
    "batch decided",
    "batch known",
    "batch committed again",
    "batch given up",
    "batch given up after the decision",
    "batch waits for room",
    "partition written twice",
    "stage lost",
    "chunk moved in part",
    "job of a batch merged",
    "ids of a move were taken",
    "came by move_jobs",
    "writer crashed before the decision",
    "writer crashed after the decision",
    "batch of a crashed writer moved",
    "queue deleted with a batch on its way",
    "reply lost on stage_chunk",
    "reply lost on decide_batch",
    "reply lost on move_jobs",
    # what keeps jobs from running
    "claim: empty",
    "claim: apart",
    "claim: limited",
    "claim: paused",
    "claim: not_working",
    "job parked",
    "job parked no more",
    "job unhandled",
    "job unhandled no more",
    "suspect alone",
    "tenants take turns",
    "queue full",
    # what operators do
    "cancelled a job, cancelled",
    "cancelled a job, running",
    "retried a job",
    "removed a job",
    "promoted a job",
    "rescheduled a job",
    "reprioritised a job",
    "limit set",
    "limit lifted",
    "queue deleted",
    "queue emptied",
    "worker paused and resumed",
    "operator failed a worker",
    "schedule added",
    "schedule resumed",
    "several slots fired at once",
)
"""What the seeds must have seen: a simulation in which nothing happens finds nothing."""


@pytest.fixture(scope="module")
def world() -> Iterator[JobWorld]:
    with private_world(JobWorld) as world:
        yield world


@pytest.mark.timeout(300)
def test_whatever_goes_wrong_the_promises_about_jobs_are_kept(world: JobWorld) -> None:
    outcome = run_seeds(world, range(SEEDS), STEPS)
    unseen = {what for what in SOMETIMES if not outcome.sometimes[what]}
    for seed in range(SEEDS, MOST_SEEDS):
        if outcome.failures or not unseen:
            break
        outcome = run_seeds(world, [seed], STEPS)
        unseen = {what for what in unseen if not outcome.sometimes[what]}

    assert not outcome.failures, outcome.failures[0]
    assert not unseen


def test_a_seed_with_jobs_replays_exactly(world: JobWorld) -> None:
    first = run_seeds(world, [7, 8], STEPS)
    second = run_seeds(world, [7, 8], STEPS)

    assert first == second


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", JOB_MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_deliberate_bug_in_jobs_is_found(
    world: JobWorld, mutation: Mutation, search: Search
) -> None:
    assert mutation.is_effective, "the text it changes is gone; change the mutation with it"

    outcome = search(world, mutation, range(MOST_SEEDS), STEPS, says=mutation.found_by)

    assert outcome.failures, f"not found in {outcome.seeds} seeds"
    assert mutation.found_by in outcome.failures[0]


def test_a_listener_that_is_called_hears_it() -> None:
    """Half of the seeds have listeners, for which the scripts are changed."""
    texts = [script.text(SIMULATED) for script in scripts("jobs")]
    changed = [text for text in texts if with_hearing(text) != text]

    assert changed
    assert not any("'SPOP', idle" in with_hearing(text) for text in changed)
    assert not any("'SRANDMEMBER', keys.idle" in with_hearing(text) for text in changed)
    assert not any("'PUBLISH'" in with_hearing(text) for text in changed)
