"""Charts as SVG, without a library: each is one text that a page can hold.

Colours are classes that the page defines for light and dark. Everything that a reader points at
has a title with its value.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from penstock.spark.reports.units import duration, instant, number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDTH = 880
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 12, 26
_NAME = 250
_ROW = 28
_TIME_TICKS_S = (60, 300, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800)
_MOST_TIME_TICKS = 9
_DAY_S = 86_400


class Series(NamedTuple):
    """Values over time under one name; `css` is the class that colours it."""

    name: str
    css: str
    values: Sequence[float]


class Bar(NamedTuple):
    """A name, a length, and what stands beside it."""

    name: str
    value: float
    label: str
    hint: str
    css: str = "a"


class Spread(NamedTuple):
    """Three percentiles of something, in seconds."""

    name: str
    p50: float
    p95: float
    p99: float
    hint: str


def stacked_bars(
    times: Sequence[datetime], step: timedelta, series: Sequence[Series], unit: str
) -> str:
    """Counts in each step of time, one above the other."""
    height = 240
    totals = [sum(column) for column in zip(*(one.values for one in series), strict=True)]
    top = _nice_top(max(totals, default=0))
    x, y = _time_scale(times[0], times[-1] + step), _scale(0, top, height - _BOTTOM, _TOP)
    parts = [_grid(top, y), _time_axis(times[0], times[-1] + step, x, height)]
    for index, at in enumerate(times):
        left, right = x(at), x(at + step)
        below = 0.0
        for one in series:
            value = one.values[index]
            if value:
                upper, lower = y(below + value), y(below)
                parts.append(
                    f'<rect class="{one.css}" x="{left:.1f}" y="{upper:.1f}" '
                    f'width="{max(right - left - 1, 0.6):.1f}" height="{lower - upper:.1f}"/>'
                )
            below += value
        said = ", ".join(f"{number(one.values[index])} {one.name}" for one in series)
        parts.append(_target(left, right - left, height, f"{instant(at)}: {said} {unit}"))
    return _svg(height, parts, f"{unit} over time")


def lines(times: Sequence[datetime], series: Sequence[Series], unit: str) -> str:
    """Values over time, beside each other."""
    height = 240
    least = min((value for one in series for value in one.values), default=0)
    top = _nice_top(max((value for one in series for value in one.values), default=0))
    bottom = -_nice_top(-least) if least < 0 else 0.0
    last = times[-1] if len(times) > 1 else times[0] + timedelta(minutes=1)
    x, y = _time_scale(times[0], last), _scale(bottom, top, height - _BOTTOM, _TOP)
    parts = [_grid(top, y, bottom), _time_axis(times[0], last, x, height)]
    for one in series:
        points = " ".join(
            f"{x(at):.1f},{y(value):.1f}" for at, value in zip(times, one.values, strict=True)
        )
        parts.append(f'<polyline class="line {one.css}" points="{points}"/>')
    width = (WIDTH - _LEFT - _RIGHT) / max(len(times), 1)
    for index, at in enumerate(times):
        said = ", ".join(f"{one.name} {number(one.values[index])}" for one in series)
        parts.append(_target(x(at) - width / 2, width, height, f"{instant(at)}: {said} {unit}"))
    return _svg(height, parts, f"{unit} over time")


def bars(rows: Sequence[Bar]) -> str:
    """Names below each other, each with a bar."""
    height = _ROW * len(rows) + 4
    most = max((row.value for row in rows), default=0) or 1
    room = WIDTH - _NAME - 190
    parts = []
    for index, row in enumerate(rows):
        y = index * _ROW + 4
        length = max(room * row.value / most, 1.5)
        parts.append(
            f"<g><title>{escape(row.hint)}</title>"
            f'<rect class="hit" x="0" y="{y - 2}" width="{WIDTH}" height="{_ROW}"/>'
            f"{_name(row.name, y)}"
            f'<rect class="{row.css}" x="{_NAME}" y="{y + 3}" width="{length:.1f}" height="16" '
            f'rx="2"/><text x="{_NAME + length + 8:.1f}" y="{y + 16}">{escape(row.label)}</text>'
            "</g>"
        )
    return _svg(height, parts, "bars")


def spreads(rows: Sequence[Spread]) -> str:
    """Percentiles on a logarithmic scale of time: a dot at the middle, a bar to p95, a line to
    p99.
    """
    values = [value for row in rows for value in (row.p50, row.p99) if value > 0] or [1.0]
    low = math.floor(math.log10(max(min(values), 1e-4)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    height = _ROW * len(rows) + 30

    def x(seconds: float) -> float:
        part = (math.log10(max(seconds, 10.0**low)) - low) / (high - low)
        return _NAME + part * (WIDTH - _NAME - 30)

    parts = []
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(_line("grid", (at, at), (0, height - 22)))
        parts.append(_tick(at, height - 6, "middle", duration(10.0**power)))
    for index, row in enumerate(rows):
        y = index * _ROW + 4
        middle = y + 11
        parts.append(
            f"<g><title>{escape(row.hint)}</title>"
            f'<rect class="hit" x="0" y="{y - 2}" width="{WIDTH}" height="{_ROW}"/>'
            f"{_name(row.name, y)}"
            f"{_line('whisker', (x(row.p50), x(row.p99)), (middle, middle))}"
            f'<rect class="a soft" x="{x(row.p50):.1f}" y="{middle - 5}" '
            f'width="{max(x(row.p95) - x(row.p50), 1):.1f}" height="10" rx="2"/>'
            f'<circle class="a" cx="{x(row.p50):.1f}" cy="{middle}" r="5"/></g>'
        )
    return _svg(height, parts, "percentiles")


def _svg(height: float, parts: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def _line(css: str, x: tuple[float, float], y: tuple[float, float]) -> str:
    ends = f'x1="{x[0]:.1f}" x2="{x[1]:.1f}" y1="{y[0]:.1f}" y2="{y[1]:.1f}"'
    return f'<line class="{css}" {ends}/>'


def _tick(x: float, y: float, anchor: str, text: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _name(name: str, y: float) -> str:
    shown = name if len(name) <= 38 else f"{name[:37]}…"
    place = f'x="{_NAME - 10}" y="{y + 16}" text-anchor="end"'
    return f'<text class="name" {place}>{escape(shown)}</text>'


def _target(x: float, width: float, height: float, title: str) -> str:
    """What can be pointed at: the whole height, also above a short bar."""
    return (
        f'<rect class="hit" x="{x:.1f}" y="{_TOP}" width="{width:.1f}" '
        f'height="{height - _TOP - _BOTTOM}"><title>{escape(title)}</title></rect>'
    )


def _scale(low: float, high: float, from_: float, to: float) -> Callable[[float], float]:
    return lambda value: from_ + (to - from_) * (value - low) / ((high - low) or 1)


def _time_scale(first: datetime, last: datetime) -> Callable[[datetime], float]:
    scale = _scale(first.timestamp(), last.timestamp(), _LEFT, WIDTH - _RIGHT)
    return lambda at: scale(at.timestamp())


def _nice_top(value: float) -> float:
    """The next number of the form 1, 2, 2.5 or 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 2.5, 4, 5, 8, 10) if factor * power >= value)


def _grid(top: float, y: Callable[[float], float], bottom: float = 0.0) -> str:
    values = [bottom + (top - bottom) * part / 4 for part in range(5)]
    return "".join(
        _line("grid", (_LEFT, WIDTH - _RIGHT), (y(value), y(value)))
        + _tick(_LEFT - 8, y(value) + 4, "end", number(value))
        for value in values
    )


def _time_axis(
    first: datetime, last: datetime, x: Callable[[datetime], float], height: float
) -> str:
    span = (last - first).total_seconds()
    tick = next((t for t in _TIME_TICKS_S if span / t <= _MOST_TIME_TICKS), 4 * _TIME_TICKS_S[-1])
    at = datetime.fromtimestamp(math.ceil(first.timestamp() / tick) * tick, UTC)
    parts = []
    day = None
    while at <= last:
        clock = "" if tick >= _DAY_S else f"{at:%H:%M}"
        date = f"{at:%d %b}" if at.date() != day else ""
        parts.append(_tick(x(at), height - 8, "middle", f"{date} {clock}".strip()))
        day = at.date()
        at += timedelta(seconds=tick)
    return "".join(parts)
