"""`penstock spark run`: workers on Spark executors."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from penstock.cli.options import Target, examples, with_store
from penstock.cli.progress import ProgressBar
from penstock.cli.render import counted, duration, print_json, print_table
from penstock.cli.worker import weighted
from penstock.cli.worker_options import (
    check_lease,
    concurrency_option,
    grace_option,
    heartbeat_option,
    lease_option,
    served_option,
    strict_option,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.spark.queue_work import WorkerSummary, WorkProgress

_QUIET = {"spark.log.level": "FATAL"}  # why Spark gives up is said in one line


@click.command(
    epilog=examples(
        "penstock spark run app.jobs -q images --until-empty",
        "penstock spark run app.jobs -q images --master spark://host:7077 --py-files app.zip",
    )
)
@click.argument("module")
@served_option(
    "Give it again for more queues. With weights, they share what is started.", required=True
)
@click.option("--master", metavar="URL", help="Where Spark runs. Default: local[*].")
@click.option(
    "--workers",
    "--executors",
    "workers",
    metavar="N",
    type=click.IntRange(1),
    help="How many, each a Spark task. Default: as many as Spark runs at a time.",
)
@concurrency_option("Tasks at a time, in each worker.")
@click.option(
    "--until-empty",
    is_flag=True,
    help="End when nothing is left in the queues. Else Ctrl-C ends it.",
)
@strict_option
@click.option(
    "--py-files",
    metavar="FILE,...",
    multiple=True,
    help="Modules (.py) and packages (.zip) to ship to the executors.",
)
@click.option(
    "--archives",
    metavar="FILE#NAME,...",
    multiple=True,
    help="Archives to unpack there; one with bin/python brings the Python.",
)
@click.option(
    "--conf", metavar="NAME=VALUE", multiple=True, help="A setting of Spark; may be given again."
)
@grace_option
@lease_option("Tasks of a worker return this long after it died.")
@heartbeat_option
@click.option("--name", help="Of all these workers, to pause them by. Default: spark-...")
@with_store
def run(
    at: Target,
    module: str,
    queues: tuple[str, ...],
    master: str | None,
    workers: int | None,
    concurrency: int,
    until_empty: bool,
    strict: bool,
    py_files: tuple[str, ...],
    archives: tuple[str, ...],
    conf: tuple[str, ...],
    grace_s: float,
    lease_ms: int,
    heartbeat_ms: int,
    name: str | None,
) -> None:
    """Run the work of queues on Spark, with workers on its executors.

    Each worker is a Spark task that runs `penstock worker run MODULE`. If its executor dies, what
    it held goes back to the queue, and Spark starts it again elsewhere.
    """
    check_lease(lease_ms, heartbeat_ms)
    config = _settings(conf)
    # Here, as it takes a second, and needs what `penstock-queue[spark]` installs.
    from penstock.spark import run as run_on_spark  # noqa: PLC0415

    names, weights = weighted(queues)
    with ProgressBar(None) as bar:
        summaries = run_on_spark(
            module,
            names,
            master=master,
            config=_QUIET | config,
            workers=workers,
            concurrency=concurrency,
            until_empty=until_empty,
            strict=strict,
            weights=weights,
            grace_s=grace_s,
            lease_ms=lease_ms,
            heartbeat_ms=heartbeat_ms,
            name=name,
            py_files=_listed(py_files),
            archives=_listed(archives),
            url=at.named_url(),
            namespace=at.settings().namespace,
            on_progress=_shown_on(bar),
        )
    if at.is_json:
        print_json([asdict(summary) for summary in summaries])
    else:
        _print(summaries)


def _shown_on(bar: ProgressBar) -> Callable[[WorkProgress], None]:
    """Show how much of what there was at most is done."""
    most = 0

    def show(progress: WorkProgress) -> None:
        nonlocal most
        most = max(most, progress.left)
        who = counted(progress.workers, "worker") if progress.workers else "Spark starts workers"
        if progress.is_stopping:
            who = f"{counted(progress.workers, 'worker')} stopping"
        bar.show(most - progress.left, f"{progress.left:,} left, {who}", most or None)

    return show


def _print(summaries: list[WorkerSummary]) -> None:
    columns = ("worker", "host", "finished", "failed", "restarts", "time")
    rows = [
        (each.worker, each.host, each.finished, each.failed, each.restarts, duration(each.seconds))
        for each in summaries
    ]
    print_table(columns, rows, empty="no workers")


def _listed(given: tuple[str, ...]) -> list[str]:
    """An option of Spark takes several with commas between them."""
    return [part for text in given for part in text.split(",") if part]


def _settings(given: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE, as spark.executor.memory=2g.")
        settings[name] = value
    return settings
