"""Logs: seeds that must find nothing, and bugs that must be found."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.simulation.logs_mutations import LOG_MUTATIONS
from tests.simulation.logs_world import LogWorld
from tests.simulation.run import LOG_STEPS, private_world, run_seeds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.conftest import Search
    from tests.simulation.mutations import Mutation

SEEDS = 24
MOST_SEEDS = 200
"""what is rare is waited for, by this many seeds at most"""
SOMETIMES = (
    # what goes wrong
    "repetition absorbed",
    "late copy delivered",
    "message lost",
    "scripts flushed",
    "worker crashed",
    "worker ended with an error",
    "producer gave up",
    "reply lost on append_messages",
    "reply lost on keep_member",
    "reply lost on own_partition",
    "reply lost on take_partition",
    "reply lost on commit_offset",
    "reply lost on note_error",
    "reply lost on disown_partitions",
    "batch ended after its lease",
    "commit refused: stale",
    "commit refused: back",
    "error refused",
    "owner frozen in mid-batch",
    # how messages come, and what becomes of them
    "many messages appended",
    "offset committed",
    "message given up",
    "errors replayed",
    "trimmed",
    "messages lost by force",
    "gap told",
    # how partitions move
    "partition released",
    "worker stopped",
    "grace time is over",
    # what operators do
    "group paused and resumed",
    "group moved",
    "group moved behind a gap",
    "partition added",
    "retention set",
)
"""What the seeds must have seen: a simulation in which nothing happens finds nothing."""

_TRACE = [sys.executable, "-m", "tests.simulation.run", "--logs", "--seed", "3", "--trace"]


@pytest.fixture(scope="module")
def world() -> Iterator[LogWorld]:
    with private_world(LogWorld) as world:
        yield world


@pytest.mark.timeout(300)
def test_whatever_goes_wrong_the_promises_about_logs_are_kept(world: LogWorld) -> None:
    outcome = run_seeds(world, range(SEEDS), LOG_STEPS)
    unseen = {what for what in SOMETIMES if not outcome.sometimes[what]}
    for seed in range(SEEDS, MOST_SEEDS):
        if outcome.failures or not unseen:
            break
        outcome = run_seeds(world, [seed], LOG_STEPS)
        unseen = {what for what in unseen if not outcome.sometimes[what]}

    assert not outcome.failures, outcome.failures[0]
    assert not unseen


def test_a_seed_with_logs_takes_the_same_course_in_every_process() -> None:
    courses = [
        subprocess.run(
            _TRACE, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    ]

    assert courses[0].count(b"\n") > LOG_STEPS // 2
    assert courses[0] == courses[1]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("mutation", LOG_MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_deliberate_bug_in_logs_is_found(
    world: LogWorld, mutation: Mutation, search: Search
) -> None:
    assert mutation.is_effective, "the text it changes is gone; change the mutation with it"

    outcome = search(world, mutation, range(MOST_SEEDS), LOG_STEPS, says=mutation.found_by)

    assert outcome.failures, f"not found in {outcome.seeds} seeds"
    assert mutation.found_by in outcome.failures[0]
