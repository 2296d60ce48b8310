"""`penstock job tail`: what happens to jobs, as it happens."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING

import click

from penstock.cli.job_queues import all_jobs
from penstock.cli.job_show import shown_result
from penstock.cli.options import Seconds, Target, examples, with_store
from penstock.cli.render import print_json_line, say
from penstock.client.client import AsyncPenstock
from penstock.codec.attempts import open_error
from penstock.codec.progress import open_progress
from penstock.errors import QueueNotFound
from penstock.model.jobs import JOB_EVENT_KINDS, JobEvent, JobEventKind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from penstock.connection.settings import Settings


@click.command(
    epilog=examples(
        "penstock job tail",
        "penstock job tail -q mail --kind done --kind dead",
        "penstock job tail -q mail --limit 1 --timeout 60 --json",
    )
)
@click.option("-q", "--queue", metavar="QUEUE", help="Default: all queues of jobs there are now.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(JOB_EVENT_KINDS),
    metavar="KIND",
    help=f"{', '.join(JOB_EVENT_KINDS[:-1])} or {JOB_EVENT_KINDS[-1]}; may be repeated.",
)
@click.option("--limit", metavar="N", type=click.IntRange(1), help="End after N events.")
@click.option("--timeout", metavar="S", type=Seconds(0.001), help="End after S silent seconds.")
@with_store
def tail(
    at: Target,
    queue: str | None,
    kinds: tuple[JobEventKind, ...],
    limit: int | None,
    timeout: float | None,
) -> None:
    """Print what happens to jobs as it happens, until Ctrl-C.

    With --json each event is a document on a line of its own. What happened before is not shown.
    """
    with at.connected() as client:
        names = [jobs.name for jobs in all_jobs(client, queue)]
        settings = client.settings
    if not names:
        raise QueueNotFound(
            f"there is no queue of jobs in namespace {settings.namespace!r}; "
            "`penstock job send QUEUE TYPE` makes one"
        )
    asyncio.run(_tail(settings, names, kinds, limit, timeout, at.is_json))


async def _tail(
    settings: Settings,
    queues: Sequence[str],
    kinds: Sequence[JobEventKind],
    limit: int | None,
    timeout_s: float | None,
    is_json: bool,
) -> None:
    seen = 0
    async with (
        AsyncPenstock(settings) as client,
        aclosing(_events(await client.open(), queues, kinds, timeout_s)) as events,
    ):
        async for event in events:
            if is_json:
                print_json_line(_document(event))
            else:
                _print_event(event, len(queues) > 1)
            seen += 1
            if seen == limit:
                return


async def _events(
    client: AsyncPenstock,
    queues: Sequence[str],
    kinds: Sequence[JobEventKind],
    timeout_s: float | None,
) -> AsyncGenerator[JobEvent, None]:
    """What happens in all the queues, each heard by a listener of its own."""
    heard: asyncio.Queue[JobEvent] = asyncio.Queue()

    async def listen(queue: str) -> None:
        async with aclosing(await client.jobs(queue).events(*kinds)) as events:
            async for event in events:
                heard.put_nowait(event)

    listeners = [asyncio.create_task(listen(queue)) for queue in queues]
    try:
        while True:
            event = asyncio.create_task(heard.get())
            done, _ = await asyncio.wait(
                [event, *listeners], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if event not in done:
                event.cancel()
                for listener in done:
                    listener.result()
                return
            yield event.result()
    finally:
        for listener in listeners:
            listener.cancel()
        await asyncio.gather(*listeners, return_exceptions=True)


def _document(event: JobEvent) -> dict[str, object]:
    return {
        "kind": event.kind,
        "queue": event.queue,
        "id": event.id,
        "type": event.type,
        "at": event.at,
        "attempt": event.attempt,
        "worker": event.worker,
        **_detail(event),
    }


def _detail(event: JobEvent) -> dict[str, object]:
    if event.kind == "progress":
        progress = open_progress(event.detail)
        return {"percent": progress.percent, "data": progress.data}
    if event.kind == "retried" and (error := open_error(event.detail)) is not None:
        return {"error": {"type": error.type, "message": error.message}}
    return {"reason": event.detail.decode(errors="replace")} if event.kind == "dead" else {}


def _print_event(event: JobEvent, has_queue: bool) -> None:
    at = datetime.fromtimestamp(event.at).strftime("%H:%M:%S")
    where = f"{event.queue} " if has_queue else ""
    say(f"{at} {event.kind:<9} {where}{event.id} {event.type}{_words(event)}")


def _words(event: JobEvent) -> str:
    match event.kind:
        case "started":
            return f" (attempt {event.attempt + 1}, {event.worker})"
        case "progress":
            progress = open_progress(event.detail)
            data = "" if progress.data is None else f" {shown_result(progress.data)}"
            return f" {progress.percent:.4g} %{data}"
        case "retried":
            error = open_error(event.detail)
            return f": {error.type}: {error.message}" if error else ": its worker died"
        case "dead":
            return f" ({event.detail.decode(errors='replace')})"
        case "done":
            return f" ({event.worker})" if event.worker else ""
        case _:
            return ""
