"""What workers have to do with it that a job is not running: there is none, it is dead, paused or
stuck, or its slots are taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.model.reasons import Reason, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.model.jobs import JobInfo
    from penstock.model.workers import WorkerInfo

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Staff:
    """The workers that may have to do with a job."""

    workers: Mapping[str, WorkerInfo] = field(default_factory=dict)
    """by id; all that are registered"""
    held: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """worker -> the jobs of this queue that it holds, in the order in which it got them; of those
    that were asked for
    """

    def is_alive(self, worker: str) -> bool:
        return worker in self.workers and self.workers[worker].is_alive

    def slots_of(self, worker: str) -> int:
        """0: it has not said how many."""
        return self.workers[worker].slots if worker in self.workers else 0

    def lapse(self, worker: str) -> str:
        """What is known of a worker that is not alive."""
        info = self.workers.get(worker)
        if info is None:
            return f"worker {worker!r} is not registered any more"
        if info.lease_left_ms is None:
            return f"worker {worker!r} was given up"
        return f"the lease of worker {worker!r} lapsed {span(-info.lease_left_ms / 1000)} ago"


def waiting_reasons(job: JobInfo, found: Mapping[str, str], staff: Staff) -> list[Reason]:
    """Why no worker takes a job that waits; empty if one may."""
    handlers = found["handlers"].split()
    living = [worker for worker in handlers if staff.is_alive(worker)]
    awake = [worker for worker in living if not staff.workers[worker].is_paused]
    able = [worker for worker in awake if not staff.workers[worker].is_stuck]
    if found["workers"] == "0":
        return [Reason("no_worker", f"no worker serves queue {job.queue!r}")]
    if not handlers:
        return [Reason("no_worker_for_type", f"no live worker handles jobs of type {job.type!r}")]
    if not living:
        lapses = _listed(staff.lapse(worker) for worker in handlers)
        text = f"no living worker serves queue {job.queue!r}: {lapses}; {_start(job)}"
        return [Reason("no_living_worker", text)]
    if not awake:
        text = (
            f"all workers that handle jobs of type {job.type!r} are paused; "
            f"`penstock worker resume {staff.workers[living[0]].name}` lets one go on"
        )
        return [Reason("workers_paused", text)]
    if not able:
        text = (
            f"all slots of the workers that handle jobs of type {job.type!r} are kept by jobs past "
            "their timeout, whose threads cannot be ended; start these workers again, and let "
            "such jobs run with process=True"
        )
        return [Reason("workers_stuck", text)]
    return _taken_slots(able, staff)


def running_reasons(job: JobInfo, now: float, staff: Staff) -> list[Reason]:
    """What the worker that holds a job does with it."""
    worker, held = job.worker, staff.held.get(job.worker, ())
    if worker in staff.workers and not staff.is_alive(worker):
        text = (
            f"{staff.lapse(worker)}, so it may be dead; the next living worker gives the job back: "
            f"{_start(job)}"
        )
        return [Reason("worker_lapsed", text)]
    slots = staff.slots_of(worker)
    if slots and job.id in held[slots:]:
        text = (
            f"worker {worker!r} holds it and has not begun it: {_taken('worker', held[:slots])}; "
            f"{_HOW_IF_WAITING}"
        )
        return [Reason("prefetched", text)]
    text = f"worker {worker!r} has been running it for {span(now - job.started_at)}"
    return [Reason("running", text)]


_HOW_IF_WAITING = (
    "if one of them waits for the result of this one, neither can go on: give jobs that wait for "
    "others a queue with workers of its own, or the workers more slots (`-c`)"
)


def _taken_slots(able: Sequence[str], staff: Staff) -> list[Reason]:
    """Said only if it is known of all workers that could run the job."""
    taken: list[str] = []
    for worker in able:
        own, held = staff.slots_of(worker), staff.held.get(worker, ())
        if not own or len(held) < own:
            return []
        taken += held[:own]
    text = f"{_taken('workers that handle it', taken)}; {_HOW_IF_WAITING}"
    return [Reason("slots_taken", text)]


def _taken(whose: str, ids: Sequence[str]) -> str:
    """That slots are taken, one by each of these jobs."""
    if len(ids) == 1:
        return f"the only slot of the {whose} is taken by job {ids[0]}"
    return f"all {len(ids):,} slots of the {whose} are taken by jobs {_listed(ids)}"


def _listed(texts: Iterable[str]) -> str:
    named = list(texts)
    more = f" and {len(named) - _NAMED:,} more" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + more


def _start(job: JobInfo) -> str:
    return f"`penstock worker run MODULE -q {job.queue}` starts one"
