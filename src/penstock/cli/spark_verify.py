"""`penstock spark verify`: whether a lake is whole."""

from __future__ import annotations

import click

from penstock.cli.options import errors_reported, examples, json_option
from penstock.cli.progress import ProgressBar
from penstock.cli.render import counted, print_json, print_table, say
from penstock.cli.spark_options import storage_option


@click.command(epilog=examples("penstock spark verify history/"))
@click.argument("lake")
@storage_option
@json_option
def verify(lake: str, storage: dict[str, str], is_json: bool) -> None:
    """Read every file of a lake, and compare it with the lake's log.

    Exit status 1 if one is missing, broken, or has other rows. LAKE is what `penstock spark
    archive` has filled. No Spark is started.
    """
    with errors_reported(is_json):
        from penstock.spark.verification import verify as read_all  # noqa: PLC0415 - optional

        with ProgressBar(None) as bar:
            done = read_all(
                lake,
                storage_options=storage,
                progress=lambda read, total: bar.show(read, f"{read:,} of {total:,} files", total),
            )
        if is_json:
            print_json(
                {
                    "is_whole": not done.findings,
                    "files": done.files,
                    "rows": done.rows,
                    "findings": [finding._asdict() for finding in done.findings],
                }
            )
        else:
            if done.findings:
                print_table(("table", "file", "what is wrong"), done.findings, empty="")
                click.echo()
            wrong = f"{counted(len(done.findings), 'file')} wrong" if done.findings else "all whole"
            say(f"{counted(done.files, 'file')}, {counted(done.rows, 'row')}: {wrong}")
        if done.findings:
            raise click.exceptions.Exit(1)
