"""`penstock spark archive`: the history of queues, and logs, into a lake."""

from __future__ import annotations

import signal
from threading import Event
from typing import TYPE_CHECKING

import click

from penstock.cli.options import Target, examples, has_own_process, with_store
from penstock.cli.progress import ProgressBar
from penstock.cli.render import counted, print_json, say, say_error
from penstock.cli.spark_options import SESSION_CONFIG, master_option, storage_option

if TYPE_CHECKING:
    from types import FrameType

    from penstock.spark.archiving import Archived

_INTERRUPTED = 130
_QUIET = {"spark.log.level": "FATAL"}  # why Spark gives up is said in one line


@click.command(
    epilog=examples(
        "penstock spark archive -q images --to history/ --once",
        "penstock spark archive --to history/",
        "penstock spark archive --log clicks --to lake/",
    )
)
@click.option(
    "-q",
    "--queue",
    "queues",
    metavar="QUEUE",
    multiple=True,
    help="Its history. Default: that of all there are, unless logs are named.",
)
@click.option("--log", "logs", metavar="LOG", multiple=True, help="Its messages.")
@click.option("--to", metavar="LAKE", required=True, help="A folder, or s3://bucket/history.")
@click.option("--once", is_flag=True, help="End when all that there is now is archived.")
@click.option("--checkpoint", metavar="FOLDER", help="What it knows. Default: in the lake.")
@click.option(
    "--reader",
    metavar="NAME",
    default="lake",
    show_default=True,
    help="The name for which Redis keeps all this until it is archived.",
)
@click.option("--skip-gap", is_flag=True, help="Go on where something is lost, and note the gap.")
@storage_option
@master_option
@with_store
def archive(
    at: Target,
    queues: tuple[str, ...],
    logs: tuple[str, ...],
    to: str,
    once: bool,
    checkpoint: str | None,
    reader: str,
    skip_gap: bool,
    storage: dict[str, str],
    master: str | None,
) -> None:
    """Put the history of queues of jobs, and the messages of logs, into a lake.

    It goes on until Ctrl-C or SIGTERM, unless --once is given. It can be killed at any moment and
    started again: nothing is lost, and nothing is there twice. How much is in queues of any kind
    is counted on the way.
    """
    import penstock.spark  # noqa: PLC0415 - optional

    stop = Event()
    with ProgressBar(None) as bar:
        bar.show(0, "Spark starts")

        def show(done: Archived) -> None:
            bar.show(0, f"{' and '.join(_totals(done, queues, logs))} archived")

        spark = penstock.spark.session(master, "penstock", SESSION_CONFIG | _QUIET)
        if has_own_process():
            _stop_on_signals(stop)  # after the session is there, as PySpark takes SIGINT too
        done = penstock.spark.archive(
            queues,
            to,
            logs=logs,
            once=once,
            checkpoint=checkpoint,
            reader=reader,
            skip_gap=skip_gap,
            url=at.place(),
            namespace=at.settings().namespace,
            spark=spark,
            storage_options=storage,
            progress=show,
            stop=stop,
        )
    _tell(at, to, done, _totals(done, queues, logs))
    if once and stop.is_set():
        say_error("interrupted before all was archived; another run goes on from there")
        raise click.exceptions.Exit(_INTERRUPTED)


def _totals(done: Archived, queues: tuple[str, ...], logs: tuple[str, ...]) -> list[str]:
    """How much there is of what was asked for."""
    totals = []
    if queues or not logs:
        totals.append(counted(sum(done.rows.values()), "attempt"))
    if logs:
        totals.append(counted(sum(done.messages.values()), "message"))
    return totals


def _tell(at: Target, to: str, done: Archived, totals: list[str]) -> None:
    if at.is_json:
        rows = {"attempts": done.rows, "messages": done.messages}
        print_json({"lake": to, **rows, "gaps": done.gaps, "absent": done.absent})
        return
    for title in done.absent:
        say_error(f"there was no {title} yet")
    for name in done.gaps:
        say(f"some of '{name}' was gone before; the table `gaps` of the lake says what")
    found = [*sorted(done.rows.items()), *sorted(done.messages.items())]
    parts = ", ".join(f"{rows:,} of '{name}'" for name, rows in found)
    say(f"archived {' and '.join(totals)} in {to}" + (f": {parts}" if parts else ""))


def _stop_on_signals(stop: Event) -> None:
    """The first signal ends the archive in order, a second one at once."""

    def note(_: int, __: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
