"""`penstock job pause-type|resume-type|limit|share|purge`: what holds for many jobs of a queue."""

from __future__ import annotations

import click

from penstock.cli.job_queues import named_jobs
from penstock.cli.options import Target, examples, with_store
from penstock.cli.render import counted, duration, print_json, say
from penstock.model.job_rules import MAX_SHARE


@click.command("pause-type", epilog=examples("penstock job pause-type mail email"))
@click.argument("queue")
@click.argument("type_", metavar="TYPE")
@with_store
def pause_type(at: Target, queue: str, type_: str) -> None:
    """Hand out no more jobs of a type. What runs goes on, and jobs can still be sent."""
    with at.connected() as client:
        jobs = named_jobs(client, queue)
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
        named_jobs(client, queue).limit(
            key or "", concurrency=concurrency, rate=rate, per=per_s, burst=burst
        )
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
    """Let a tenant start more jobs in its turn.

    Where several tenants have jobs of equal priority, each starts one in its turn, or WEIGHT.
    """
    with at.connected() as client:
        named_jobs(client, queue).share(tenant, weight)
    if at.is_json:
        print_json({"queue": queue, "tenant": tenant, "weight": weight})
    else:
        say(f"tenant '{tenant}' of '{queue}' starts {counted(weight, 'job')} in its turn")


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
