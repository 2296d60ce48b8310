"""`penstock job show|explain|log`: one job."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.job_queues import find_job, queue_option
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import (
    duration,
    instant,
    json_bytes,
    print_facts,
    print_json,
    print_json_line,
    print_lines,
    say,
    shortened,
)
from penstock.codec.values import open_result, pack_data
from penstock.errors import JobCancelled, JobFailed, ResultTimeout
from penstock.model.jobs import PRIORITIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.cli.render import Cell
    from penstock.client.job import Job
    from penstock.model.jobs import Attempt, JobError, JobInfo

_DATA_CHARACTERS = 4000
_LOG_LINES = 1000
_LAST_LINES = 5
_LOOK_AGAIN_S = 0.5


@click.command(epilog=examples("penstock job show 03gq7n2v5k8xw", "penstock job show ID --json"))
@click.argument("id_", metavar="ID")
@queue_option
@with_store
def show(at: Target, id_: str, queue: str | None) -> None:
    """Everything that is recorded about a job."""
    with at.connected() as client:
        job = find_job(client, id_, queue)
        info, attempts, lines = job.info(), job.attempts(), job.log(-_LAST_LINES)
    if at.is_json:
        failed = [asdict(attempt) for attempt in attempts]
        print_json({**job_document(info), "failed_attempts": failed})
    else:
        _show(info, attempts)
        if lines:
            print_lines("the end of its log", [f"{instant(at)} {line}" for at, line in lines])


@click.command(epilog=examples("penstock job explain 03gq7n2v5k8xw"))
@click.argument("id_", metavar="ID")
@queue_option
@with_store
def explain(at: Target, id_: str, queue: str | None) -> None:
    """Why a job is not running, or what it is doing."""
    with at.connected() as client:
        job = find_job(client, id_, queue)
        found = job.explain()
    if at.is_json:
        print_json({"queue": job.queue, **asdict(found)})
    else:
        reasons = (f"- {reason.text}" for reason in found.reasons)
        print_lines(f"job {found.id} of '{job.queue}' is {found.state}", reasons)


@click.command(
    epilog=examples("penstock job log 03gq7n2v5k8xw", "penstock job log 03gq7n2v5k8xw --follow")
)
@click.argument("id_", metavar="ID")
@queue_option
@click.option("--follow", "is_followed", is_flag=True, help="Go on until the job has ended.")
@with_store
def log(at: Target, id_: str, queue: str | None, is_followed: bool) -> None:
    """What a job has written to its log.

    The last 1,000 lines are kept. With --follow and --json each line is a document on a line of its
    own.
    """
    with at.connected() as client:
        job = find_job(client, id_, queue)
        if is_followed:
            _follow(job, at.is_json)
            return
        lines = job.log(-_LOG_LINES)
    if at.is_json:
        print_json([{"at": at, "line": line} for at, line in lines])
    elif not lines:
        say(f"job {id_} has written nothing to its log")
    else:
        _print_log(lines, is_json=False)


def job_document(info: JobInfo) -> dict[str, object]:
    """A job for programs."""
    document = {**asdict(info), "data": json_bytes(info.data), "attempts_made": info.attempts_made}
    outcome = document.pop("outcome")
    if info.state == "done":
        document["result"] = json_result(open_result(outcome))
    return document


def lost_attempts(info: JobInfo) -> str:
    """How many attempts crashed and how many lapsed; empty if none."""
    counts = {"crashed": info.crashes, "lapsed": info.lapses}
    return ", ".join(f"{count} {how}" for how, count in counts.items() if count)


def json_result(result: Any) -> Any:
    """The result of a job for programs: what it is, or as bytes are shown."""
    return json_bytes(result) if isinstance(result, bytes) else result


def shown_result(result: Any) -> str:
    """The same for people."""
    return shortened(pack_data("the result", result), _DATA_CHARACTERS)


def _show(info: JobInfo, attempts: Sequence[Attempt]) -> None:
    print_facts(f"job {info.id}", _facts(info))
    if info.error is not None:
        _print_error("the last error", info.error)
    for attempt in attempts:
        took = duration(max(0.0, attempt.ended_at - attempt.started_at))
        title = f"attempt {attempt.number} {attempt.outcome} after {took} ({attempt.worker})"
        if attempt.error is None:
            print_lines(title, [f"it ended at {instant(attempt.ended_at)}"])
        elif attempt.error == info.error:  # its traceback is there already
            print_lines(title, [f"{attempt.error.type}: {attempt.error.message}"])
        else:
            _print_error(title, attempt.error)


def _facts(info: JobInfo) -> list[tuple[str, Cell]]:
    asked = " (asked to end)" if info.is_cancel_asked else ""
    state = f"{info.state}{asked}" + (f" ({info.reason})" if info.reason else "")
    made = f"{info.attempts_made - info.losses} of {info.attempts} made"
    apart = f"; {lost_attempts(info)}, counted apart" if info.losses else ""
    facts: list[tuple[str, Cell]] = [
        ("queue", info.queue),
        ("type", info.type),
        ("state", state),
        ("priority", _priority(info.priority)),
        ("attempts", f"{made}{apart}"),
        ("sent", _ago(info.created_at)),
    ]
    if info.state in ("scheduled", "ready"):
        facts.append(("due", _ago(info.due_at)))
    facts += [
        (name, _ago(when))
        for name, when in (("started", info.started_at), ("ended", info.finished_at))
        if when
    ]
    facts += [
        (name, value)
        for name, value in (
            ("worker", info.worker),
            ("tenant", info.tenant),
            ("tags", ", ".join(info.tags)),
            ("limit key", info.key),
            ("unique key", _unique(info)),
            ("timeout", duration(info.timeout_s) if info.timeout_s else ""),
            ("progress", _progress(info)),
        )
        if value
    ]
    facts.append(("data", shortened(info.data, _DATA_CHARACTERS)))
    if info.state == "done":
        facts.append(("result", shown_result(open_result(info.outcome))))
    return facts


def _unique(info: JobInfo) -> str:
    is_shared = info.unique and info.unique_scope == "queue"
    return f"{info.unique} (of all types of the queue)" if is_shared else info.unique


def _priority(priority: int) -> str:
    names = {number: name for name, number in PRIORITIES.items()}
    return f"{priority} ({names[priority]})" if priority in names else f"{priority}"


def _ago(when: float) -> str:
    seconds = time.time() - when
    span = duration(abs(seconds))
    return f"{instant(when)}, " + (f"{span} ago" if seconds >= 0 else f"in {span}")


def _progress(info: JobInfo) -> str:
    if info.progress is None:
        return ""
    data = info.progress.data
    more = "" if data is None else f", {shown_result(data)}"
    return f"{info.progress.percent:.4g} %{more}"


def _print_error(title: str, error: JobError) -> None:
    lines = error.traceback.splitlines() or [f"{error.type}: {error.message}"]
    print_lines(title, lines)


def _follow(job: Job[Any], is_json: bool) -> None:
    """Print text lines as they come. There are no events for them, so it asks now and then; that
    the job has ended it hears at once.
    """
    seen: list[tuple[float, str]] = []
    is_over = False
    while True:
        lines = job.log(-_LOG_LINES)
        _print_log(lines[_overlap(seen, lines) :], is_json)
        if is_over:
            return
        seen = lines
        with suppress(ResultTimeout):
            with suppress(JobFailed, JobCancelled):
                job.result(_LOOK_AGAIN_S)
            is_over = True


def _overlap(seen: list[tuple[float, str]], lines: list[tuple[float, str]]) -> int:
    """How many of the lines were there before; those at the front may be gone by now."""
    for first in range(len(seen)):
        if seen[first:] == lines[: len(seen) - first]:
            return len(seen) - first
    return 0


def _print_log(lines: Sequence[tuple[float, str]], is_json: bool) -> None:
    for at, line in lines:
        if is_json:
            print_json_line({"at": at, "line": line})
        else:
            say(f"{instant(at)} {line}")
