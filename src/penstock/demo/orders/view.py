"""What people see of the pipeline: one line for each event, and how far the present step is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich import box
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import Console

    from penstock.demo.orders.outcome import Outcome

_SPEAK_EVERY_S = 3.0


class Steps:
    """Lines, with a bar below them on a terminal; elsewhere a line every few seconds instead."""

    def __init__(self, console: Console, is_silent: bool = False) -> None:
        self._console = console
        self._is_silent = is_silent
        self._began_at = time.monotonic()
        self._spoke_at = self._began_at
        columns = (BarColumn(40), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console, transient=True)
        self._step = self._bar.add_task("", visible=False)

    def tell(self, event: str) -> None:
        """Something happened; what was in progress is over."""
        self._bar.update(self._step, visible=False)
        self._say(event)

    def show(self, what: str, done: int, total: int) -> None:
        """So much of a step is done; called many times a second."""
        text = f"{done:,} of {total:,} {what}"
        if self._console.is_terminal:
            self._bar.update(
                self._step, completed=done, total=total, description=text, visible=True
            )
        elif time.monotonic() - self._spoke_at > _SPEAK_EVERY_S:
            self._say(text)

    def _say(self, text: str) -> None:
        self._spoke_at = time.monotonic()
        if not self._is_silent:
            self._console.print(f"{self._spoke_at - self._began_at:5.1f} s  {text}")

    def __enter__(self) -> Steps:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()


def print_outcome(console: Console, outcome: Outcome) -> None:
    """The final table, what is wrong if anything is, and where to read on."""
    rows = {
        "orders": outcome.orders,
        "paid": outcome.done,
        "paid after an attempt that failed": outcome.failed_before,
        "refused for good": outcome.dead,
        "letters about those": outcome.letters,
        "done by workers on Spark": outcome.on_spark,
        "attempts that the kill has cost": outcome.lost_attempts,
        "attempts in Redis": outcome.attempts,
        "attempts in the lake": outcome.archived,
    }
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in rows.items():
        table.add_row(name, Text(f"{value:,}", style="bold"))
    table.add_row("seconds in all", Text(f"{outcome.seconds:.1f}", style="bold"))
    console.print(table)
    for disagreement in outcome.disagreements:
        console.print(Text(f"wrong: {disagreement}", style="bold red"))
    if not outcome.disagreements:
        console.print(
            Text("every order has one job that ended, and every count agrees", style="green")
        )
    console.print(f"the lake    {outcome.lake}", soft_wrap=True)
    console.print(f"the report  {outcome.report}", soft_wrap=True)
