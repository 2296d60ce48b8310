"""`penstock queue`: queues as a whole."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.job_queues import check_holds_tasks, error_document, print_unread
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import counted, print_facts, print_json, print_table, say, say_error
from penstock.cli.tasks import cancel, events, retry_dead, tasks
from penstock.errors import UnknownLayout
from penstock.model.jobs import WAITING_STATES, JobState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.cli.render import Cell
    from penstock.client.client import Penstock
    from penstock.model.queues import QueueState


@click.group()
def queue() -> None:
    """Look at queues and change them."""


for command in (tasks, cancel, retry_dead, events):
    queue.add_command(command)


@queue.command("list", epilog=examples("penstock queue list", "penstock queue list --json"))
@with_store
def list_queues(at: Target) -> None:
    """All queues, each at one instant."""
    counts: dict[str, Counts] = {}
    unread: dict[str, UnknownLayout] = {}
    with at.connected() as client:
        states = client.inspect()
        for state in states:
            try:
                counts[state.name] = _counts(client, state)
            except UnknownLayout as error:
                unread[state.name] = error
    if at.is_json:
        print_json(
            [
                _document(state, counts[state.name])
                if state.name in counts
                else _unread_document(state, unread[state.name])
                for state in states
            ]
        )
        return
    with_tasks = [state for state in states if state.kind != "jobs"]
    with_jobs = [state for state in states if state.kind == "jobs" and state.name in counts]
    if with_tasks or not states:
        _list_tasks(with_tasks)
    if with_tasks and with_jobs:
        click.echo()
    if with_jobs:
        _list_jobs(with_jobs, counts)
    print_unread(unread, is_all=len(unread) == len(states))


def _list_tasks(states: Sequence[QueueState]) -> None:
    columns = ("queue", "state", "ready", "running", "dead", "finished", "workers")
    rows = [
        (
            state.name,
            _word(state),
            state.ready,
            state.running,
            state.dead,
            state.counters.finished,
            len(state.held),
        )
        for state in states
    ]
    print_table(columns, rows, empty="no queues; `penstock enqueue QUEUE TASK` makes one")


def _list_jobs(states: Sequence[QueueState], counts: Mapping[str, Counts]) -> None:
    # `show` has all of them; these leave room for names on a narrow terminal.
    shown: tuple[JobState, ...] = ("scheduled", "ready", "running", "done", "dead")
    rows: list[tuple[Cell, ...]] = [
        (
            state.name,
            _word(state),
            *(counts[state.name][job_state] for job_state in shown),
            len(state.held),
        )
        for state in states
    ]
    print_table(("jobs in", "state", *shown, "workers"), rows, empty="")


@queue.command(epilog=examples("penstock queue show mail"))
@click.argument("name")
@with_store
def show(at: Target, name: str) -> None:
    """Everything that is counted about one queue."""
    with at.connected() as client:
        state = client.queue(name).inspect()
        counts = _counts(client, state)
    if at.is_json:
        print_json(_document(state, counts))
    elif state.kind == "jobs":
        _show_jobs(state, counts)
    else:
        _show(state)


@queue.command(epilog=examples("penstock queue pause mail"))
@click.argument("name")
@with_store
def pause(at: Target, name: str) -> None:
    """Hand out no more tasks. What runs goes on, and tasks can still be added."""
    with at.connected() as client:
        client.queue(name).pause()
        state = client.queue(name).inspect()
        counts = _counts(client, state)
    _confirm(at, state, counts, f"paused '{name}'; {_waiting(state, counts)} waiting")


@queue.command(epilog=examples("penstock queue resume mail"))
@click.argument("name")
@with_store
def resume(at: Target, name: str) -> None:
    """Hand out tasks again."""
    with at.connected() as client:
        client.queue(name).resume()
        state = client.queue(name).inspect()
        counts = _counts(client, state)
    _confirm(at, state, counts, f"resumed '{name}'; {_waiting(state, counts)} waiting")


@queue.command(
    epilog=examples(
        "penstock queue configure mail --max-length 100000",
        "penstock queue configure mail --max-failures none",
    )
)
@click.argument("name")
@click.option(
    "--max-length",
    metavar="N|none",
    callback=lambda _, __, text: _limit(text),
    help="How many tasks may wait; none: any number.",
)
@click.option(
    "--max-failures",
    metavar="N|none",
    callback=lambda _, __, text: _limit(text),
    help="After how many failed deliveries a task is dead; none: the usual 5.",
)
@with_store
def configure(at: Target, name: str, max_length: int | None, max_failures: int | None) -> None:
    """Set the limits of a queue; what is not given stays as it is."""
    given = {"max_length": max_length, "max_failures": max_failures}
    changes = {setting: value or None for setting, value in given.items() if value is not None}
    if not changes:
        raise click.UsageError("Nothing to set; give --max-length or --max-failures.")
    with at.connected() as client:
        target = client.queue(name)
        if max_failures is not None:
            check_holds_tasks(client, name)
        target.configure(**changes)
        state = target.inspect()
        counts = _counts(client, state)
    noun = _noun(state)
    most = state.max_length
    waiting = f"any number of {noun}s" if most is None else counted(most, noun)
    failures = counted(state.max_failures, "failure")
    dead = "" if state.kind == "jobs" else f"; a task is dead after {failures}"
    _confirm(at, state, counts, f"in '{name}' {waiting} may wait{dead}")


@queue.command(epilog=examples("penstock queue delete mail --yes"))
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_store
def delete(at: Target, name: str, yes: bool) -> None:
    """Delete a queue with its waiting and dead tasks, or all its jobs.

    Running ones are not touched. While there are any, the queue stays, empty, and the exit status
    is 1.
    """
    if at.is_json and not yes:
        raise click.UsageError("--json cannot ask; add --yes.")
    with at.connected() as client:
        state = client.queue(name).inspect()
        noun, counts = _noun(state), _counts(client, state)
        there = sum(counts.values()) - counts["running"] if counts else state.ready + state.dead
        if not yes:
            question = f"Delete queue '{name}' with {counted(there, noun)}?"
            click.confirm(question, abort=True, err=True)
        deleted = client.queue(name).delete()
    if at.is_json:
        print_json({"queue": name, "is_deleted": not deleted.running, **deleted._asdict()})
    elif not deleted.running:
        say(f"deleted '{name}' with {counted(deleted.removed, noun)}")
    else:
        say_error(
            f"queue '{name}' is still there, because {counted(deleted.running, noun)} of it run; "
            f"{counted(deleted.removed, noun)} deleted; delete it again when they have finished"
        )
    if deleted.running:
        raise click.exceptions.Exit(1)


def _limit(text: str | None) -> int | None:
    """A number; 0 for `none`, and None if the option was not given."""
    if text is None or text == "none":
        return None if text is None else 0
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise click.BadParameter(f"{text!r} is neither a whole number from 1 up nor 'none'.")
    return int(text)


Counts = dict[JobState, int]
"""How many jobs a queue has in each state; empty if it holds none."""


def _counts(client: Penstock, state: QueueState) -> Counts:
    return client.jobs(state.name).counts() if state.kind == "jobs" else {}


def _noun(state: QueueState) -> str:
    return "job" if state.kind == "jobs" else "task"


def _waiting(state: QueueState, counts: Counts) -> str:
    if state.kind == "jobs":
        return counted(sum(counts[waiting] for waiting in WAITING_STATES), "job")
    return counted(state.ready, "task")


def _confirm(at: Target, state: QueueState, counts: Counts, message: str) -> None:
    if at.is_json:
        print_json(_document(state, counts))
    else:
        say(message)


def _document(state: QueueState, counts: Counts) -> dict[str, object]:
    document = {**asdict(state), "running": state.running}
    if state.kind == "jobs":
        document |= {"ready": counts["ready"], "dead": counts["dead"], "jobs": counts}
        document["counters"] = _attempts(state)
    return document


def _unread_document(state: QueueState, error: UnknownLayout) -> dict[str, object]:
    """What is known for certain of a queue that this version cannot read."""
    return {"name": state.name, "kind": state.kind, "error": error_document(error)}


def _attempts(state: QueueState) -> dict[str, int]:
    """How the attempts at jobs have ended; what else is counted is only about tasks."""
    names = ("started", "finished", "failed", "lost", "stopped", "refused")
    return {name: getattr(state.counters, name) for name in names}


def _word(state: QueueState) -> str:
    return "paused" if state.is_paused else "open"


def _show(state: QueueState) -> None:
    facts: list[tuple[str, Cell]] = [
        ("kind", state.kind),
        ("state", _word(state)),
        ("ready", state.ready),
        ("running", state.running),
        ("dead", state.dead),
        ("most that may wait", "any number" if state.max_length is None else state.max_length),
        ("dead after", counted(state.max_failures, "failure")),
        ("unique keys taken", state.unique),
        ("tasks with failures", state.failures),
        ("workers", f"{len(state.held)}, {state.idle} of them idle"),
    ]
    print_facts(state.name, facts)
    print_facts("so far", asdict(state.counters).items())
    if state.held:
        print_facts("tasks held by", sorted(state.held.items()))


def _show_jobs(state: QueueState, counts: Counts) -> None:
    facts: list[tuple[str, Cell]] = [
        ("kind", state.kind),
        ("state", _word(state)),
        *counts.items(),
        ("most that may wait", "any number" if state.max_length is None else state.max_length),
        ("workers", f"{len(state.held)}, {state.idle} of them idle"),
    ]
    print_facts(state.name, facts)
    print_facts("attempts so far", _attempts(state).items())
    if state.held:
        print_facts("jobs held by", sorted(state.held.items()))
