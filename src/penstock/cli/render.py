"""What people and programs get to see. Tasks, names and replies are untrusted: nothing of them
reaches a terminal as a control sequence or as rich markup.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import unicodedata
from datetime import datetime
from typing import TYPE_CHECKING

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

Cell = str | int | Text

TASK_CHARACTERS = 200
"""How much of a task people are shown; `--json` has all of it."""

_STYLES = {
    **dict.fromkeys(("ok", "alive", "open", "running", "repaired", "done"), "green"),
    **dict.fromkeys(("warning", "paused", "lapsed", "repairable", "cancelled"), "yellow"),
    **dict.fromkeys(("problem", "failed", "left", "stopped", "dead"), "red"),
}
_ANY_WIDTH = 10_000
_WHOLE = ("id", "next")
_GAP = 3  # between two columns
_LEAST_TEXT = 8
_SHORT_NAME = 4
# Controls, invisible and direction-changing characters, lone surrogates, line separators.
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(value: str | bytes) -> str:
    """The text with everything escaped that could move the cursor or hide other text."""
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else value
    return "".join(
        c.encode("unicode_escape").decode() if unicodedata.category(c) in _UNSEEN else c
        for c in text
    )


def shortened(task: bytes, characters: int = TASK_CHARACTERS) -> str:
    """A task for people: printable, and not longer than they can take in."""
    text = printable(task[: 4 * characters])
    is_whole = len(task) <= 4 * characters and len(text) <= characters
    return text if is_whole else f"{text[:characters]}…"


def json_bytes(value: bytes) -> str | dict[str, str]:
    """Text if the bytes are UTF-8, else {"base64": ...}; so each task has one form."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def print_json(document: object) -> None:
    """One document. ASCII only, so that it is harmless on a terminal too."""
    click.echo(json.dumps(document, indent=2))


def print_json_line(document: object) -> None:
    """One of a stream of documents."""
    click.echo(json.dumps(document))


def print_table(columns: Sequence[str], all_rows: Iterable[Sequence[Cell]], empty: str) -> None:
    """Rows for people; numbers to the right. A column named `state` or `level` is coloured, one
    named `data` gets what room is left.

    On a narrow terminal text is broken first, then names of columns. Numbers, and columns named
    `id` or `next`, are never broken or cut: rows that are still too long go on below.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    table.expand = "data" in columns and terminal().width < _ANY_WIDTH
    rows = list(all_rows)
    if not rows:
        say(empty)
        return
    least = [_least_width(column, [row[at] for row in rows]) for at, column in enumerate(columns)]
    gaps = _GAP * (len(columns) - 1)
    is_tight = sum(map(max, least, map(len, columns))) + gaps > terminal().width
    if sum(least) + gaps > terminal().width:
        table.width = sum(least) + gaps
    most = _most_widths(columns, rows, least) if "data" in columns else {}
    for index, column in enumerate(columns):
        is_number = all(isinstance(row[index], int) for row in rows)
        is_whole = is_number or column in _WHOLE
        table.add_column(
            Text(column, overflow="fold", no_wrap=False) if is_tight else column,
            justify="right" if is_number else "left",
            overflow="ellipsis" if column == "data" else "fold",
            no_wrap=is_whole or column == "data",
            ratio=1 if column == "data" else None,
            min_width=least[index],
            max_width=least[index] if is_tight and is_whole else most.get(column),
        )
    for row in rows:
        table.add_row(*map(_text, row))
    _show(table)


def _least_width(column: str, cells: Sequence[Cell]) -> int:
    longest = max(cell_len(line) for cell in cells for line in _text(cell).plain.split("\n"))
    is_whole = column in _WHOLE or all(isinstance(cell, int) for cell in cells)
    return max(longest if is_whole else min(longest, _LEAST_TEXT), min(len(column), _SHORT_NAME))


def _most_widths(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], least: Sequence[int]
) -> dict[str, int]:
    """How wide texts may be so that the least of `data` has room beside them. The library that
    draws the table gives `data` what is left, even if that is nothing.
    """
    widths = {
        column: max(cell_len(column), *(cell_len(_text(row[at]).plain) for row in rows))
        for at, column in enumerate(columns)
    }
    widths["data"] = least[columns.index("data")]
    excess = sum(widths.values()) + _GAP * (len(columns) - 1) - terminal().width
    texts = {
        column: least[at]
        for at, column in enumerate(columns)
        if column not in (*_WHOLE, "data") and not isinstance(rows[0][at], int)
    }
    most: dict[str, int] = {}
    for _ in range(excess if texts else 0):
        widest = max(texts, key=lambda column: widths[column] - texts[column])
        if widths[widest] <= texts[widest]:
            break
        widths[widest] -= 1
        most[widest] = widths[widest]
    return most


def print_facts(title: str, facts: Iterable[tuple[str, Cell]]) -> None:
    """Names and values of one thing, one below the other."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(Text(f"  {name}"), _text(value))
    _show(Group(Text(printable(title), style="bold"), table))


def print_lines(title: str, lines: Iterable[str]) -> None:
    """Text of several lines, such as a traceback, below a title."""
    below = (Padding(Text(printable(line)), (0, 0, 0, 2), expand=False) for line in lines)
    _show(Group(Text(printable(title), style="bold"), *below))


def say(message: str) -> None:
    """One line for people."""
    _show(Text(printable(message)))


def say_error(message: str) -> None:
    """A line on stderr. Line breaks stay: the log of a server that failed has several lines."""
    lines = (printable(line) for line in message.split("\n"))
    click.echo("penstock: " + "\n".join(lines), err=True)


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def size(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(seconds: float) -> str:
    """The two largest units, as in `3 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if hours < 1:
        return f"{minutes} min {seconds % 60:.0f} s"
    return f"{hours} h {minutes % 60} min" if days < 1 else f"{days} d {hours % 24} h"


def instant(at: float) -> str:
    """A time on the clock of this machine, with its offset from UTC."""
    return datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds")


def terminal(is_error: bool = False) -> Console:
    """The terminal that people read. A pipe gets whole text lines, however long they are."""
    stream = sys.stderr if is_error else sys.stdout
    is_free = not stream.isatty() and "COLUMNS" not in os.environ
    return Console(
        file=stream,
        width=_ANY_WIDTH if is_free else None,
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def _text(value: Cell) -> Text:
    if isinstance(value, Text):
        return value
    if isinstance(value, int):
        return Text(f"{value:,}", style="" if value else "dim")
    return Text(printable(value), style=_STYLES.get(value, ""))


def _show(content: RenderableType) -> None:
    # What is too long for the terminal is broken there, where cropping would lose it.
    terminal().print(content, crop=False)
