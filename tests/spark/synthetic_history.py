"""A history of attempts that looks like one of a real queue; the same for the same seed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.spark.schemas import HISTORY, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

BEGIN = datetime(2026, 11, 16, 8, tzinfo=UTC)
TYPES = ("resize", "email", "invoice", "search")
TENANTS = ("acme", "globex", "initech")
ERRORS = ("TimeoutError", "ConnectionError", "ValueError")


def history(
    rows: int,
    seed: int = 1,
    queues: Sequence[str] = ("images", "mail"),
    begin: datetime = BEGIN,
    hours: float = 24,
) -> pa.Table:
    """Attempts in the order in which they ended. Noon is busier than midnight, `invoice` fails
    more often than the others, and `search` takes long.
    """
    random = np.random.default_rng(seed)
    fractions = np.sort(random.random(rows))
    # More attempts end in the middle of the time than at its edges.
    fractions = fractions + 0.09 * np.sin(2 * np.pi * fractions)
    ended_us = (fractions * hours * 3_600_000_000).astype(np.int64)
    ended_us = np.sort(ended_us) + int(begin.timestamp() * 1_000_000)
    kind = random.choice(len(TYPES), rows, p=(0.5, 0.3, 0.15, 0.05))
    ran_us = (random.lognormal(np.array([11.5, 10, 12, 14.5])[kind], 0.6)).astype(np.int64)
    waited_ms = (random.exponential(900, rows)).astype(np.int64)
    fails = random.random(rows) < np.array([0.02, 0.01, 0.18, 0.05])[kind]
    is_dead = fails & (random.random(rows) < 0.2)
    number = np.arange(rows)
    attempt = 1 + fails * random.integers(0, 3, rows)
    return pa.table(
        [
            pa.array(np.take(queues, number % len(queues))),
            pa.array([f"{at // 1000}-{place}" for place, at in enumerate(ended_us)]),
            pa.array([f"job-{place:09d}" for place in number]),
            pa.array(np.take(TYPES, kind)),
            pa.array(np.take(TENANTS, random.choice(3, rows, p=(0.6, 0.3, 0.1)))),
            pa.array(random.choice([-10, 0, 10], rows), pa.int32()),
            pa.array(attempt, pa.int32()),
            pa.array(np.where(fails, "failed", "done")),
            pa.array(np.where(is_dead, "dead", np.where(fails, "scheduled", "done"))),
            pa.array(np.take(ERRORS, random.integers(0, 3, rows)), mask=~fails),
            pa.array(
                [f"worker-{at}" for at in random.choice(5, rows, p=(0.4, 0.3, 0.15, 0.1, 0.05))]
            ),
            pa.array(ended_us - ran_us - waited_ms * 1000, pa.timestamp("us", "UTC")),
            pa.array(ended_us, pa.timestamp("us", "UTC")),
            pa.array(waited_ms),
            pa.array(ran_us),
            pa.array((ran_us * random.uniform(0.2, 0.9, rows)).astype(np.int64)),
            pa.array(random.integers(50, 5000, rows), pa.int64()),
        ],
        schema=arrow_schema(HISTORY),
    )


def minutes_after(minutes: float, begin: datetime = BEGIN) -> datetime:
    return begin + timedelta(minutes=minutes)
