"""`penstock demo`."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from penstock.client.embedded import EmbeddedServer
from penstock.demo.interruption import Interruption
from penstock.demo.stage import Stage
from penstock.demo.story import tell_story
from penstock.demo.view import Lines, Picture, View, print_outcome
from penstock.errors import PenstockError
from penstock.model.workers import LEASE_MS

if TYPE_CHECKING:
    from penstock.demo.outcome import Outcome


@click.command()
@click.option("--tasks", metavar="N", type=click.IntRange(100), default=20_000, show_default=True)
@click.option("--workers", metavar="N", type=click.IntRange(3, 50), default=3, show_default=True)
@click.option("--lease-ms", type=click.IntRange(300), default=LEASE_MS, hidden=True)
@click.option("--json", "is_json", is_flag=True, help="Print the final table as JSON.")
def demo(tasks: int, workers: int, lease_ms: int, is_json: bool) -> None:
    """Kill a worker, freeze another, and show that no task is lost.

    Runs on a private Redis of its own in a temporary folder; nothing is left behind. Exit status 0
    if every accepted task was run and all counts agree, 1 if not.
    """
    try:
        with Interruption() as interruption:
            outcome = _play(interruption, tasks, workers, lease_ms, _view(is_json))
    except PenstockError as error:
        _report(error, is_json)
        raise click.exceptions.Exit(1) from error
    except KeyboardInterrupt as error:
        raise click.exceptions.Exit(130) from error
    if is_json:
        click.echo(json.dumps({**asdict(outcome), "disagreements": list(outcome.disagreements)}))
    else:
        print_outcome(_console(), outcome)
    raise click.exceptions.Exit(outcome.exit_status)


def _play(
    interruption: Interruption, tasks: int, workers: int, lease_ms: int, view: View
) -> Outcome:
    """Everything that was started is ended, also when this is interrupted."""
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as name:
        folder = Path(name)
        server = EmbeddedServer(folder / "redis")
        try:
            with view:
                url = server.start().url
                stage = Stage(url, tasks, workers, lease_ms, folder, view)
                try:
                    with interruption.put_off():
                        stage.start_workers()
                    return tell_story(stage)
                finally:
                    with interruption.put_off():
                        stage.close()
        finally:
            with interruption.put_off():
                server.stop()


def _view(is_json: bool) -> View:
    console = _console(is_error=is_json)
    if console.is_terminal:
        return Picture(console)
    # Programs that ask for JSON want nothing else.
    return Lines(console, is_silent=is_json)


def _console(is_error: bool = False) -> Console:
    stream = sys.stderr if is_error else sys.stdout
    width = None if stream.isatty() else 200
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def _report(error: PenstockError, is_json: bool) -> None:
    if is_json:
        click.echo(json.dumps({"error": {"code": error.code, "message": str(error)}}))
    else:
        click.echo(f"penstock: {error}", err=True)
