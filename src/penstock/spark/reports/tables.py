"""Tables of a page, in which a cell can be a bar or the percentiles of something.

So every number of a chart can be read as well as seen, and long names have room to wrap.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from penstock.spark.reports.units import duration

if TYPE_CHECKING:
    from collections.abc import Sequence


_TIMES_S = (1e-4, 1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400, 864_000, 8_640_000)


class Column(NamedTuple):
    """A heading; what is minor is left out on narrow screens."""

    name: str
    kind: str = "number"
    """number, text or drawn"""
    is_minor: bool = False


class Name(NamedTuple):
    """A text with a smaller one below it."""

    text: str
    small: str = ""


class Bar(NamedTuple):
    """As long as its part of the longest one."""

    value: float
    css: str = "a"


class Spread(NamedTuple):
    """Three percentiles of something, in seconds."""

    p50: float
    p95: float
    p99: float


Cell = str | Name | Bar | Spread


class Row(NamedTuple):
    cells: Sequence[Cell]
    hint: str
    """what is said to a reader who points at the row"""


def table(columns: Sequence[Column], rows: Sequence[Row], label: str) -> str:
    most = max(
        (cell.value for row in rows for cell in row.cells if isinstance(cell, Bar)), default=0
    )
    scale = _Scale([cell for row in rows for cell in row.cells if isinstance(cell, Spread)])
    head = "".join(
        f'<th scope="col"{_css(column)}>{scale.labels() if is_drawn else escape(column.name)}</th>'
        for column in columns
        for is_drawn in (scale.is_used and column.kind == "drawn",)
    )
    body = "".join(
        f'<tr title="{escape(row.hint)}">'
        + "".join(
            f"<td{_css(column)}>{_drawn(cell, most, scale)}</td>"
            for column, cell in zip(columns, row.cells, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<table aria-label="{escape(label)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _minor(is_minor: bool) -> str:
    return ' class="minor"' if is_minor else ""


def _css(column: Column) -> str:
    return f' class="{column.kind}{" minor" if column.is_minor else ""}"'


def _drawn(cell: Cell, most: float, scale: _Scale) -> str:
    if isinstance(cell, Name):
        small = f"<small>{_breakable(cell.small)}</small>" if cell.small else ""
        return f"{_breakable(cell.text)}{small}"
    if isinstance(cell, Bar):
        width = cell.value / most if most else 0.0
        return f'<div class="bar {cell.css}" style="width:{width:.2%}"></div>'
    if isinstance(cell, Spread):
        return scale.drawn(cell)
    return escape(cell)


def _breakable(text: str) -> str:
    """A long name is broken where its parts end, and nowhere else if that is enough."""
    return escape(text).replace(".", ".<wbr>").replace("_", "_<wbr>")


class _Scale:
    """A logarithmic scale of time, for all spreads of a table."""

    def __init__(self, spreads: Sequence[Spread]) -> None:
        self.is_used = bool(spreads)
        values = [value for one in spreads for value in (one.p50, one.p99)] or [1.0]
        low = max((time for time in _TIMES_S if time <= min(values)), default=_TIMES_S[0])
        high = min((time for time in _TIMES_S[1:] if time >= max(values)), default=_TIMES_S[-1])
        self._ticks = [time for time in _TIMES_S if low <= time <= max(high, low * 10)]
        self._low, self._span = math.log(low), math.log(self._ticks[-1]) - math.log(low)

    def labels(self) -> str:
        """What stands above the column; every second time if there are many."""
        shown = self._ticks[:: 1 if len(self._ticks) <= 4 else 2]
        texts = "".join(
            f'<span{_minor(time not in (shown[0], shown[-1]))} style="left:{self._part(time):.2%}">'
            f"{duration(time)}</span>"
            for time in shown
        )
        return f'<div class="scale">{texts}</div>'

    def drawn(self, spread: Spread) -> str:
        p50, p95, p99 = (self._part(value) for value in spread)
        rules = "".join(
            f'<i class="rule" style="left:{self._part(time):.2%}"></i>' for time in self._ticks
        )
        return (
            f'<div class="spread">{rules}'
            f'<i class="whisker" style="left:{p50:.2%};width:{p99 - p50:.2%}"></i>'
            f'<i class="box" style="left:{p50:.2%};width:{p95 - p50:.2%}"></i>'
            f'<i class="dot" style="left:{p50:.2%}"></i></div>'
        )

    def _part(self, seconds: float) -> float:
        times = self._ticks
        return (math.log(min(max(seconds, times[0]), times[-1])) - self._low) / self._span
