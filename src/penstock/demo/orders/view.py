"""What people see of the pipeline: one line for each event, and how far the present step is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn

from penstock.demo.narration import Narrator, print_totals

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.demo.orders.outcome import Outcome


class Steps:
    """Lines, with a bar below them on a terminal; elsewhere a line every few seconds instead."""

    def __init__(self, console: Console, is_silent: bool = False) -> None:
        self._console = console
        self._narrator = Narrator(console, is_silent)
        columns = (BarColumn(40), TextColumn("{task.description}"))
        self._bar = Progress(*columns, console=console, transient=True)
        self._step = self._bar.add_task("", visible=False)

    def tell(self, event: str) -> None:
        """Something happened; what was in progress is over."""
        self._bar.update(self._step, visible=False)
        self._narrator.say(event)

    def begin(self, step: str) -> None:
        """A step has begun that does not report how far it is."""
        if self._console.is_terminal:
            self._bar.update(self._step, completed=0, total=None, description=step, visible=True)
        else:
            self._narrator.say(f"{step} ...")

    def show(self, what: str, done: int, total: int) -> None:
        """So much of a step is done; called many times a second."""
        text = f"{done:,} of {total:,} {what}"
        if self._console.is_terminal:
            self._bar.update(
                self._step, completed=done, total=total, description=text, visible=True
            )
        else:
            self._narrator.say_sometimes(text)

    def __enter__(self) -> Steps:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._bar.stop()


def print_outcome(console: Console, outcome: Outcome) -> None:
    """The final table, what is wrong if anything is, and where to read on."""
    counts = {
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
    print_totals(
        console,
        {name: f"{count:,}" for name, count in counts.items()}
        | {"seconds in all": f"{outcome.seconds:.1f}"},
        outcome.disagreements,
        "every order has one job that ended, and every count agrees",
    )
    console.print(f"the lake    {outcome.lake}", soft_wrap=True)
    console.print(f"the report  {outcome.report}", soft_wrap=True)
