"""`penstock job retry|cancel|remove|promote|priority`: jobs that go elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import click

from penstock.cli.job_queues import find_job, named_jobs, queue_option, reason_option, which_jobs
from penstock.cli.job_send import parse_priority
from penstock.cli.options import Target, examples, with_store
from penstock.cli.progress import ProgressBar
from penstock.cli.render import counted, print_json, say, say_error
from penstock.errors import JobNotFound, PenstockError
from penstock.model.jobs import JOB_STATES, WAITING_STATES, JobState

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.client.client import Penstock
    from penstock.client.job import Job
    from penstock.client.jobs import Jobs
    from penstock.model.job_filters import FilterSettings
    from penstock.model.jobs import Priority

_REMOVABLE_STATES = tuple(state for state in JOB_STATES if state != "running")

_type_option = click.option("--type", "type_", metavar="TYPE", help="Only those of this type.")
_tenant_option = click.option("--tenant", metavar="NAME", help="Only those of this tenant.")
_tag_option = click.option("--tag", metavar="TAG", help="Only those with this tag.")
_yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


class Many(NamedTuple):
    """All jobs of a queue in one state, or some of them."""

    queue: str
    state: JobState
    which: FilterSettings


@click.command(
    epilog=examples(
        "penstock job retry 03gq7n2v5k8xw",
        "penstock job retry --all-dead -q mail --type email",
        "penstock job retry --all-dead -q mail --reason timeout",
    )
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@queue_option
@click.option("--all-dead", is_flag=True, help="All dead jobs of a queue.")
@_type_option
@_tenant_option
@_tag_option
@reason_option
@with_store
def retry(
    at: Target,
    ids: tuple[str, ...],
    queue: str | None,
    all_dead: bool,
    type_: str | None,
    tenant: str | None,
    tag: str | None,
    reason: str | None,
) -> None:
    """Let dead or cancelled jobs run again.

    Each has all its attempts again. Those of --all-dead are retried in the order in which they
    were sent.
    """
    which = which_jobs(type_, tenant, tag, reason)
    many = _many(ids, queue, "dead" if all_dead else None, which, "--all-dead")
    if many is None:
        _move_each(at, ids, queue, "retried", lambda job: job.retry())
    else:
        _move_many(
            at, many, "retried", lambda jobs, show: jobs.retry(on_progress=show, **many.which)
        )


@click.command(
    epilog=examples(
        "penstock job cancel 03gq7n2v5k8xw",
        "penstock job cancel --state ready -q mail --tenant acme",
    )
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@queue_option
@click.option(
    "--state",
    type=click.Choice(WAITING_STATES),
    metavar="STATE",
    help="All ready, scheduled or blocked jobs of a queue.",
)
@_type_option
@_tenant_option
@_tag_option
@_yes_option
@with_store
def cancel(
    at: Target,
    ids: tuple[str, ...],
    queue: str | None,
    state: JobState | None,
    type_: str | None,
    tenant: str | None,
    tag: str | None,
    yes: bool,
) -> None:
    """Cancel waiting and running jobs.

    A job that waits is cancelled at once. The worker of one that runs is told, and the job is
    cancelled when the worker has ended it.
    """
    many = _many(ids, queue, state, which_jobs(type_, tenant, tag), "--state")
    if many is None:
        _move_each(at, ids, queue, "cancelled", lambda job: job.cancel())
    else:
        _move_many(
            at,
            many,
            "cancelled",
            lambda jobs, show: jobs.cancel(many.state, on_progress=show, **many.which),
            "" if yes else "Cancel",
        )


@click.command(
    epilog=examples(
        "penstock job remove 03gq7n2v5k8xw",
        "penstock job remove --state dead -q mail --type email --yes",
    )
)
@click.argument("ids", metavar="[ID]...", nargs=-1)
@queue_option
@click.option(
    "--state",
    type=click.Choice(_REMOVABLE_STATES),
    metavar="STATE",
    help=f"All {', '.join(_REMOVABLE_STATES[:-1])} or {_REMOVABLE_STATES[-1]} jobs of a queue.",
)
@_type_option
@_tenant_option
@_tag_option
@_yes_option
@with_store
def remove(
    at: Target,
    ids: tuple[str, ...],
    queue: str | None,
    state: JobState | None,
    type_: str | None,
    tenant: str | None,
    tag: str | None,
    yes: bool,
) -> None:
    """Remove jobs and all that is recorded about them.

    A job that runs must be cancelled first.
    """
    many = _many(ids, queue, state, which_jobs(type_, tenant, tag), "--state")
    if many is None:
        _move_each(at, ids, queue, "removed", lambda job: job.remove(), _find_removable)
    else:
        _move_many(
            at,
            many,
            "removed",
            lambda jobs, show: jobs.remove(many.state, on_progress=show, **many.which),
            "" if yes else "Remove",
        )


@click.command(epilog=examples("penstock job promote 03gq7n2v5k8xw"))
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@queue_option
@with_store
def promote(at: Target, ids: tuple[str, ...], queue: str | None) -> None:
    """Let scheduled jobs run now."""
    _move_each(at, ids, queue, "promoted", lambda job: job.promote())


@click.command(
    # Or -10 would be taken for an option.
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "penstock job priority 03gq7n2v5k8xw high", "penstock job priority 03gq7n2v5k8xw -10"
    ),
)
@click.argument("id_", metavar="ID")
@click.argument("priority", type=parse_priority)
@queue_option
@with_store
def priority(at: Target, id_: str, priority: Priority, queue: str | None) -> None:
    """Change how urgent a waiting job is.

    PRIORITY is low, normal, medium, high, critical or a number; the lower one runs first.
    """
    with at.connected() as client:
        job = find_job(client, id_, queue)
        job.reprioritise(priority)
        info = job.info()
    if at.is_json:
        print_json({"id": info.id, "queue": info.queue, "priority": info.priority})
    else:
        say(f"job {info.id} has priority {info.priority}")


def _many(
    ids: tuple[str, ...],
    queue: str | None,
    state: JobState | None,
    which: FilterSettings,
    option: str,
) -> Many | None:
    """Which jobs are chosen: many of a queue, or (None) those of the given ids."""
    if ids and (state or which):
        raise click.UsageError(f"Give ids, or {option} for many jobs; not both.")
    if ids:
        return None
    if state is None:
        raise click.UsageError(f"Nothing to do; give an ID, or {option} and -q for many jobs.")
    if queue is None:
        raise click.UsageError(f"{option} is about one queue; name it with -q.")
    return Many(queue, state, which)


def _move_many(
    at: Target,
    many: Many,
    word: str,
    move: Callable[[Jobs, Callable[[int], None]], int],
    question: str = "",
) -> None:
    """Move all chosen jobs, and show how far it is if it takes long. `question` is the verb to ask
    with before anything is done.
    """
    if question and at.is_json:
        raise click.UsageError("--json cannot ask; add --yes.")
    with at.connected() as client:
        jobs = named_jobs(client, many.queue)
        total = jobs.page(many.state, limit=1, with_data=False, **many.which).total
        if question:
            number = _number(jobs, many, total)
            click.confirm(f"{question} {number} of '{many.queue}'?", abort=True, err=True)
        with ProgressBar(total) as bar:
            moved = move(jobs, lambda seen: bar.show(seen, counted(seen, "job")))
    if at.is_json:
        print_json({"queue": many.queue, "state": many.state, word: moved})
    else:
        say(f"{word} {counted(moved, f'{many.state} job')} of '{many.queue}'")


def _number(jobs: Jobs, many: Many, total: int | None) -> str:
    """How many jobs are chosen. For several filters together there is no count, but there are no
    more than any one of them lets through.
    """
    if total is not None:
        return counted(total, f"{many.state} job")
    each = [cast("FilterSettings", {name: value}) for name, value in many.which.items()]
    most = min(jobs.counts(**one)[many.state] for one in each)
    return f"up to {counted(most, f'{many.state} job')}"


def _find_removable(client: Penstock, id_: str, queue: str | None) -> Job[Any]:
    """The job of this id, also one that could not be read and was set aside."""
    try:
        return find_job(client, id_, queue)
    except JobNotFound:
        for name in [queue] if queue else client.queues():
            job = client.jobs(name).get_damaged(id_)
            if job is not None:
                return job
        raise


def _move_each(
    at: Target,
    ids: tuple[str, ...],
    queue: str | None,
    word: str,
    move: Callable[[Job[Any]], JobState | None],
    find: Callable[[Penstock, str, str | None], Job[Any]] = find_job,
) -> None:
    """Move jobs one by one. One that cannot be moved does not keep the others from it; the exit
    status is 1 then.
    """
    moved: list[str] = []
    asked: list[str] = []
    errors: list[tuple[str, PenstockError]] = []
    with at.connected() as client, ProgressBar(len(ids)) as bar:
        for number, id_ in enumerate(ids):
            try:
                is_asked = move(find(client, id_, queue)) == "running"
                (asked if is_asked else moved).append(id_)
            except PenstockError as error:
                errors.append((id_, error))
            bar.show(number + 1, counted(number + 1, "job"))
    if at.is_json:
        _print_each(word, moved, asked, errors)
    else:
        if moved:
            say(f"{word} {counted(len(moved), 'job')}")
        if asked:
            say(f"asked {counted(len(asked), 'running job')} to end")
        for _, refusal in errors:
            say_error(str(refusal))
    if errors:
        raise click.exceptions.Exit(1)


def _print_each(
    word: str, moved: list[str], asked: list[str], errors: list[tuple[str, PenstockError]]
) -> None:
    document: dict[str, object] = {word: moved}
    if word == "cancelled":
        document["asked"] = asked
    document["errors"] = [
        {"id": id_, "code": refusal.code, "message": str(refusal)} for id_, refusal in errors
    ]
    print_json(document)
