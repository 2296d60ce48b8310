"""Why a job is not running."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.model.workers import worker_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.model.jobs import JobInfo, JobState


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that keeps a job from running, or the one that says it is not kept."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a job is doing, and everything that holds it back, the most decisive first."""

    id: str
    state: JobState
    reasons: list[Reason]

    def __str__(self) -> str:
        return f"job {self.id} is {self.state}: " + "; ".join(r.text for r in self.reasons)


def explain(
    job: JobInfo, now: float, found: dict[str, str], depth: int, paused: Collection[str] = ()
) -> Explanation:
    """Put findings (as `scripts/jobs/explain_job.lua` names them) into words. `paused` has the
    names of workers that are paused.
    """
    awake = (it for it in found["handlers"].split() if worker_name(it) not in paused)
    found = {**found, "awake": " ".join(awake)}
    reasons = list(_FOR_STATE[job.state](job, now, found, depth))
    return Explanation(job.id, job.state, reasons)


def _scheduled(job: JobInfo, now: float, found: dict[str, str], depth: int) -> list[Reason]:
    reasons = _queue_reasons(job, found)
    late_s = now - job.due_at
    at = _time(job.due_at)
    if late_s < 0:
        again = " to be tried again" if job.failures else ""
        text = f"it waits{again} until {at}, in {_span(-late_s)}"
        return [Reason("due_at", text), *reasons]
    if "expired_at" in found:
        return reasons
    text = f"it was due at {at} and starts with the next request of a worker"
    return [*reasons, Reason("due", text)]


def _blocked(job: JobInfo, now: float, found: dict[str, str], depth: int) -> list[Reason]:
    return [Reason("waits_for", f"it waits for job {found.get('waits_for', '?')}")]


def _ready(job: JobInfo, now: float, found: dict[str, str], depth: int) -> list[Reason]:
    reasons = _queue_reasons(job, found)
    if "limit" in found:
        reasons.append(_limit(found, now))
    ahead_in_line, more_urgent = int(found["ahead_in_line"]), int(found["more_urgent"])
    is_deep = ahead_in_line < 0
    ahead = more_urgent + (depth if is_deep else ahead_in_line)
    if ahead:
        more_than = "more than " if is_deep else ""
        noun = "job" if ahead == 1 else "jobs"
        text = f"{more_than}{ahead:,} {noun} of equal or higher priority will start before it"
        reasons.append(Reason("behind", text))
    tenants = int(found["tenants"])
    if tenants > 1:
        who = f"tenant {job.tenant!r}" if job.tenant else "jobs without a tenant"
        text = f"{tenants} tenants take turns; {who} may start {found['share']} in a round"
        reasons.append(Reason("tenant_share", text))
    if not reasons:
        reasons.append(Reason("next", "it is next: the first worker with a free slot starts it"))
    return reasons


def _running(job: JobInfo, now: float, found: dict[str, str], depth: int) -> list[Reason]:
    text = f"worker {job.worker!r} has been running it for {_span(now - job.started_at)}"
    asked = [Reason("cancel_asked", "it has been asked to end")] if job.is_cancel_asked else []
    return [Reason("running", text), *asked]


def _done(job: JobInfo, now: float, found: dict[str, str], depth: int) -> list[Reason]:
    return [Reason("done", f"it was done at {_time(job.finished_at)}")]


_DEATHS = {
    "failed": "it has failed as often as it may",
    "timeout": "it took longer than its timeout",
    "expired": "it was not started before it expired",
    "lost": "its worker died, and it must not run twice",
    "poison": "it has taken its worker down three times",
    "rejected": "its own code said that trying again is of no use",
    "impossible": "a job that it waited for has failed",
}


def _dead(job: JobInfo, now: float, found: dict[str, str], depth: int) -> list[Reason]:
    why = _DEATHS.get(job.reason, job.reason)
    last = f"; the last error: {job.error.type}: {job.error.message}" if job.error else ""
    text = f"{why}{last}; `penstock job retry {job.id}` runs it again"
    return [Reason(job.reason, text)]


def _cancelled(job: JobInfo, now: float, found: dict[str, str], depth: int) -> list[Reason]:
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


def _queue_reasons(job: JobInfo, found: dict[str, str]) -> list[Reason]:
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
    if found["workers"] == "0":
        reasons.append(Reason("no_worker", f"no worker serves queue {job.queue!r}"))
    elif not found["handlers"]:
        text = f"no live worker handles jobs of type {job.type!r}"
        reasons.append(Reason("no_worker_for_type", text))
    elif not found["awake"]:
        name = worker_name(found["handlers"].split()[0])
        text = (
            f"all workers that handle jobs of type {job.type!r} are paused; "
            f"`penstock worker resume {name}` lets one go on"
        )
        reasons.append(Reason("workers_paused", text))
    return reasons


def _limit(found: dict[str, str], now: float) -> Reason:
    whose = f"limit {found['limit']!r}" if found["limit"] else "the limit of the queue"
    if found.get("limit_until"):
        at = int(found["limit_until"]) / 1000
        text = f"{whose} lets it start at {_time(at)} at the earliest, in {_span(at - now)}"
        return Reason("rate_limited", text)
    text = f"{whose} is reached: {found['limit_slots']} may run at once, and they do"
    return Reason("concurrency_limited", text)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} days"
