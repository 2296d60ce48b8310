"""All figures: measured in rounds, so that a disturbance of some seconds is in one round only."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from penstock.bench import consuming, growth, producing, raw
from penstock.bench.sizes import Sizes

if TYPE_CHECKING:
    from penstock.bench.environment import Environment

Values = dict[str, float | None]
Measure = Callable[["Environment", Sizes], Values]

# Each limit is measured right before what is compared with it.
MEASURES: dict[str, Measure] = {
    "raw_evalsha": raw.run_script_one_by_one,
    "enqueue_one_by_one": producing.enqueue_one_by_one,
    "raw_lpush": raw.push_in_batches,
    "enqueue_hundreds": producing.enqueue_hundreds,
    "enqueue_all_at_once": producing.enqueue_all_at_once,
    "raw_lmove_del": raw.move_in_batches,
    "drain_sync": consuming.drain_sync,
    "drain_async": consuming.drain_async,
    "raw_wake": raw.wake_a_listener,
    "pick_up": consuming.pick_up,
    "raw_list_memory": raw.bytes_in_a_list,
    "memory": producing.bytes_in_a_queue,
    "idle": consuming.idle,
}

RATIOS = {
    "enqueue_one_by_one": ("per_s", "raw_evalsha"),
    "enqueue_hundreds": ("per_s", "raw_lpush"),
    "enqueue_all_at_once": ("per_s", "raw_lpush"),
    "drain_sync": ("per_s", "raw_lmove_del"),
    "drain_async": ("per_s", "raw_lmove_del"),
    "pick_up": ("p50_ms", "raw_wake"),
    "memory": ("bytes_per_task", "raw_list_memory"),
}
"""figure -> which of its values is compared, and with what; above 1 is faster, later or larger"""


@dataclass(frozen=True, slots=True)
class Results:
    """Medians of the rounds."""

    setup: dict[str, object]
    figures: dict[str, Values]
    by_backlog: dict[str, Values]
    by_payload: dict[str, Values]
    ratios: Values
    life: Values
    """CPU of one task from enqueue to finish, without its handler"""


def count_steps(sizes: Sizes, rounds: int) -> int:
    """How often `advance` is called."""
    return rounds * len(MEASURES) + len(sizes.backlogs) + len(sizes.payloads)


def measure_all(
    environment: Environment, sizes: Sizes, rounds: int, advance: Callable[[], None]
) -> Results:
    found: dict[str, list[Values]] = {name: [] for name in MEASURES}
    for _ in range(rounds):
        for name, measure in MEASURES.items():
            found[name].append(measure(environment, sizes))
            advance()
    figures = {name: medians(values) for name, values in found.items()}
    return Results(
        setup=_setup(environment, sizes, rounds),
        figures=figures,
        by_payload=growth.cost_by_payload(environment, sizes, rounds, advance),
        by_backlog=growth.cost_by_backlog(environment, sizes, rounds, advance),
        ratios=ratios(figures),
        life=_life(figures),
    )


def medians(rounds: list[Values]) -> Values:
    """Value by value. One that could not be measured in every round is left out."""
    result: Values = {}
    for name in rounds[0]:
        known = [value for values in rounds if (value := values[name]) is not None]
        result[name] = median(known) if len(known) == len(rounds) else None
    return result


def ratios(figures: dict[str, Values]) -> Values:
    result: Values = {}
    for name, (value, limit) in RATIOS.items():
        ours, theirs = figures[name][value], figures[limit][value]
        result[name] = ours / theirs if ours is not None and theirs else None
    return result


def _life(figures: dict[str, Values]) -> Values:
    enqueued, drained = figures["enqueue_all_at_once"], figures["drain_sync"]
    return {
        "producer_us": enqueued["client_us"],
        "worker_us": drained["worker_us"],
        "server_us": (enqueued["server_us"] or 0.0) + (drained["server_us"] or 0.0),
    }


def _setup(environment: Environment, sizes: Sizes, rounds: int) -> dict[str, object]:
    info = environment.info()
    return {
        "redis": info["redis_version"],
        "is_private": environment.is_private,
        "aof": info["aof_enabled"] == "1",
        "python": platform.python_version(),
        "system": platform.system(),
        "cpus": os.cpu_count(),
        "rounds": rounds,
        "sizes": asdict(sizes),
    }
