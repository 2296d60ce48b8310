"""`penstock job send`, and what can be said about a job when it is sent."""

from __future__ import annotations

import base64
import binascii
import json
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.job_show import json_result, shown_result
from penstock.cli.options import Seconds, Target, examples, parse_instant, with_store
from penstock.cli.render import print_json, say
from penstock.model.jobs import PRIORITIES

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from penstock.client.job import Job
    from penstock.model.job_options import JobSettings, UniqueFor
    from penstock.model.jobs import Priority
    from penstock.model.unique_keys import UniqueScope


def with_job_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a job, as one `settings`."""

    @click.option(
        "--priority",
        metavar="P",
        type=parse_priority,
        help=f"{', '.join(PRIORITIES)}, or a number; the lower one runs first.",
    )
    @click.option("--delay", metavar="S", type=float, help="Run after so many seconds.")
    @click.option("--attempts", metavar="N", type=int, help="How often it may fail. Default: 1.")
    @click.option(
        "--backoff",
        metavar="B",
        type=_number_or_word,
        help="Wait between attempts: exponential[:BASE:CAP:JITTER], fixed, none, named:NAME, or "
        "seconds.",
    )
    @click.option("--timeout", metavar="S", type=float, help="Seconds that it may run.")
    @click.option("--expires", metavar="S", type=float, help="Seconds in which it must start.")
    @click.option("--tenant", metavar="NAME", help="On whose behalf; tenants share fairly.")
    @click.option("--key", metavar="KEY", help="What its limits are counted by.")
    @click.option("--tag", "tags", metavar="TAG", multiple=True, help="May be repeated.")
    @click.option("--unique", metavar="KEY", help="Not if there is a job of this type and key.")
    @click.option(
        "--unique-for",
        metavar="U",
        type=_number_or_word,
        help="Until when the key is taken: queued, done (the default), or seconds.",
    )
    @click.option(
        "--unique-scope",
        metavar="S",
        type=click.Choice(["type", "queue"]),
        help="Which jobs share the key: those of the type (the default), or all of the queue.",
    )
    @click.option(
        "--debounce", metavar="S", type=float, help="Wait so long for a newer one of the key."
    )
    @click.option(
        "--search", is_flag=True, default=None, help="Let `penstock job search` find its data."
    )
    @wraps(function)
    def command(
        priority: Priority | None,
        delay: float | None,
        attempts: int | None,
        backoff: str | float | None,
        timeout: float | None,
        expires: float | None,
        tenant: str | None,
        key: str | None,
        tags: tuple[str, ...],
        unique: str | None,
        unique_for: UniqueFor | None,
        unique_scope: UniqueScope | None,
        debounce: float | None,
        search: bool | None,
        **rest: Any,
    ) -> None:
        given = {
            "priority": priority,
            "delay": delay,
            "attempts": attempts,
            "backoff": backoff,
            "timeout": timeout,
            "expires": expires,
            "tenant": tenant,
            "key": key,
            "tags": tags or None,
            "unique": unique,
            "unique_for": unique_for,
            "unique_scope": unique_scope,
            "debounce": debounce,
            "search": search,
        }
        settings = {name: value for name, value in given.items() if value is not None}
        function(settings=settings, **rest)

    return command


def parse_priority(text: str) -> Priority:
    """A whole number, or one of the names for some of them."""
    try:
        return text if text in PRIORITIES else int(text)  # type: ignore[return-value]
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is neither a whole number nor one of {', '.join(PRIORITIES)}."
        ) from None


def _number_or_word(text: str) -> float | str:
    """A word is understood, or refused, where it is used."""
    try:
        return float(text)
    except ValueError:
        return text


base64_option = click.option(
    "--base64", "is_base64", is_flag=True, help="DATA is base64, for any bytes."
)


@click.command(
    epilog=examples(
        """penstock job send mail email '{"to": "alice"}' --attempts 5""",
        "penstock job send mail report --delay 3600 --unique monthly",
        "penstock job send images resize - --wait 30 < picture.json",
    )
)
@click.argument("queue")
@click.argument("type_", metavar="TYPE")
@click.argument("text", metavar="[DATA]", required=False)
@base64_option
@click.option("--id", "id_", metavar="ID", help="Made beforehand, so that twice is harmless.")
@click.option("--run-at", metavar="TIME", type=parse_instant, help="As 2030-01-31T08:00+01:00.")
@click.option("--wait", metavar="S", type=Seconds(0), help="Wait for the result and print it.")
@with_job_options
@with_store
def send(
    at: Target,
    queue: str,
    type_: str,
    text: str | None,
    is_base64: bool,
    id_: str | None,
    run_at: datetime | None,
    wait: float | None,
    settings: JobSettings,
) -> None:
    """Send a job to QUEUE.

    DATA is JSON, which arrives as it is; - reads it from stdin. An object is the named arguments
    of a function.
    """
    if id_ is not None:
        settings["id"] = id_
    if run_at is not None:
        settings["run_at"] = run_at
    data = read_data(text, is_base64)
    with at.connected() as client:
        job = client.jobs(queue).add(type_, data, **settings)
        print_sent(at, job, wait)


def print_sent(at: Target, job: Job[Any], wait_s: float | None) -> None:
    """Print what was sent, and its result if that is to be waited for."""
    document: dict[str, object] = {"id": job.id, "queue": job.queue, "type": job.type}
    document["is_new"] = job.is_new
    if not at.is_json:
        there = f"job {job.id} of '{job.queue}' was there already; no other was sent"
        say(f"sent job {job.id} to '{job.queue}'" if job.is_new else there)
    if wait_s is not None:
        result = job.result(wait_s)
        document["result"] = json_result(result)
        if not at.is_json:
            say(f"done: {shown_result(result)}")
    if at.is_json:
        print_json(document)


def read_data(text: str | None, is_base64: bool) -> bytes | None:
    """The data of a job: JSON, or any bytes as base64."""
    if text is None:
        if is_base64:
            raise click.UsageError("--base64 says how DATA is written; give DATA too.")
        return None
    given = sys.stdin.buffer.read() if text == "-" else text.encode(errors="surrogateescape")
    if is_base64:
        try:
            return base64.b64decode(b"".join(given.split()), validate=True)
        except (ValueError, binascii.Error) as error:
            raise click.BadParameter(f"DATA is not base64: {error}.") from error
    try:
        json.loads(given, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(
            f"DATA is not JSON ({error}); text needs quotes of its own, as in '\"hello\"', and "
            "other bytes --base64."
        ) from error
    return given.strip()


def _refuse_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")
