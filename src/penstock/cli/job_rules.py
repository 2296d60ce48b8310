"""`penstock job pause-type|resume-type|limit|share|configure|purge`: what holds for many jobs of a
queue.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.job_queues import named_jobs
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import Cell, counted, duration, print_facts, print_json, say
from penstock.errors import QueueNotFound
from penstock.model.job_rules import MAX_SHARE, JobQueueSettings, JobRules, Limit

if TYPE_CHECKING:
    from penstock.client.client import Penstock
    from penstock.client.jobs import Jobs


@click.command("pause-type", epilog=examples("penstock job pause-type mail email"))
@click.argument("queue")
@click.argument("type_", metavar="TYPE")
@with_store
def pause_type(at: Target, queue: str, type_: str) -> None:
    """Hand out no more jobs of a type. What runs goes on, and jobs can still be sent."""
    with at.connected() as client:
        jobs = _jobs_to_come(client, queue)
        jobs.pause_type(type_)
        ready = jobs.counts(type=type_)["ready"]
    if at.is_json:
        print_json({"queue": queue, "type": type_, "is_paused": True, "ready": ready})
    else:
        say(f"paused type '{type_}' of '{queue}'; {counted(ready, 'job')} ready")


@click.command("resume-type", epilog=examples("penstock job resume-type mail email"))
@click.argument("queue")
@click.argument("type_", metavar="TYPE")
@with_store
def resume_type(at: Target, queue: str, type_: str) -> None:
    """Hand out jobs of a type again."""
    with at.connected() as client:
        jobs = named_jobs(client, queue)
        jobs.resume_type(type_)
        ready = jobs.counts(type=type_)["ready"]
    if at.is_json:
        print_json({"queue": queue, "type": type_, "is_paused": False, "ready": ready})
    else:
        say(f"resumed type '{type_}' of '{queue}'; {counted(ready, 'job')} ready")


@click.command(
    epilog=examples(
        "penstock job limit mail --concurrency 10",
        "penstock job limit mail smtp.example.org --rate 100 --per 60 --burst 10",
        "penstock job limit mail '*' --concurrency 2",
        "penstock job limit mail --lift",
    )
)
@click.argument("queue")
@click.argument("key", required=False)
@click.option("--concurrency", metavar="N", type=int, help="How many may run at once.")
@click.option("--rate", metavar="R", type=float, help="How many may start in a time.")
@click.option("--per", metavar="S", type=float, help="That time in seconds. Default: 1.")
@click.option("--burst", metavar="B", type=float, help="How many of them at once. Default: R.")
@click.option("--lift", is_flag=True, help="No limit any more.")
@with_store
def limit(
    at: Target,
    queue: str,
    key: str | None,
    concurrency: int | None,
    rate: float | None,
    per: float | None,
    burst: float | None,
    lift: bool,
) -> None:
    """Limit how many jobs run at once, or start in a time.

    It takes the place of an earlier limit, at once. Without KEY it is for the whole queue; '*' is
    for every key without a limit of its own. Jobs are sent with a key (--key).
    """
    if rate is None and (per is not None or burst is not None):
        raise click.UsageError("--per and --burst go with --rate.")
    is_set = concurrency is not None or rate is not None
    if is_set == lift:
        raise click.UsageError("Give --concurrency, --rate or both; or --lift.")
    per_s = 1.0 if per is None else per
    with at.connected() as client:
        jobs = named_jobs(client, queue) if lift else _jobs_to_come(client, queue)
        jobs.limit(key or "", concurrency=concurrency, rate=rate, per=per_s, burst=burst)
    if at.is_json:
        print_json(
            {
                "queue": queue,
                "key": key or "",
                "concurrency": concurrency,
                "rate": rate,
                "per_s": per_s if rate is not None else None,
                "burst": burst,
            }
        )
        return
    whose = f"jobs of key '{key}' in '{queue}'" if key else f"jobs of '{queue}'"
    if key == "*":
        whose = f"jobs of each key in '{queue}'"
    if lift:
        say(f"{whose} are not limited any more")
        return
    rules = [f"{concurrency:,} at once"] if concurrency is not None else []
    if rate is not None:
        most = f", {burst:g} of them at once" if burst is not None else ""
        rules.append(f"{rate:g} every {duration(per_s)}{most}")
    say(f"{whose} are limited: {'; '.join(rules)}")


@click.command(epilog=examples("penstock job share mail acme 3"))
@click.argument("queue")
@click.argument("tenant")
@click.argument("weight", type=click.IntRange(1, MAX_SHARE))
@with_store
def share(at: Target, queue: str, tenant: str, weight: int) -> None:
    """Let a tenant start more jobs in each round.

    Where several tenants have jobs of equal priority, each starts one in a round, or WEIGHT.
    """
    with at.connected() as client:
        _jobs_to_come(client, queue).share(tenant, weight)
    if at.is_json:
        print_json({"queue": queue, "tenant": tenant, "weight": weight})
    else:
        say(f"tenant '{tenant}' of '{queue}' starts {counted(weight, 'job')} in each round")


@click.command(
    epilog=examples(
        "penstock job configure mail --max-length 100000 --keep 3600",
        "penstock job configure mail --default max_length",
    )
)
@click.argument("queue")
@click.option("--max-length", metavar="N", type=int, help="How many jobs may wait.")
@click.option("--max-bytes", metavar="N", type=int, help="How many bytes of data may wait.")
@click.option("--ageing", "ageing_s", metavar="S", type=float, help="More urgent by one every S s.")
@click.option("--keep", "keep_s", metavar="S", type=float, help="How long finished jobs are kept.")
@click.option("--keep-dead", "keep_dead_s", metavar="S", type=float, help="The same of dead ones.")
@click.option("--keep-count", metavar="N", type=int, help="How many finished jobs are kept.")
@click.option("--keep-bytes", metavar="N", type=int, help="How many bytes of them are kept.")
@click.option("--history", "history_length", metavar="N", type=int, help="Entries of the history.")
@click.option("--history-cap", metavar="N", type=int, help="The same while it has named readers.")
@click.option("--max-schedules", metavar="N", type=int, help="How many schedules it may have.")
@click.option(
    "--default",
    "defaults",
    metavar="SETTING",
    multiple=True,
    type=click.Choice(tuple(JobQueueSettings.__annotations__)),
    help="Back to its default; may be repeated.",
)
@with_store
def configure(
    at: Target, /, queue: str, defaults: tuple[str, ...], **settings: float | None
) -> None:
    """Change settings of a queue, or show them."""
    given: dict[str, float | None] = {
        name: value for name, value in settings.items() if value is not None
    }
    given |= dict.fromkeys(defaults)
    with at.connected() as client:
        jobs = _jobs_to_come(client, queue) if given else named_jobs(client, queue)
        if given:
            jobs.configure(**given)  # type: ignore[arg-type]
        found = jobs.rules()
    if at.is_json:
        print_json({"queue": queue, **asdict(found)})
        return
    facts = _facts(found)
    if facts:
        print_facts(f"rules of {queue}", facts)
    else:
        say(f"'{queue}' has no rules of its own, only the defaults")


def _facts(rules: JobRules) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [(name, f"{value:,}") for name, value in rules.settings.items()]
    facts += [(f"limit '{key}'", _words(limit)) for key, limit in rules.limits.items()]
    facts += [(f"share of '{tenant}'", weight) for tenant, weight in rules.shares.items()]
    facts += [("paused type", name) for name in rules.paused_types]
    return facts


def _words(limit: Limit) -> str:
    words = [f"{limit.concurrency:,} at once"] if limit.concurrency else []
    if limit.rate is not None:
        words.append(f"{limit.rate:g} every {duration(limit.per_s)}, {limit.burst:g} at once")
    return "; ".join(words)


@click.command(epilog=examples("penstock job purge mail"))
@click.argument("queue")
@with_store
def purge(at: Target, queue: str) -> None:
    """Remove finished jobs that are kept no longer.

    Workers do it by themselves, a few with each request.
    """
    with at.connected() as client:
        purged = named_jobs(client, queue).purge()
    if at.is_json:
        print_json({"queue": queue, "purged": purged})
    else:
        say(f"purged {counted(purged, 'finished job')} of '{queue}'")


def _jobs_to_come(client: Penstock, queue: str) -> Jobs:
    """The jobs of a queue that need not exist yet: what is set for it brings it into being."""
    try:
        return named_jobs(client, queue)
    except QueueNotFound:
        return client.jobs(queue)
