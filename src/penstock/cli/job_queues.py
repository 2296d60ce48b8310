"""Which queue, and which job, a command is about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.render import print_table
from penstock.errors import QueueNotFound, UnknownLayout, WrongKind
from penstock.model.jobs import DEATH_REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.client.client import Penstock
    from penstock.client.job import Job
    from penstock.client.jobs import Jobs
    from penstock.model.job_filters import FilterSettings

queue_option = click.option(
    "-q", "--queue", metavar="QUEUE", help="Default: whichever has it; naming it is quicker."
)
reason_option = click.option(
    "--reason",
    type=click.Choice(DEATH_REASONS),
    metavar="REASON",
    help=f"Only those dead for this reason: {', '.join(DEATH_REASONS)}. Looks at all dead ones.",
)


def named_jobs(client: Penstock, queue: str) -> Jobs:
    """The jobs of a queue, so that a misspelt name is an error and not an empty answer."""
    if client.queue(queue).inspect().kind == "tasks":
        raise WrongKind(
            f"queue {queue!r} holds plain tasks, not jobs; `penstock queue show {queue}` and "
            f"`penstock queue tasks {queue}` are for those"
        )
    return client.jobs(queue)


def all_jobs(client: Penstock, queue: str | None) -> list[Jobs]:
    """The jobs of the named queue, or of every queue that holds jobs."""
    if queue is not None:
        return [named_jobs(client, queue)]
    return [client.jobs(state.name) for state in client.inspect() if state.kind == "jobs"]


def readable_jobs(
    client: Penstock, queue: str | None
) -> tuple[list[Jobs], dict[str, UnknownLayout]]:
    """The same, and apart from them, with the reason, the queues that this version cannot read:
    one of these does not hide the others. If it was asked for by name, it is an error.
    """
    found: list[Jobs] = []
    unread: dict[str, UnknownLayout] = {}
    for jobs in all_jobs(client, queue):
        try:
            jobs.counts()
        except UnknownLayout as error:
            if queue is not None:
                raise
            unread[jobs.name] = error
        else:
            found.append(jobs)
    return found, unread


def unread_documents(unread: Mapping[str, UnknownLayout]) -> list[dict[str, object]]:
    """What is known for certain of queues that this version cannot read."""
    return [{"queue": name, "error": error_document(error)} for name, error in unread.items()]


def error_document(error: UnknownLayout) -> dict[str, str]:
    return {"code": error.code, "message": str(error)}


def print_unread(unread: Mapping[str, UnknownLayout], is_all: bool = False) -> None:
    """The same as a table, below another unless this is all that there is."""
    if unread:
        if not is_all:
            click.echo()
        rows = [(name, str(error)) for name, error in unread.items()]
        print_table(("not shown", "why"), rows, empty="")


def find_job(client: Penstock, id_: str, queue: str | None) -> Job[Any]:
    """The job of this id. Raises JobNotFound, and QueueNotFound for a queue that is none."""
    return client.job(id_) if queue is None else named_jobs(client, queue).get(id_)


def check_holds_tasks(client: Penstock, queue: str) -> None:
    """Refuse a queue of jobs where tasks are meant, and say what is meant for jobs."""
    try:
        kind = client.queue(queue).inspect().kind
    except QueueNotFound:
        return
    if kind == "jobs":
        raise WrongKind(
            f"queue {queue!r} holds jobs, not plain tasks; `penstock job list -q {queue}` shows "
            "them, and `penstock job --help` what can be done"
        )


def which_jobs(
    type_: str | None, tenant: str | None, tag: str | None, reason: str | None = None
) -> FilterSettings:
    """What was given of the filters."""
    which: FilterSettings = {}
    if type_ is not None:
        which["type"] = type_
    if tenant is not None:
        which["tenant"] = tenant
    if tag is not None:
        which["tag"] = tag
    if reason is not None:
        which["reason"] = reason
    return which
