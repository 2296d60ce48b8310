"""A history of attempts that looks like one of a real queue; the same for the same seed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.spark.history_lake import LAYOUTS
from penstock.spark.schemas import HISTORY, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    job = _jobs(number, np.flatnonzero(fails & ~is_dead), len(queues))
    return pa.table(
        [
            pa.array(np.take(queues, number % len(queues))),
            pa.array([f"{at // 1000}-{place}" for place, at in enumerate(ended_us)]),
            pa.array([f"job-{place:09d}" for place in job]),
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


def _jobs(number: np.ndarray, retried: np.ndarray, queues: int) -> np.ndarray:
    """An attempt that is made again is of the same job as the next one of its queue."""
    job = number.copy()
    for place in retried[::-1]:
        if place + queues < len(job):
            job[place] = job[place + queues]
    return job


def counts(
    attempts: pa.Table, every: timedelta, begin: datetime = BEGIN, growth: Mapping[str, int] = {}
) -> pa.Table:
    """What counting finds if these are all attempts that there were. A queue in `growth` gets so
    many jobs more each time, which nobody tries.
    """
    rows = []
    created, ended = (attempts[name].to_numpy() for name in ("created_at", "ended_at"))
    queue, is_final = attempts["queue"].to_numpy(), attempts["state"].to_numpy() != "scheduled"
    times = int((attempts["ended_at"][-1].as_py() - begin) / every) + 1
    numbers = dict.fromkeys(LAYOUTS["counts"].schema.names[5:-1], 0)
    for time in range(1, times + 1):
        at = begin + every * time
        instant = np.datetime64(at.replace(tzinfo=None))
        for name in np.unique(queue):
            mine = (queue == name) & is_final
            more = growth.get(name, 0) * time
            arrived, left = (int((mine & (when <= instant)).sum()) for when in (created, ended))
            found = {"ready": arrived - left + more, "enqueued": arrived + more}
            row = {"at": at, "queue": name, "kind": "jobs", "incarnation": "a", "is_paused": False}
            rows.append({**row, **numbers, **found})
    schema = LAYOUTS["counts"].schema
    return pa.Table.from_pylist(rows, schema.remove(schema.get_field_index("day")))


def minutes_after(minutes: float, begin: datetime = BEGIN) -> datetime:
    return begin + timedelta(minutes=minutes)
