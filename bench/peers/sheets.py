"""What is shown of each kind of run: its columns, its charts, and who is compared with whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.peers.systems import System


@dataclass(frozen=True)
class Figure:
    """One column: what it is called, how it is written, which way is better."""

    key: str
    title: str
    is_rate: bool = False
    digits: int = 0
    is_producers: bool = False


@dataclass(frozen=True)
class Panel:
    """One chart, with the raw limit that a line shows."""

    key: str
    title: str
    limit: str | None = None
    limit_figure: str | None = None


@dataclass(frozen=True)
class Contest:
    """Our figure against the best one among some rivals, or against a raw limit."""

    what: str
    key: str
    against: str
    is_rival: Callable[[System], bool] | None = None
    limit: str | None = None
    limit_figure: str | None = None


@dataclass(frozen=True)
class Sheet:
    """All of it."""

    title: str
    notes: tuple[str, ...]
    figures: tuple[Figure, ...]
    panels: tuple[Panel, ...]
    contests: tuple[Contest, ...] = ()
    shows_records: bool = False


_COMMON_NOTES = (
    "In brackets: penstock / this system. For rates more than 1 means that penstock is faster; "
    "for times, commands and bytes less than 1 means that penstock needs less.",
)

TASKS = Sheet(
    title="penstock beside its peers",
    notes=(
        "No-op jobs of 100 bytes; Redis, producer and worker share one machine. Medians over the "
        "rounds, ± half the spread between them.",
        *_COMMON_NOTES,
        "`~` = no bulk call, 100 enqueues in flight; `none` = one by one only; "
        "`″` = the same producer as above; `-` = not measured, or too short to count.",
        "Drain rewards batching: penstock claims and finishes short tasks by the hundred, so a "
        "killed worker may repeat as many; most peers acknowledge one by one.",
        "Idle commands: those that clients sent, and all that Redis executed, inside scripts too.",
    ),
    figures=(
        Figure("one_per_s", "enqueue /s", is_rate=True, is_producers=True),
        Figure("one_client_us", "client us", is_producers=True),
        Figure("one_redis_us", "redis us", is_producers=True),
        Figure("bulk_per_s", "bulk /s", is_rate=True, is_producers=True),
        Figure("drain_per_s", "drain /s", is_rate=True),
        Figure("drain_worker_us", "worker us/task"),
        Figure("drain_redis_us", "redis us/task"),
        Figure("p50_ms", "p50 ms", digits=2),
        Figure("p99_ms", "p99 ms", digits=2),
        Figure("idle_sent_per_s", "idle cmd/s sent", digits=1),
        Figure("idle_executed_per_s", "executed", digits=1),
        Figure("bytes_per_job", "bytes/job", is_producers=True),
    ),
    panels=(
        Panel("one_per_s", "enqueue one by one, per second", "LPUSH, one by one", "per_s"),
        Panel(
            "drain_per_s",
            "drain, one worker, tasks per second",
            "LMOVE+DEL, 100 jobs a trip",
            "per_s",
        ),
        Panel("drain_worker_us", "worker CPU per task, us"),
        Panel("p50_ms", "pick-up latency p50, ms", "PUBLISH, received, one EVALSHA", "p50_ms"),
    ),
)

# What `raw_jobs.py` measures, by the names it gives.
RAW_SEND = "HSET+LPUSH, 100 jobs a trip"
RAW_RUN = "LMOVE+HGET, then HSET+RPOP, 100 jobs a trip"
RAW_ROUND_TRIP = "HSET+LPUSH, BLMOVE, HGET, HSET+RPOP+LPUSH, BRPOP"


def _is_peer(system: System) -> bool:
    return system.peer != "penstock"


JOBS = Sheet(
    title="penstock's jobs beside its peers, with results",
    notes=(
        'No-op jobs with 100 bytes of data that return `{"ok": true}`, and results are kept; '
        "Redis, producer and worker share one machine. Medians over the rounds, ± half the spread "
        "between them.",
        *_COMMON_NOTES,
        "`record` = a waiting job can be looked up by its id; elsewhere it is a message in a list "
        "or stream, and only its result has a key.",
        "`~` = no bulk call, 100 enqueues in flight; `¹` = one by one only; "
        "`″` = the same producer as above; `-` = not measured, or too short to count.",
        "Round trip: from before the enqueue to the result in the producer's hands, one job at a "
        "time, the worker idle, each peer by its own best way of waiting (see the settings).",
    ),
    figures=(
        Figure("bulk_per_s", "bulk /s", is_rate=True, is_producers=True),
        Figure("bulk_client_us", "client us/job", digits=1, is_producers=True),
        Figure("bulk_redis_us", "redis us/job", digits=1, is_producers=True),
        Figure("bytes_per_job", "bytes/waiting job", is_producers=True),
        Figure("drain_per_s", "drain /s", is_rate=True),
        Figure("drain_worker_us", "worker us/job"),
        Figure("drain_redis_us", "redis us/job"),
        Figure("roundtrip_p50_ms", "round trip p50 ms", digits=2),
        Figure("roundtrip_p99_ms", "p99 ms", digits=2),
    ),
    panels=(
        Panel("drain_per_s", "drain, one worker, jobs per second", RAW_RUN, "per_s"),
        Panel("bulk_per_s", "bulk send, jobs per second", RAW_SEND, "per_s"),
        Panel("drain_worker_us", "worker CPU per job, us", RAW_RUN, "client_us"),
        Panel("drain_redis_us", "Redis CPU per job, us", RAW_RUN, "redis_us"),
        Panel("roundtrip_p50_ms", "start to result p50, ms", RAW_ROUND_TRIP, "p50_ms"),
        Panel("bytes_per_job", "Redis bytes per waiting job", RAW_SEND, "bytes_per_job"),
    ),
    contests=(
        Contest(
            "drain, jobs/s",
            "drain_per_s",
            "the fastest Python peer",
            lambda system: _is_peer(system) and not system.is_node,
        ),
        Contest(
            "drain, jobs/s",
            "drain_per_s",
            "BullMQ for Node at its best",
            lambda system: system.peer == "bullmq",
        ),
        Contest("drain, jobs/s", "drain_per_s", "the fastest peer", _is_peer),
        Contest(
            "drain, jobs/s", "drain_per_s", "the raw limit", limit=RAW_RUN, limit_figure="per_s"
        ),
        Contest("bulk, jobs/s", "bulk_per_s", "the fastest peer", _is_peer),
        Contest(
            "bulk, jobs/s", "bulk_per_s", "the raw limit", limit=RAW_SEND, limit_figure="per_s"
        ),
        Contest(
            "bytes per waiting job",
            "bytes_per_job",
            "the leanest peer that keeps a record",
            lambda system: _is_peer(system) and system.keeps_record,
        ),
        Contest(
            "bytes per waiting job",
            "bytes_per_job",
            "the raw limit",
            limit=RAW_SEND,
            limit_figure="bytes_per_job",
        ),
        Contest("round trip p50, ms", "roundtrip_p50_ms", "the quickest peer", _is_peer),
        Contest(
            "round trip p50, ms",
            "roundtrip_p50_ms",
            "the raw limit",
            limit=RAW_ROUND_TRIP,
            limit_figure="p50_ms",
        ),
    ),
    shows_records=True,
)
