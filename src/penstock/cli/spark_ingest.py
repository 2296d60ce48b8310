"""`penstock spark ingest`: sends the rows of any source that Spark reads to a queue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from penstock.cli.options import Target, examples, with_store
from penstock.cli.progress import ProgressBar
from penstock.cli.render import counted, print_json, print_table, say
from penstock.cli.spark_options import SESSION_CONFIG, master_option, pairs_option

if TYPE_CHECKING:
    from penstock.spark.ingest import Checked, Ingested


@click.command(
    epilog=examples(
        "penstock spark ingest orders/ --jobs orders --type bill --dry-run",
        "penstock spark ingest orders/ --jobs orders --type bill --set priority_column=urgency",
        "penstock spark ingest mails/ --format csv --option header=true --queue mail"
        " --select 'address AS payload'",
    )
)
@click.argument("source", required=False, default="")
@click.option("--jobs", metavar="QUEUE", help="Send jobs to this queue.")
@click.option("--type", "job_type", metavar="TYPE", help="The type of the jobs.")
@click.option("--queue", metavar="QUEUE", help="Send plain tasks to this queue.")
@click.option(
    "--format",
    "source_format",
    metavar="FORMAT",
    default="parquet",
    show_default=True,
    help="Any format that Spark reads.",
)
@pairs_option("--option", "read_options", help="How the source is read, as header=true.")
@pairs_option("--set", "write_options", help="How rows are sent, as priority_column=urgency.")
@click.option("--select", metavar="SQL", multiple=True, help="A column to send: 'price AS amount'.")
@click.option("--where", metavar="SQL", default="", help="Which rows to send: 'amount > 0'.")
@click.option("--bad-rows", metavar="FOLDER", help="For rows that cannot be sent, with the reason.")
@click.option("--checkpoint", metavar="FOLDER", help="What was sent. Default: your state folder.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent, and send nothing.")
@master_option
@with_store
def ingest(
    at: Target,
    source: str,
    jobs: str | None,
    job_type: str | None,
    queue: str | None,
    source_format: str,
    read_options: dict[str, str],
    write_options: dict[str, str],
    select: tuple[str, ...],
    where: str,
    bad_rows: str | None,
    checkpoint: str | None,
    dry_run: bool,
    master: str | None,
) -> None:
    """Send what Spark reads from SOURCE to a queue.

    Files are sent once: another run sends those that are new, and one that was interrupted goes on
    where it was. A row that cannot be sent ends the command, unless --bad-rows names a folder for
    such rows. --set takes the options with which Spark writes to a queue.
    """
    import penstock.spark  # noqa: PLC0415 - optional
    from penstock.spark.ingest import Source, check_rows  # noqa: PLC0415 - optional
    from penstock.spark.ingest import ingest as send  # noqa: PLC0415 - optional

    named = {"jobs": jobs, "type": job_type, "queue": queue, "bad_rows": bad_rows}
    target = {name: value for name, value in named.items() if value is not None} | write_options
    read = Source(source, source_format, read_options, select, where)
    url, namespace = at.place(), at.settings().namespace
    with ProgressBar(None) as bar:
        bar.show(0, "Spark starts")
        spark = penstock.spark.session(master, "penstock", SESSION_CONFIG)
        if dry_run:
            bar.show(0, "reading")
            _show_checked(at, check_rows(spark, read, target, url=url, namespace=namespace))
            return
        done = send(
            spark,
            read,
            target,
            url=url,
            namespace=namespace,
            checkpoint=checkpoint,
            on_progress=lambda rows: bar.show(0, f"{counted(rows, 'row')} read"),
        )
    _show(at, target, done)


def _show(at: Target, target: dict[str, str], done: Ingested) -> None:
    if at.is_json:
        print_json(done._asdict())
        return
    say(f"{counted(done.rows, 'row')} read and sent to {target.get('jobs') or target['queue']!r}")
    if done.checkpoint:
        say(f"what was sent is kept in {done.checkpoint}")


def _show_checked(at: Target, found: Checked) -> None:
    if at.is_json:
        print_json(json.loads(json.dumps(found._asdict(), default=str)))
        return
    if found.first:
        rows = [tuple(map(str, row.values())) for row in found.first]
        print_table(tuple(found.first[0]), rows, empty="")
    refused = sum(found.refused.values())
    say(f"{counted(found.rows - refused, 'row')} would be sent, {refused:,} refused")
    for reason, count in found.refused.items():
        say(f"  {count:,}: {reason}")
