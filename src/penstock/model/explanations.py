"""Why a job is not running."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.model.jobs import MAX_LAPSES
from penstock.model.reasons import Reason, span
from penstock.model.worker_reasons import Staff, running_reasons, waiting_reasons

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.jobs import JobInfo, JobState


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a job is doing, and everything that holds it back, the most decisive first."""

    id: str
    state: JobState
    reasons: list[Reason]

    def __str__(self) -> str:
        return f"job {self.id} is {self.state}: " + "; ".join(r.text for r in self.reasons)


def explain(
    job: JobInfo,
    now: float,
    found: dict[str, str],
    depth: int,
    staff: Staff,
) -> Explanation:
    """Put findings (as `scripts/jobs/explain_job.lua` names them) into words."""
    reasons = list(_FOR_STATE[job.state](job, now, found, depth, staff))
    return Explanation(job.id, job.state, reasons)


def _scheduled(
    job: JobInfo, now: float, found: dict[str, str], depth: int, staff: Staff
) -> list[Reason]:
    reasons = _queue_reasons(job, found, staff)
    late_s = now - job.due_at
    at = _time(job.due_at)
    if late_s < 0:
        again = " to be tried again" if job.failures else ""
        text = f"it waits{again} until {at}, in {span(-late_s)}"
        return [Reason("due_at", text), *reasons]
    if "expired_at" in found:
        return reasons
    text = f"it was due at {at} and starts with the next request of a worker"
    return [*reasons, Reason("due", text)]


def _blocked(
    job: JobInfo, now: float, found: dict[str, str], depth: int, staff: Staff
) -> list[Reason]:
    return [Reason("waits_for", f"it waits for job {found.get('waits_for', '?')}")]


def _ready(
    job: JobInfo, now: float, found: dict[str, str], depth: int, staff: Staff
) -> list[Reason]:
    reasons = _queue_reasons(job, found, staff)
    reasons += _limits(found, now)
    ahead_in_line, more_urgent = int(found["ahead_in_line"]), int(found["more_urgent"])
    is_deep = ahead_in_line < 0
    ahead = more_urgent + int(found["aside_before"]) + (depth if is_deep else ahead_in_line)
    if ahead:
        more_than = "more than " if is_deep else ""
        text = f"{more_than}{_jobs(ahead)} of equal or higher priority will start before it"
        reasons.append(Reason("behind", text))
    tenants = int(found["tenants"])
    if tenants > 1:
        who = f"tenant {job.tenant!r}" if job.tenant else "jobs without a tenant"
        text = f"{tenants} tenants take turns; {who} may start {found['share']} in a round"
        reasons.append(Reason("tenant_share", text))
    if not reasons:
        reasons.append(Reason("next", "it is next: the first worker with a free slot starts it"))
    return reasons


def _running(
    job: JobInfo, now: float, found: dict[str, str], depth: int, staff: Staff
) -> list[Reason]:
    asked = [Reason("cancel_asked", "it has been asked to end")] if job.is_cancel_asked else []
    return [*running_reasons(job, now, staff), *asked]


def _done(
    job: JobInfo, now: float, found: dict[str, str], depth: int, staff: Staff
) -> list[Reason]:
    return [Reason("done", f"it was done at {_time(job.finished_at)}")]


_DEATHS = {
    "failed": "it has failed as often as it may",
    "timeout": "it took longer than its timeout",
    "expired": "it was not started before it expired",
    "lost": "its worker died or lost its lease, and it must not run twice",
    "poison": "it has taken its worker down three times",
    "lapsed": (
        f"the lease of the worker that held it lapsed {MAX_LAPSES} times, and no death was "
        "reported: it may keep its workers too busy to answer"
    ),
    "rejected": "its own code said that trying again is of no use",
    "impossible": "a job that it waited for has failed",
}


def _dead(
    job: JobInfo, now: float, found: dict[str, str], depth: int, staff: Staff
) -> list[Reason]:
    why = _DEATHS.get(job.reason, job.reason)
    last = f"; the last error: {job.error.type}: {job.error.message}" if job.error else ""
    text = f"{why}{last}; `penstock job retry {job.id}` runs it again"
    return [Reason(job.reason, text)]


def _cancelled(
    job: JobInfo, now: float, found: dict[str, str], depth: int, staff: Staff
) -> list[Reason]:
    return [Reason("cancelled", f"it was cancelled at {_time(job.finished_at)}")]


_FOR_STATE = {
    "scheduled": _scheduled,
    "blocked": _blocked,
    "ready": _ready,
    "running": _running,
    "done": _done,
    "dead": _dead,
    "cancelled": _cancelled,
}


def _queue_reasons(job: JobInfo, found: dict[str, str], staff: Staff) -> list[Reason]:
    reasons = []
    if "expired_at" in found:
        at = _time(int(found["expired_at"]) / 1000)
        text = f"it expired at {at} and will be dead as soon as a worker comes to it"
        reasons.append(Reason("expired", text))
    if found["paused"] == "1":
        text = f"queue {job.queue!r} is paused; `penstock queue resume {job.queue}` lets it go on"
        reasons.append(Reason("paused", text))
    if found["type_paused"] == "1":
        text = (
            f"jobs of type {job.type!r} are paused; "
            f"`penstock job resume-type {job.queue} {job.type}` lets them go on"
        )
        reasons.append(Reason("type_paused", text))
    return reasons + waiting_reasons(job, found, staff)


def _limits(found: dict[str, str], now: float) -> list[Reason]:
    """All limits that are reached, the one that holds it longest first."""
    held: list[tuple[float, Reason]] = []
    if "queue_limit" in found:
        held += _limit("queue_limit", "the limit of the queue", 0, found, now)
    if "key_limit" in found:
        key = found["key_limit"]
        is_own = found["key_limit_is_own"] == "1"
        whose = f"limit {key!r}" if is_own else f"limit '*' for key {key!r}"
        held += _limit("key_limit", whose, int(found["parked_before"]), found, now)
    return [reason for _, reason in sorted(held, key=lambda each: -each[0])]


def _limit(
    name: str, whose: str, before: int, found: dict[str, str], now: float
) -> Iterator[tuple[float, Reason]]:
    """What it lets start, and when this job, if that is known."""
    if found[f"{name}_until"]:
        next_at = int(found[f"{name}_until"]) / 1000
        at = next_at + before * float(found[f"{name}_token_ms"]) / 1000
        text = f"{whose} lets it start at {_time(at)} at the earliest, in {span(at - now)}"
        if before:
            text = (
                f"{whose} lets the next job start at {_time(next_at)}, in {span(next_at - now)}, "
                f"and after {_jobs(before)} this one at about {_time(at)}, in {span(at - now)}"
            )
        yield at, Reason("rate_limited", text)
    if found[f"{name}_slots"]:
        busy = int(found[f"{name}_busy"])
        run = "runs" if busy == 1 else "run"
        slots = _jobs(int(found[f"{name}_slots"]))
        text = f"{whose} is reached: it lets {slots} run at a time, and {busy:,} {run} now"
        yield 0.0, Reason("concurrency_limited", text)


def _jobs(count: int) -> str:
    return f"{count:,} job" if count == 1 else f"{count:,} jobs"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
