"""`penstock bench`."""

from __future__ import annotations

import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.bench.environment import prepared_environment
from penstock.bench.figures import count_steps, measure_all
from penstock.bench.report import print_results
from penstock.bench.sizes import choose_sizes
from penstock.client.connect import read_url
from penstock.connection.address import SEEN_PASSWORD, shows_password
from penstock.connection.wire import ConnectionLost
from penstock.errors import BenchFailed, PenstockError

if TYPE_CHECKING:
    from penstock.bench.figures import Results
    from penstock.bench.sizes import Sizes


@click.command()
@click.option("--quick", "is_quick", is_flag=True, help="Smaller sizes, for a first look.")
@click.option("--rounds", type=click.IntRange(1, 99), default=3, show_default=True)
@click.option("--url", metavar="URL", help="Measure this server instead of a private one.")
@click.option(
    "--url-file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with the URL, for one with a password.",
)
@click.option("--json", "is_json", is_flag=True, help="Print JSON.")
@click.option("--scale", type=click.FloatRange(0, 1, min_open=True), default=1.0, hidden=True)
def bench(
    is_quick: bool,
    rounds: int,
    url: str | None,
    url_file: Path | None,
    is_json: bool,
    scale: float,
) -> None:
    """Measure penstock here, beside the raw limits.

    Everything happens on a private Redis with AOF, in a temporary folder. With --url it happens in
    a namespace of its own, which is emptied afterwards; memory is right only if nothing else uses
    that server meanwhile.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As Ctrl-C does, so that the server and the workers are ended in every case.
        signal.signal(number, signal.default_int_handler)
    if url is not None and shows_password(url):
        click.echo(f"penstock: {SEEN_PASSWORD}", err=True)
    try:
        if url_file is not None:
            url = read_url(url_file, "--url-file")
        results = _measure(choose_sizes(is_quick, scale), rounds, url)
    except PenstockError as error:
        if is_json:
            click.echo(json.dumps({"error": {"code": error.code, "message": str(error)}}))
        else:
            click.echo(f"penstock: {error}", err=True)
        raise click.exceptions.Exit(1) from error
    except KeyboardInterrupt as error:
        raise click.exceptions.Exit(130) from error
    if is_json:
        click.echo(json.dumps(asdict(results), indent=2))
    else:
        is_terminal = sys.stdout.isatty()
        console = Console(highlight=False, markup=False, width=None if is_terminal else 120)
        print_results(console, results)


def _measure(sizes: Sizes, rounds: int, url: str | None) -> Results:
    # On stderr, so that it never mixes with the results; silent if stderr is no terminal.
    columns = (TextColumn("measuring"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with (
        Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar,
        prepared_environment(url) as environment,
    ):
        step = bar.add_task("", total=count_steps(sizes, rounds))
        try:
            return measure_all(environment, sizes, rounds, lambda: bar.advance(step))
        except ConnectionLost as error:
            raise BenchFailed(
                f"the server at {environment.client.settings.address} went away ({error}); "
                "start again"
            ) from error
