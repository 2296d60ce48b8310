"""Seeds that must find nothing, and bugs that must be found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation
from tests.simulation.run import private_world, run_seeds
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.conftest import Search

SEEDS = 200
BATCHES = 2
STEPS = 200

SOMETIMES = (
    "stale finish refused",
    "stale process refused",
    "duplicate enqueue absorbed",
    "repetition absorbed",
    "late copy delivered",
    "reply lost on enqueue_tasks",
    "reply lost on start_tasks",
    "reply lost on finish_tasks",
    "reply lost on leave_queue",
    "lease stolen",
    "lease ran out",
    "worker recovered",
    "worker recovered with its tasks",
    "worker found out that it was given up",
    "crash inside fail_worker",
    "crash inside start_work",
    "producer crashed, outcome unknown",
    "unique duplicate refused",
    "queue full",
    "queue deleted",
    "queue emptied",
    "task cancelled",
    "poison went to the dead list",
    "failed task held back",
    "dead tasks retried",
    "operator failed a worker",
    "work stopped and started again",
    "batch decided",
    "batch known",
    "batch committed again",
    "batch given up",
    "batch given up after the decision",
    "batch too large",
    "batch waits for room",
    "partition written twice",
    "stage lost",
    "chunk moved in part",
    "writer gave up",
    "writer crashed before the decision",
    "writer crashed after the decision",
    "batch of a crashed writer moved",
    "queue deleted with a batch on its way",
    "reply lost on stage_chunk",
    "reply lost on decide_batch",
    "reply lost on move_tasks",
    "reply lost on drop_stages",
    "stray job refused",
    "stray job refused by a queue that was only joined",
    "clock jumped",
    "scripts flushed",
)
"""What every batch must have seen: a simulation in which nothing happens finds nothing."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with private_world(World) as world:
        yield world


@pytest.mark.timeout(300)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_whatever_goes_wrong_the_promises_are_kept(world: World, batch: int) -> None:
    outcome = run_seeds(world, range(batch, SEEDS, BATCHES), STEPS)

    assert not outcome.failures, outcome.failures[0]
    assert [what for what in SOMETIMES if not outcome.sometimes[what]] == []


def test_a_seed_replays_exactly(world: World) -> None:
    first = run_seeds(world, [7], STEPS)
    second = run_seeds(world, [7], STEPS)

    assert first == second


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_deliberate_bug_is_found(world: World, mutation: Mutation, search: Search) -> None:
    assert mutation.is_effective, "the text it changes is gone; change the mutation with it"

    outcome = search(world, mutation, range(SEEDS), STEPS, says="")

    assert outcome.failures, f"not found in {outcome.seeds} seeds"


@pytest.mark.parametrize(
    "mutation",
    [mutation for mutation in MUTATIONS if mutation.found_by],
    ids=lambda mutation: mutation.name,
)
def test_a_deliberate_bug_breaks_a_promise(
    world: World, mutation: Mutation, search: Search
) -> None:
    """Without the reference: the promises find it by themselves, and call it by its name."""
    outcome = search(world, mutation, range(SEEDS), STEPS, says=mutation.found_by, is_blind=True)

    assert outcome.failures, f"not found in {outcome.seeds} seeds"
    assert mutation.found_by in outcome.failures[0]
