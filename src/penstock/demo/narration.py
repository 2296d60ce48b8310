"""What both acts print: lines with the time at which something happened, and a table at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rich.console import Console

_SPEAK_EVERY_S = 3.0


class Narrator:
    """Says what happens, each time with the seconds since it began."""

    def __init__(self, console: Console, is_silent: bool = False) -> None:
        self._console = console
        self._is_silent = is_silent
        self._began_at = time.monotonic()
        self._spoke_at = self._began_at

    def say(self, text: str) -> None:
        self._spoke_at = time.monotonic()
        if not self._is_silent:
            self._console.print(self.timed(text))

    def say_sometimes(self, text: str) -> None:
        """Say it if nothing was said for some seconds: for what changes many times a second."""
        if time.monotonic() - self._spoke_at > _SPEAK_EVERY_S:
            self.say(text)

    def timed(self, text: str) -> str:
        return f"{time.monotonic() - self._began_at:5.1f} s  {text}"


def print_totals(
    console: Console,
    totals: Mapping[str, str],
    disagreements: Sequence[str],
    agreement: str,
    bad: Collection[str] = (),
) -> None:
    """The final table, and what is wrong if anything is; else the `agreement`."""
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in totals.items():
        table.add_row(name, Text(value, style="bold red" if name in bad else "bold"))
    console.print(table)
    for disagreement in disagreements:
        console.print(Text(f"wrong: {disagreement}", style="bold red"))
    if not disagreements:
        console.print(Text(agreement, style="green"))
