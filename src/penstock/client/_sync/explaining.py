# Generated from _async/explaining.py by tools/generate_sync.py. Edit that file instead.

"""Gathers what keeps a job from running."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.client.current import running_job
from penstock.codec.ids import id_text
from penstock.errors import PenstockError, ResultTimeout
from penstock.model.explanations import Explanation, explain
from penstock.model.worker_reasons import Staff
from penstock.store.commands import job_records

if TYPE_CHECKING:
    from penstock.client._sync.client import Penstock
    from penstock.client._sync.job import Job
    from penstock.model.workers import WorkerInfo
    from penstock.store.commands.job_records import Findings
    from penstock.store.keys import QueueKeys

_LOOKED_AT = 10_000
_MOST_WORKERS = 20
"""of more, nobody needs to know what each one does"""


def explain_job(
    client: Penstock, keys: QueueKeys, number: int, is_urgent: bool = False
) -> Explanation | None:
    """Why a job is not running, or what it is doing; None if there is no such job. If it is urgent,
    a store that does not answer is not waited for.
    """
    command = job_records.explain_job(keys, number, _LOOKED_AT)
    run = client.store.run_soon if is_urgent else client.store.run
    findings = run(command)
    if findings is None:
        return None
    workers = {info.id: info for info in client.workers()}
    held: dict[str, list[str]] = {}
    for worker in _asked(findings, workers):
        numbers = client.store.run(job_records.list_running(keys, worker))
        held[worker] = [id_text(each) for each in numbers]
    staff = Staff(workers, held)
    return explain(findings.job, findings.now, findings.found, _LOOKED_AT, staff)


def timed_out(job: Job[Any], timeout_s: float) -> ResultTimeout:
    """The error of a wait that was too short. A job that waits for another keeps its slot, so it
    may wait for itself; then the error says so.
    """
    said = f"job {job.id} has not ended within {timeout_s:g} s; "
    waiting = running_job()
    explanation = None
    if waiting and timeout_s > 0:
        with suppress(PenstockError):
            explanation = explain_job(job._client, job._keys, job._number, is_urgent=True)
    if explanation is None:
        return ResultTimeout(
            f"{said}it may still do so, `penstock job explain {job.id}` says what it waits for"
        )
    reasons = "; ".join(reason.text for reason in explanation.reasons)
    return ResultTimeout(
        f"{said}job {waiting} waits for it and keeps a slot meanwhile, and it is "
        f"{explanation.state}: {reasons}"
    )


def _asked(findings: Findings, workers: dict[str, WorkerInfo]) -> list[str]:
    """The workers of which it matters what they hold."""
    if findings.job.state == "running":
        return [findings.job.worker] if findings.job.worker in workers else []
    if findings.job.state != "ready":
        return []
    handlers = findings.found["handlers"].split()
    living = [worker for worker in handlers if worker in workers and workers[worker].is_alive]
    return living if len(living) <= _MOST_WORKERS else []
