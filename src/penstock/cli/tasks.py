"""`penstock queue tasks|cancel|retry-dead|events`: what is in one queue, and what happens there."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

import click

from penstock.cli.job_queues import check_holds_tasks
from penstock.cli.options import Seconds, Target, examples, with_store
from penstock.cli.render import (
    counted,
    json_bytes,
    print_json,
    print_json_line,
    print_table,
    say,
    shortened,
)
from penstock.errors import TaskNotFound
from penstock.model.events import EVENT_KINDS, Event, EventKind

if TYPE_CHECKING:
    from penstock.client.client import Penstock
    from penstock.client.queue import Queue


@click.command(epilog=examples("penstock queue tasks mail", "penstock queue tasks mail --dead"))
@click.argument("name")
@click.option("--offset", metavar="N", type=click.IntRange(0), default=0, show_default=True)
@click.option("--limit", metavar="N", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--dead", is_flag=True, help="Those that failed too often instead.")
@with_store
def tasks(at: Target, name: str, offset: int, limit: int, dead: bool) -> None:
    """The waiting tasks of a queue, oldest first."""
    with at.connected() as client:
        queue = _existing(client, name)
        page = queue.dead(offset, limit) if dead else queue.page(offset, limit)
    if at.is_json:
        shown = [json_bytes(task) for task in page.tasks]
        print_json({"queue": name, "total": page.total, "offset": offset, "tasks": shown})
        return
    kind = "dead" if dead else "waiting"
    place = range(offset + 1, offset + 1 + len(page.tasks))
    rows = [(at, len(task), shortened(task)) for at, task in zip(place, page.tasks, strict=True)]
    nothing = f"no {kind} task from {offset} on" if offset else f"no {kind} tasks in '{name}'"
    print_table(("#", "bytes", "task"), rows, empty=nothing)
    if len(page.tasks) < page.total:
        say(f"{len(page.tasks):,} of {page.total:,} {kind}; more with --offset and --limit")


@click.command(epilog=examples("penstock queue cancel mail hello"))
@click.argument("name")
@click.argument("task")
@click.option("--base64", "is_base64", is_flag=True, help="TASK is base64, for any bytes.")
@with_store
def cancel(at: Target, name: str, task: str, is_base64: bool) -> None:
    """Remove waiting copies of TASK, and tell the workers that run one."""
    wanted = _decoded(task) if is_base64 else task.encode(errors="surrogateescape")
    with at.connected() as client:
        queue = _existing(client, name)
        cancelled = queue.cancel(wanted)
        running = len(queue.find(wanted))
    if not cancelled and not running:
        raise TaskNotFound(
            f"queue {name!r} neither holds nor runs this task, so nothing was cancelled; "
            f"`penstock queue tasks {name}` shows what waits"
        )
    if at.is_json:
        print_json({"queue": name, "cancelled": cancelled, "running": running})
    else:
        told = f"; {counted(running, 'copy').replace('copys', 'copies')} running" if running else ""
        say(f"cancelled {counted(cancelled, 'waiting task')} of '{name}'{told}")


@click.command("retry-dead", epilog=examples("penstock queue retry-dead mail"))
@click.argument("name")
@with_store
def retry_dead(at: Target, name: str) -> None:
    """Put all dead tasks back to the end of the queue."""
    with at.connected() as client:
        retried = _existing(client, name).retry_dead()
    if at.is_json:
        print_json({"queue": name, "retried": retried})
    else:
        say(f"put {counted(retried, 'dead task')} back into '{name}'")


@click.command(
    epilog=examples(
        "penstock queue events mail",
        "penstock queue events mail --kind done --limit 1 --json",
    )
)
@click.argument("name")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(EVENT_KINDS),
    metavar="KIND",
    help="work, done, cancel or delete; may be repeated. Default: all.",
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="End after N events.")
@click.option("--timeout", metavar="S", type=Seconds(0.001), help="End after S silent seconds.")
@with_store
def events(
    at: Target, name: str, kinds: tuple[EventKind, ...], limit: int | None, timeout: float | None
) -> None:
    """Print what happens in a queue as it happens, until Ctrl-C.

    With --json each event is a document on a line of its own. What happened before is not shown.
    """
    seen = 0
    with at.connected() as client:
        check_holds_tasks(client, name)
        for event in client.queue(name).events(*kinds, timeout_s=timeout):
            _print_event(event, at.is_json)
            seen += 1
            if seen == limit:
                break


def _existing(client: Penstock, name: str) -> Queue:
    """The queue, so that a misspelt name is an error and not an empty answer."""
    queue = client.queue(name)
    queue.inspect()
    check_holds_tasks(client, name)
    return queue


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise click.BadParameter(f"TASK is not base64: {error}.") from error


def _print_event(event: Event, is_json: bool) -> None:
    if is_json:
        about: dict[str, object] = (
            {"count": event.count}
            if event.kind in ("work", "delete")
            else {"task": json_bytes(event.task)}
        )
        if event.kind == "done":
            about |= {"worker": event.worker, "result": json_bytes(event.result)}
        print_json_line({"kind": event.kind, "queue": event.queue, **about})
        return
    match event.kind:
        case "work":
            text = f"{counted(event.count, 'task')} added"
        case "delete":
            text = f"{counted(event.count, 'task')} deleted"
        case "cancel":
            text = shortened(event.task)
        case "done":
            result = f" = {shortened(event.result)}" if event.result else ""
            text = f"{shortened(event.task)}{result} ({event.worker})"
    say(f"{event.kind:<7} {text}")
