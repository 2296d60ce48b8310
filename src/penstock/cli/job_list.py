"""`penstock job list|search`: many jobs."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

import click

from penstock.cli.job_queues import (
    named_jobs,
    print_unread,
    readable_jobs,
    reason_option,
    unread_documents,
    which_jobs,
)
from penstock.cli.job_show import job_document, lost_attempts
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import counted, duration, print_json, print_table, say, shortened
from penstock.model.job_filters import MAX_PAGE
from penstock.model.jobs import JOB_STATES, JobPage, JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.cli.render import Cell
    from penstock.client.jobs import Jobs
    from penstock.errors import UnknownLayout
    from penstock.model.job_filters import FilterSettings
    from penstock.model.jobs import JobInfo

_DATA_CHARACTERS = 60
_WHY_CHARACTERS = 80

_limit_option = click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, MAX_PAGE),
    default=100,
    show_default=True,
    help="Jobs of a queue in one page.",
)


@click.command(
    "list",
    epilog=examples(
        "penstock job list",
        "penstock job list -q mail --state dead --type email",
        "penstock job list --state running --json",
    ),
)
@click.option("-q", "--queue", metavar="QUEUE", help="Default: all queues of jobs.")
@click.option(
    "--state",
    type=click.Choice(JOB_STATES),
    metavar="STATE",
    help=f"{', '.join(JOB_STATES[:-1])} or {JOB_STATES[-1]}. Default: count them.",
)
@click.option("--type", "type_", metavar="TYPE", help="Only jobs of this type.")
@click.option("--tenant", metavar="NAME", help="Only jobs of this tenant.")
@click.option("--tag", metavar="TAG", help="Only jobs with this tag.")
@reason_option
@_limit_option
@click.option("--after", metavar="CURSOR", help="Go on where an earlier page ended.")
@click.option("--newest", is_flag=True, help="The newest first, instead of the oldest.")
@with_store
def list_jobs(
    at: Target,
    queue: str | None,
    state: JobState | None,
    type_: str | None,
    tenant: str | None,
    tag: str | None,
    reason: str | None,
    limit: int,
    after: str | None,
    newest: bool,
) -> None:
    """Count jobs, or list those in one state.

    With --state they come in the order in which they were sent; running ones in the order in which
    they were started, with their worker. Scheduled ones say when they are due, dead ones why they
    are dead.
    """
    which = which_jobs(type_, tenant, tag, reason)
    if reason is not None and state != "dead":
        raise click.UsageError("--reason goes with --state dead.")
    if state is None:
        _check_counting(which, after, newest)
    elif after is not None and queue is None:
        raise click.UsageError("--after goes with -q; a page of each queue ends somewhere else.")
    with at.connected() as client:
        found, unread = readable_jobs(client, queue)
        if state is None:
            _show_counts(at, [row for jobs in found for row in _counts(jobs, which)], unread)
            return
        pages = [(jobs.name, _page(jobs, state, after, limit, newest, which)) for jobs in found]
    if at.is_json:
        documents = [_document(name, state, page) for name, page in pages]
        print_json([*documents, *unread_documents(unread)])
        return
    nothing = f"no {state} jobs" + (f" in '{queue}'" if queue else "")
    # The state is what was asked for, and would only take room.
    shown = [job for _, page in pages for job in page.jobs]
    _print_jobs(shown, ["id", "type"] if queue else ["queue", "id", "type"], nothing, state)
    for name, page in pages:
        if page.cursor:
            _say_more(name, state, page, limit, newest, which)
    print_unread(unread)


@click.command(epilog=examples("penstock job search mail alice invoice"))
@click.argument("queue")
@click.argument("words", nargs=-1, required=True)
@_limit_option
@with_store
def search(at: Target, queue: str, words: tuple[str, ...], limit: int) -> None:
    """Find jobs whose data has all the WORDS.

    They may be in any state; the newest comes first. Only jobs that were sent with `search`
    (--search here) can be found.
    """
    with at.connected() as client:
        found = named_jobs(client, queue).search(" ".join(words), limit)
    if at.is_json:
        print_json([job_document(job) for job in found])
        return
    nothing = f"no job of '{queue}' that was sent with `search` has all these words"
    _print_jobs(found, ["id", "type", "state"], nothing)


def _check_counting(which: FilterSettings, after: str | None, newest: bool) -> None:
    if after is not None or newest:
        raise click.UsageError("--after and --newest go with --state.")
    if len(which) > 1:
        raise click.UsageError(
            "Jobs are counted by type, tenant or tag, not by several of them; add --state to see "
            "the jobs."
        )


Count = tuple[str, str, dict[JobState, int]]
"""A queue, a type, and how many jobs there are in each state."""


def _counts(jobs: Jobs, which: FilterSettings) -> list[Count]:
    if which.keys() & {"tenant", "tag"}:
        return [(jobs.name, "any", jobs.counts(**which))]
    types = jobs.types()
    wanted = [which["type"]] if "type" in which else list(types)
    counts = [(name, types.get(name, {})) for name in wanted] or [("", {})]
    return [
        (jobs.name, name, {state: by_state.get(state, 0) for state in JOB_STATES})
        for name, by_state in counts
    ]


def _show_counts(at: Target, counts: Sequence[Count], unread: Mapping[str, UnknownLayout]) -> None:
    if at.is_json:
        documents = [{"queue": queue, "type": name, "counts": by} for queue, name, by in counts]
        print_json([*documents, *unread_documents(unread)])
        return
    # Hardly any job waits for another, so the column would hardly ever say anything.
    is_empty = not any(by_state["blocked"] for _, _, by_state in counts)
    states = [state for state in JOB_STATES if state != "blocked" or not is_empty]
    rows: list[tuple[Cell, ...]] = [
        (queue, name, *(by[state] for state in states)) for queue, name, by in counts
    ]
    nothing = "no queues of jobs; `penstock job send QUEUE TYPE` makes one"
    if unread:
        nothing = "no queues of jobs that this version can read"
    print_table(("queue", "type", *states), rows, empty=nothing)
    print_unread(unread)


def _page(
    jobs: Jobs,
    state: JobState,
    after: str | None,
    limit: int,
    newest: bool,
    which: FilterSettings,
) -> JobPage:
    """A page with jobs in it, unless there are none any more: with several filters, whole pages may
    have none.
    """
    cursor = after or ""
    while True:
        page = jobs.page(state, after=cursor, limit=limit, newest_first=newest, **which)
        cursor = page.cursor
        if page.jobs or not cursor:
            return page


def _print_jobs(
    jobs: Sequence[JobInfo], columns: Sequence[str], empty: str, state: JobState | None = None
) -> None:
    """A row for each job: the given facts, what is always of interest, and what is in `state`."""
    has_tenant = any(job.tenant for job in jobs)
    more = [_OF_STATE[state]] if state in _OF_STATE else []
    rows: list[list[Cell]] = [
        [
            *(getattr(job, column) for column in columns),
            job.priority,
            _tries(job),
            _age(job),
            *([job.tenant] if has_tenant else []),
            *(tell(job) for _, tell in more),
            shortened(job.data, _DATA_CHARACTERS),
        ]
        for job in jobs
    ]
    tenant = ["tenant"] if has_tenant else []
    telling = [column for column, _ in more]
    print_table(
        [*columns, "priority", "tries", "age", *tenant, *telling, "data"], rows, empty=empty
    )


def _tries(job: JobInfo) -> str:
    apart = f", {lost_attempts(job)}" if job.losses else ""
    return f"{job.attempts_made - job.losses}/{job.attempts}{apart}"


def _due(job: JobInfo) -> str:
    seconds = job.due_at - time.time()
    return f"in {_largest_unit(seconds)}" if seconds > 0 else "now"


def _why(job: JobInfo) -> str:
    """Why it is dead; `penstock job show` has the whole of it."""
    error = ""
    if job.error:
        name = job.error.type.rpartition(".")[2]  # its module would leave no room for the message
        error = f": {name}: {job.error.message}"
    return shortened(f"{job.reason}{error}".encode(errors="replace"), _WHY_CHARACTERS)


_OF_STATE: dict[JobState | None, tuple[str, Callable[[JobInfo], str]]] = {
    "scheduled": ("due", _due),
    "running": ("worker", lambda job: job.worker),
    "dead": ("why", _why),
}
"""What is of interest only in one state: the name of its column, and what it tells."""


def _age(job: JobInfo) -> str:
    return _largest_unit(time.time() - job.created_at)


def _largest_unit(seconds: float) -> str:
    """As `3 h`."""
    return " ".join(duration(max(0.0, seconds)).split()[:2])


def _say_more(
    queue: str, state: JobState, page: JobPage, limit: int, newest: bool, which: FilterSettings
) -> None:
    again = ["penstock", "job", "list", "-q", queue, "--state", state]
    for name, value in which.items():
        again += (f"--{name}", str(value))
    again += ("--limit", str(limit), *(("--newest",) if newest else ()), "--after", page.cursor)
    of_all = "" if page.total is None else f" of {page.total:,}"
    shown = counted(len(page.jobs), f"{state} job")
    say(f"{shown}{of_all} in '{queue}'; the next page: {shlex.join(again)}")


def _document(queue: str, state: JobState, page: JobPage) -> dict[str, object]:
    return {
        "queue": queue,
        "state": state,
        "total": page.total,
        "cursor": page.cursor,
        "jobs": [job_document(job) for job in page.jobs],
    }
