"""`penstock schedule`: jobs that are sent again and again."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, get_args
from zoneinfo import ZoneInfo

import click
from rich.text import Text

from penstock.cli.job_queues import named_jobs, print_unread, readable_jobs, unread_documents
from penstock.cli.job_send import base64_option, print_sent, read_data, with_job_options
from penstock.cli.options import (
    Seconds,
    Target,
    errors_reported,
    examples,
    json_option,
    parse_instant,
    with_store,
)
from penstock.cli.render import (
    duration,
    instant,
    json_bytes,
    print_json,
    print_table,
    say,
)
from penstock.model.schedules import Misfire, describe_schedule, make_schedule, next_slot_ms

if TYPE_CHECKING:
    from penstock.client.client import Penstock
    from penstock.client.schedules import Schedules, ScheduleState
    from penstock.model.job_options import JobSettings
    from penstock.model.schedules import Schedule


@click.group()
def schedule() -> None:
    """Send jobs again and again."""


_queue_option = click.option("-q", "--queue", metavar="QUEUE", required=True)


@schedule.command(
    "list", epilog=examples("penstock schedule list", "penstock schedule list -q mail")
)
@click.option("-q", "--queue", metavar="QUEUE", help="Default: all queues of jobs.")
@with_store
def list_schedules(at: Target, queue: str | None) -> None:
    """All schedules, and when each is due next."""
    with at.connected() as client:
        found, unread = readable_jobs(client, queue)
        states = [state for jobs in found for state in client.schedules(jobs.name).list()]
    if at.is_json:
        print_json([*map(_document, states), *unread_documents(unread)])
        return
    columns = ("name", "queue", "type", "when", "next", "misfire")
    rows = [
        (
            state.schedule.name,
            state.schedule.queue,
            state.schedule.type,
            describe_schedule(state.schedule),
            _next(state),
            state.schedule.misfire,
        )
        for state in states
    ]
    nothing = "no schedules; `penstock schedule add` makes one"
    print_table(columns, rows, empty=nothing)
    print_unread(unread)


@schedule.command(
    epilog=examples(
        "penstock schedule add nightly -q mail report --cron '0 3 * * *'",
        """penstock schedule add pulse -q mail ping '{"to": "a"}' --every 30 --attempts 3""",
    )
)
@click.argument("name")
@_queue_option
@click.argument("type_", metavar="TYPE")
@click.argument("text", metavar="[DATA]", required=False)
@base64_option
@click.option("--cron", metavar="EXPR", help="Minute, hour, day, month, weekday; or @daily.")
@click.option("--every", metavar="S", type=float, help="Every so many seconds instead.")
@click.option(
    "--timezone",
    metavar="ZONE",
    default="UTC",
    show_default=True,
    help="Whose clock --cron is about, as Europe/Berlin.",
)
@click.option(
    "--misfire",
    type=click.Choice(get_args(Misfire)),
    metavar="M",
    default="once",
    show_default=True,
    help="For times at which no worker was there: skip them, run once, or run all.",
)
@click.option("--starts-at", metavar="TIME", type=parse_instant, help="Not earlier.")
@click.option("--ends-at", metavar="TIME", type=parse_instant, help="Not later.")
@with_job_options
@with_store
def add(
    at: Target,
    name: str,
    queue: str,
    type_: str,
    text: str | None,
    is_base64: bool,
    cron: str | None,
    every: float | None,
    timezone: str,
    misfire: Misfire,
    starts_at: datetime | None,
    ends_at: datetime | None,
    settings: JobSettings,
) -> None:
    """Send a job of TYPE again and again.

    DATA is JSON; - reads it from stdin. A schedule of the same NAME is replaced. Any worker of the
    queue sends the jobs when they are due.
    """
    if cron is None and every is None:
        raise click.UsageError("Say when: give --cron or --every.")
    if cron is not None and every is not None:
        raise click.UsageError("--cron and --every both say when; give only one of them.")
    data = read_data(text, is_base64)
    with at.connected() as client:
        state = client.schedules(queue).add(
            name,
            type_,
            data,
            cron=cron,
            every=every,
            timezone=timezone,
            misfire=misfire,
            starts_at=starts_at,
            ends_at=ends_at,
            **settings,
        )
    _confirm(at, state, "set")


@schedule.command(epilog=examples("penstock schedule remove nightly -q mail"))
@click.argument("name")
@_queue_option
@with_store
def remove(at: Target, name: str, queue: str) -> None:
    """Remove a schedule. Jobs that it has sent stay."""
    with at.connected() as client:
        _schedules(client, queue).remove(name)
    if at.is_json:
        print_json({"queue": queue, "name": name, "is_removed": True})
    else:
        say(f"removed schedule '{name}' of '{queue}'")


@schedule.command(epilog=examples("penstock schedule run nightly -q mail --wait 60"))
@click.argument("name")
@_queue_option
@click.option("--wait", metavar="S", type=Seconds(0), help="Wait for the result and print it.")
@with_store
def run(at: Target, name: str, queue: str, wait: float | None) -> None:
    """Send its job now.

    When it is due next does not change.
    """
    with at.connected() as client:
        print_sent(at, _schedules(client, queue).run(name), wait)


@schedule.command(epilog=examples("penstock schedule pause nightly -q mail"))
@click.argument("name")
@_queue_option
@with_store
def pause(at: Target, name: str, queue: str) -> None:
    """Let its times pass without sending anything."""
    with at.connected() as client:
        schedules = _schedules(client, queue)
        schedules.pause(name)
        state = schedules.get(name)
    _confirm(at, state, "paused")


@schedule.command(epilog=examples("penstock schedule resume nightly -q mail"))
@click.argument("name")
@_queue_option
@with_store
def resume(at: Target, name: str, queue: str) -> None:
    """Send jobs again, from the next time on."""
    with at.connected() as client:
        schedules = _schedules(client, queue)
        schedules.resume(name)
        state = schedules.get(name)
    _confirm(at, state, "resumed")


@schedule.command(
    "next", epilog=examples("penstock schedule next '0 9 * * MON-FRI' --timezone Europe/Berlin")
)
@click.argument("expression", metavar="EXPR")
@click.option("--timezone", metavar="ZONE", default="UTC", show_default=True)
@click.option(
    "-n", "count", metavar="N", type=click.IntRange(1, 1000), default=5, show_default=True
)
@json_option
def next_times(expression: str, timezone: str, count: int, is_json: bool) -> None:
    """The next times of a cron expression; needs no store."""
    with errors_reported(is_json):
        planned = make_schedule("next", queue="-", type="-", cron=expression, timezone=timezone)
        zone = ZoneInfo(timezone)
        times = [datetime.fromtimestamp(slot / 1000, zone) for slot in _slots(planned, count)]
        if is_json:
            print_json([at.isoformat() for at in times])
            return
        rows = [
            (at.isoformat(" ", "minutes"), f"{at:%a}", f"in {_until(at.timestamp())}")
            for at in times
        ]
        print_table((timezone, "", ""), rows, empty="it never fires again")


def _slots(planned: Schedule, count: int) -> list[int]:
    """The next ones, as milliseconds since 1970."""
    slots: list[int] = []
    after_ms = int(time.time() * 1000)
    while len(slots) < count and (slot := next_slot_ms(planned, after_ms)) is not None:
        slots.append(slot)
        after_ms = slot
    return slots


def _schedules(client: Penstock, queue: str) -> Schedules:
    """Of a queue that exists and holds jobs."""
    return client.schedules(named_jobs(client, queue).name)


def _confirm(at: Target, state: ScheduleState, word: str) -> None:
    if at.is_json:
        print_json(_document(state))
        return
    which = f"schedule '{state.schedule.name}' of '{state.schedule.queue}'"
    told = f"{word} {which}: {describe_schedule(state.schedule)}"
    if not state.schedule.is_paused:
        told += f"; next at {instant(state.next_at)}" if state.next_at else "; never again"
    say(told)


def _next(state: ScheduleState) -> Text:
    if state.next_at is None:
        return Text("never again")
    if state.schedule.is_paused:
        return Text("paused")
    late_s = time.time() - state.next_at
    # A worker needs a moment; more than that says that none is there.
    when = f"{duration(late_s)} late" if late_s > 1 else f"in {_until(state.next_at)}"
    return Text(when).append(f"\n{instant(state.next_at)}", style="dim")


def _until(at: float) -> str:
    return duration(max(0.0, at - time.time()))


def _document(state: ScheduleState) -> dict[str, object]:
    described = {**asdict(state.schedule), "data": json_bytes(state.schedule.data)}
    return {**described, "when": describe_schedule(state.schedule), "next_at": state.next_at}
