"""`penstock queue`: queues as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from penstock.cli.job_queues import check_holds_tasks, error_document, print_unread
from penstock.cli.options import Target, examples, with_store
from penstock.cli.queue_views import print_views, view_of
from penstock.cli.render import counted, print_json, say, say_error
from penstock.cli.tasks import cancel, events, retry_dead, tasks
from penstock.errors import UnknownLayout

if TYPE_CHECKING:
    from penstock.cli.queue_views import QueueView
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
    views: dict[str, QueueView] = {}
    unread: dict[str, UnknownLayout] = {}
    with at.connected() as client:
        settings, states, workers = client.settings, client.inspect(), client.workers()
        for state in states:
            try:
                views[state.name] = view_of(client, state, workers)
            except UnknownLayout as error:
                unread[state.name] = error
    if at.is_json:
        print_json(
            [
                views[state.name].document()
                if state.name in views
                else _unread_document(state, unread[state.name])
                for state in states
            ]
        )
        return
    if settings.server is not None:
        say(f"namespace '{settings.namespace}' of the private Redis")
    if not states:
        say("no queues; `penstock enqueue QUEUE TASK` makes one")
    print_views(list(views.values()))
    print_unread(unread, is_all=len(unread) == len(states))


@queue.command(epilog=examples("penstock queue show mail"))
@click.argument("name")
@with_store
def show(at: Target, name: str) -> None:
    """Everything that is counted about one queue."""
    with at.connected() as client:
        view = view_of(client, client.queue(name).inspect())
    if at.is_json:
        print_json(view.document())
    else:
        view.show()


@queue.command(epilog=examples("penstock queue pause mail"))
@click.argument("name")
@with_store
def pause(at: Target, name: str) -> None:
    """Hand out no more tasks. What runs goes on, and tasks can still be added."""
    with at.connected() as client:
        client.queue(name).inspect()  # or a name that was mistyped would become a queue
        client.queue(name).pause()
        view = view_of(client, client.queue(name).inspect())
    _confirm(at, view, f"paused '{name}'; {counted(view.waiting, view.noun)} waiting")


@queue.command(epilog=examples("penstock queue resume mail"))
@click.argument("name")
@with_store
def resume(at: Target, name: str) -> None:
    """Hand out tasks again."""
    with at.connected() as client:
        client.queue(name).resume()
        view = view_of(client, client.queue(name).inspect())
    _confirm(at, view, f"resumed '{name}'; {counted(view.waiting, view.noun)} waiting")


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
        view = view_of(client, target.inspect())
    most = view.state.max_length
    waiting = f"any number of {view.noun}s" if most is None else counted(most, view.noun)
    _confirm(at, view, f"in '{name}' {waiting} may wait{view.end}")


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
        view = view_of(client, client.queue(name).inspect())
        noun = view.noun
        if not yes:
            question = f"Delete queue '{name}' with {counted(view.removable, noun)}?"
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


def _confirm(at: Target, view: QueueView, message: str) -> None:
    if at.is_json:
        print_json(view.document())
    else:
        say(message)


def _unread_document(state: QueueState, error: UnknownLayout) -> dict[str, object]:
    """What is known for certain of a queue that this version cannot read."""
    return {"name": state.name, "kind": state.kind, "error": error_document(error)}
