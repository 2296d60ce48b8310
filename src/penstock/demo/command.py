"""`penstock demo`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from penstock.demo import act, view
from penstock.demo.clicks import act as clicks_act
from penstock.demo.clicks import view as clicks_view
from penstock.demo.interruption import Interruption
from penstock.demo.orders import view as orders_view
from penstock.errors import JavaNotFound, PenstockError, ServerNotFound, SparkNotFound
from penstock.model.workers import LEASE_MS

if TYPE_CHECKING:
    from penstock.demo.clicks.outcome import Outcome as LogOutcome
    from penstock.demo.orders.outcome import Outcome as PipelineOutcome
    from penstock.demo.outcome import Outcome as QueueOutcome


@click.command()
@click.option("--only", type=click.Choice(["queue", "log", "pipeline"]), help="Play one act alone.")
@click.option("--tasks", metavar="N", type=click.IntRange(100), default=20_000, show_default=True)
@click.option("--workers", metavar="N", type=click.IntRange(3, 50), default=3, show_default=True)
@click.option(
    "--orders",
    metavar="N",
    type=click.IntRange(100, 1_000_000),
    default=50_000,
    show_default=True,
)
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="For orders, lake and report of the pipeline. Default: a temporary one.",
)
@click.option("--lease-ms", type=click.IntRange(300), default=LEASE_MS, hidden=True)
@click.option("--json", "is_json", is_flag=True, help="Print the final tables as JSON.")
def demo(
    only: str | None,
    tasks: int,
    workers: int,
    orders: int,
    folder: Path | None,
    lease_ms: int,
    is_json: bool,
) -> None:
    """Kill a worker, freeze another, and show that no task is lost.

    Then a log, with PySpark, whose package has a ZooKeeper in it: of three workers that share its
    partitions one is killed and one frozen, and so is the leader of three ZooKeepers killed; no
    message is skipped.

    Then, with PySpark, a pipeline: orders in files become jobs, workers here and on Spark charge
    them, the results are joined back, and the history becomes a lake and a report.

    Each act has a private Redis of its own in a temporary folder; nothing is left behind but the
    orders, the lake and the report. Exit status 0 if all was done and all counts agree, 1 if not.
    """
    show = _Show(is_json)
    try:
        with Interruption() as interruption:
            if only in (None, "queue"):
                show.announce("A queue: one worker is killed, another is frozen")
                show.queue(act.play(interruption, tasks, workers, lease_ms, show.queue_view()))
            if only in (None, "log"):
                show.announce("A log: two of three owners and the leader of ZooKeeper fail")
                try:
                    show.log(clicks_act.play(interruption, lease_ms, show.log_view()))
                except (ServerNotFound, JavaNotFound) as error:
                    if only is not None:
                        raise
                    show.leave_out(error)
            if only in (None, "pipeline"):
                show.announce("A pipeline: from files through workers and Spark to a report")
                try:
                    # Here, as PySpark may not be there.
                    from penstock.demo.orders.act import play  # noqa: PLC0415

                    steps = show.pipeline_view()
                    show.pipeline(play(interruption, orders, lease_ms, folder, steps))
                except (SparkNotFound, JavaNotFound) as error:
                    if only is not None:
                        raise
                    show.leave_out(error)
    except PenstockError as error:
        _report(error, is_json)
        raise click.exceptions.Exit(1) from error
    except KeyboardInterrupt as error:
        raise click.exceptions.Exit(130) from error
    show.end()
    raise click.exceptions.Exit(show.exit_status)


class _Show:
    """What is printed, for people at once and for programs in the end."""

    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json
        self._console = _console(is_error=is_json)
        self._ended: dict[str, QueueOutcome | LogOutcome | PipelineOutcome] = {}

    def announce(self, act: str) -> None:
        self._say(f"{act}\n")

    def queue_view(self) -> view.View:
        if self._console.is_terminal:
            return view.Picture(self._console)
        # Programs that ask for JSON want nothing else.
        return view.Lines(self._console, is_silent=self._is_json)

    def log_view(self) -> clicks_view.View:
        if self._console.is_terminal:
            return clicks_view.Picture(self._console)
        return clicks_view.Lines(self._console, is_silent=self._is_json)

    def pipeline_view(self) -> orders_view.Steps:
        is_silent = self._is_json and not self._console.is_terminal
        return orders_view.Steps(self._console, is_silent)

    def queue(self, outcome: QueueOutcome) -> None:
        self._ended["queue"] = outcome
        if not self._is_json:
            view.print_outcome(self._console, outcome)
            self._say("")

    def log(self, outcome: LogOutcome) -> None:
        self._ended["log"] = outcome
        if not self._is_json:
            clicks_view.print_outcome(self._console, outcome)
            self._say("")

    def pipeline(self, outcome: PipelineOutcome) -> None:
        self._ended["pipeline"] = outcome
        if not self._is_json:
            orders_view.print_outcome(self._console, outcome)

    def leave_out(self, error: PenstockError) -> None:
        self._say(f"left out: {error}\n")

    def end(self) -> None:
        if self._is_json:
            click.echo(json.dumps({act: asdict(ended) for act, ended in self._ended.items()}))

    @property
    def exit_status(self) -> int:
        return max(outcome.exit_status for outcome in self._ended.values())

    def _say(self, text: str) -> None:
        if not self._is_json:
            self._console.print(text, soft_wrap=True)


def _console(is_error: bool = False) -> Console:
    stream = sys.stderr if is_error else sys.stdout
    width = None if stream.isatty() else 200
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def _report(error: PenstockError, is_json: bool) -> None:
    if is_json:
        click.echo(json.dumps({"error": {"code": error.code, "message": str(error)}}))
    else:
        click.echo(f"penstock: {error}", err=True)
