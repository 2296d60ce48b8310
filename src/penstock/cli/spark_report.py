"""`penstock spark report`: what a lake says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.options import errors_reported, examples, json_option, parse_instant
from penstock.cli.progress import ProgressBar
from penstock.cli.render import print_json, say
from penstock.cli.spark_options import SESSION_CONFIG, master_option, queues_option, storage_option

if TYPE_CHECKING:
    from datetime import datetime


@click.command(
    epilog=examples(
        "penstock spark report history/",
        "penstock spark report history/ --html report.html --parquet tables/",
        "penstock spark report history/ -q images --since 2030-01-31T08:00Z",
    )
)
@click.argument("lake")
@queues_option
@click.option(
    "--since",
    metavar="TIME",
    callback=lambda _, __, text: _instant(text),
    help="As 2030-01-31T08:00Z. Default: all there is.",
)
@click.option("--until", metavar="TIME", callback=lambda _, __, text: _instant(text))
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a page with charts.",
)
@click.option(
    "--parquet",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write each table as a Parquet file.",
)
@storage_option
@master_option
@json_option
def report(
    lake: str,
    queues: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    html: Path | None,
    parquet: Path | None,
    storage: dict[str, str],
    master: str | None,
    is_json: bool,
) -> None:
    """Say what happened, what it cost, and when the work will be done.

    LAKE is what `penstock spark archive` has filled.
    """
    with errors_reported(is_json):
        # Here, as PySpark may not be there.
        from penstock.cli.spark_tables import print_report, report_document  # noqa: PLC0415
        from penstock.spark import make_report, session  # noqa: PLC0415
        from penstock.spark.reports.page import render  # noqa: PLC0415
        from penstock.spark.reports.report import TABLES  # noqa: PLC0415

        with ProgressBar(len(TABLES)) as bar:
            bar.show(0, "Spark starts")
            made = make_report(
                lake,
                queues,
                since,
                until,
                spark=session(master, "penstock", SESSION_CONFIG),
                storage_options=storage,
                progress=lambda name: bar.show(TABLES.index(name), name),
            )
        if html is not None:
            html.write_text(render(made))
        if parquet is not None:
            made.write_parquet(parquet)
        if is_json:
            print_json(report_document(made))
            return
        print_report(made)
        for path in (html, parquet):
            if path is not None:
                say(f"wrote {path}")


def _instant(text: str | None) -> datetime | None:
    return None if text is None else parse_instant(text)
