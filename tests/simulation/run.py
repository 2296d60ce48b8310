"""Runs seeds: `python -m tests.simulation.run --seed N --trace`, or `--seeds A-B`; with `--jobs` or
`--logs` in the place of plain tasks.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tests.servers import RedisServer
from tests.simulation.engine import describe
from tests.simulation.jobs_scheduler import JobScheduler
from tests.simulation.jobs_world import JobWorld
from tests.simulation.logs_scheduler import LogScheduler
from tests.simulation.logs_world import LogWorld
from tests.simulation.scheduler import Scheduler
from tests.simulation.server import Scripts, Server, Violated
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.simulation.mutations import Mutation

STEPS = 300
LOG_STEPS = 800
"""A group takes its time: most requests only say that somebody is still there."""

W = TypeVar("W", bound=Server)
AnyWorld = World | JobWorld | LogWorld
AnyScheduler = Scheduler | JobScheduler | LogScheduler


@dataclass
class Outcome:
    """What came out of a number of seeds."""

    seeds: int = 0
    steps: int = 0
    tasks: int = 0
    simulated_ms: float = 0.0
    sometimes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    """the seeds of the failures"""


def run_seeds(
    world: AnyWorld,
    seeds: Iterable[int],
    steps: int = STEPS,
    *,
    stop_at: int = 1,
    is_blind: bool = False,
) -> Outcome:
    """Run seeds until `stop_at` of them have failed; `is_blind` leaves the reference out."""
    outcome = Outcome()
    for seed in seeds:
        scheduler = _scheduler(world, seed, is_blind)
        outcome.seeds += 1
        try:
            scheduler.run(steps)
        except Exception as error:
            if not isinstance(error, Violated):
                error.add_note(describe(error, scheduler))
                raise
            outcome.failures.append(describe(error, scheduler))
            outcome.failed.append(seed)
        outcome.steps += scheduler.steps
        outcome.tasks += len(scheduler.history.seen)
        outcome.simulated_ms += scheduler.now_ms
        outcome.sometimes += scheduler.sometimes
        if len(outcome.failures) >= stop_at:
            break
    return outcome


def find_bug(
    world: AnyWorld,
    mutation: Mutation,
    seeds: Iterable[int],
    steps: int = STEPS,
    *,
    says: str,
    is_blind: bool = False,
) -> Outcome:
    """Run the seed that the mutation names, and then `seeds`, until a failure says `says`. One that
    says something else is passed over: a bug may show in several ways.
    """
    world.scripts = Scripts(mutation)
    seen = 0
    try:
        for seed in (mutation.seed, *seeds):
            with mutation.in_code():
                outcome = run_seeds(world, [seed], steps, is_blind=is_blind)
            seen += 1
            if any(says in failure for failure in outcome.failures):
                return outcome
    finally:
        world.scripts = Scripts()
    return Outcome(seeds=seen)


def _scheduler(world: AnyWorld, seed: int, is_blind: bool = False) -> AnyScheduler:
    """Jobs and logs have no reference, so there is nothing to leave out."""
    if isinstance(world, LogWorld):
        return LogScheduler(world, seed)
    if isinstance(world, JobWorld):
        return JobScheduler(world, seed)
    return Scheduler(world, seed, is_blind)


@contextmanager
def private_world(kind: type[W]) -> Iterator[W]:
    """A server for simulations alone, without persistence."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        world = kind(server.socket)
        try:
            yield world
        finally:
            world.close()
            server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", action="store_true", help="jobs, in the place of plain tasks")
    parser.add_argument("--logs", action="store_true", help="a log, in the place of plain tasks")
    parser.add_argument("--seed", type=int, help="run one seed")
    parser.add_argument("--seeds", default="0-199", help="run a range of seeds, such as 0-199")
    parser.add_argument("--steps", type=int, help="requests before healing")
    parser.add_argument("--trace", action="store_true", help="print every step of a single seed")
    options = parser.parse_args()
    steps = options.steps or (LOG_STEPS if options.logs else STEPS)
    kind: type[AnyWorld] = JobWorld if options.jobs else LogWorld if options.logs else World
    with private_world(kind) as world:
        if options.seed is not None:
            return _run_one(world, options.seed, steps, options.trace)
        first, _, last = options.seeds.partition("-")
        began_at = time.monotonic()
        seeds = range(int(first), int(last) + 1)
        outcome = run_seeds(world, seeds, steps, stop_at=sys.maxsize)
        took_s = time.monotonic() - began_at
    for failure in outcome.failures:
        sys.stdout.write(f"{failure}\n\n")
    for what, times in sorted(outcome.sometimes.items()):
        sys.stdout.write(f"{times:8d} {what}\n")
    sys.stdout.write(
        f"{outcome.seeds} seeds, {outcome.steps} steps, {outcome.tasks} tasks, "
        f"{outcome.simulated_ms / 3_600_000:.2f} simulated hours in {took_s:.1f} s "
        f"({outcome.seeds / took_s:.1f} seeds/s); {len(outcome.failures)} failed\n"
    )
    return 1 if outcome.failures else 0


def _run_one(world: AnyWorld, seed: int, steps: int, is_traced: bool) -> int:
    scheduler = _scheduler(world, seed)
    verdict: BaseException | str = "nothing wrong"
    try:
        scheduler.run(steps)
    except Violated as error:
        verdict = error
    sys.stdout.write(describe(Violated(verdict), scheduler, None if is_traced else 60) + "\n")
    return 0 if isinstance(verdict, str) else 1


if __name__ == "__main__":
    sys.exit(main())
