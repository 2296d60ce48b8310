"""How much of everything is measured."""

from __future__ import annotations

from dataclasses import dataclass

TASK_BYTES = 100
BATCH_TASKS = 100
"""a trip, for everything that goes in batches"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Counts of tasks, unless said otherwise."""

    singles: int = 10_000
    bulk: int = 200_000
    drained: int = 100_000
    samples: int = 300
    """pick-ups that are timed in each round"""
    idle_s: float = 5.0
    stored: int = 100_000
    """for bytes per task"""
    steps: int = 1_000
    """done one by one at each backlog and payload"""
    backlogs: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    payloads: tuple[int, ...] = (100, 1024, 10 * 1024, 100 * 1024)
    """bytes"""


def choose_sizes(is_quick: bool, scale: float = 1.0) -> Sizes:
    """The usual ones, or smaller ones for a first look. A `scale` below 1 shrinks them to where
    the figures mean nothing any more, for tests.
    """
    full = Sizes()
    if is_quick:
        full = Sizes(
            singles=3_000,
            bulk=50_000,
            drained=30_000,
            idle_s=3.0,
            steps=300,
            backlogs=(10**3, 10**4, 10**5),
        )

    def scaled(count: int, at_least: int = 10) -> int:
        return max(at_least, int(count * scale))

    return Sizes(
        singles=scaled(full.singles),
        bulk=scaled(full.bulk, BATCH_TASKS),
        drained=scaled(full.drained, BATCH_TASKS),
        samples=scaled(full.samples),
        idle_s=max(0.1, full.idle_s * scale),
        stored=scaled(full.stored, 1_000),
        steps=scaled(full.steps),
        backlogs=tuple(scaled(backlog) for backlog in full.backlogs),
        payloads=full.payloads,
    )
