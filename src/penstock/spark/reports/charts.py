"""Charts over time as HTML and SVG, without a library: each is one text that a page can hold.

The drawing is stretched to the width of the page, and the labels around it are text beside it, so
that these are as large on a phone as on a wide screen. Colours are classes that the page defines
for light and dark. Everything that a reader points at has a title with its value.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from penstock.spark.reports.units import instant, number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_WIDTH, _HEIGHT = 1000, 200
_GAP = 0.1
"""Which part of its step a bar leaves free."""
_TIME_TICKS_S = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
    *(86_400, 172_800, 345_600, 604_800, 1_209_600),
)
_MOST_TIME_TICKS = 8
_DAY_S = 86_400


class Series(NamedTuple):
    """Values over time under one name; `css` is the class that colours it."""

    name: str
    css: str
    values: Sequence[float]


def stacked_bars(
    times: Sequence[datetime], step: timedelta, series: Sequence[Series], unit: str
) -> str:
    """Counts in each step of time, one above the other."""
    totals = [sum(column) for column in zip(*(one.values for one in series), strict=True)]
    ticks = _ticks(0, max(totals, default=0))
    plot = _Plot(times[0], times[-1] + step, ticks, unit)
    parts = []
    for index, at in enumerate(times):
        left, width = plot.x(at), plot.x(at + step) - plot.x(at)
        below = 0.0
        for one in series:
            value = one.values[index]
            if value:
                upper, lower = plot.y(below + value), plot.y(below)
                parts.append(
                    f'<rect class="{one.css}" x="{left + _GAP * width / 2:.2f}" y="{upper:.2f}" '
                    f'width="{(1 - _GAP) * width:.2f}" height="{lower - upper:.2f}"/>'
                )
            below += value
        said = ", ".join(f"{number(one.values[index])} {one.name}" for one in series)
        moment = instant(at, step.total_seconds())
        parts.append(_target(left, width, f"{moment}: {said} {unit}"))
    summary = ", ".join(f"{number(sum(one.values))} {one.name}" for one in series)
    return plot.drawn(parts, f"{unit} over time, in all {summary}")


def lines(times: Sequence[datetime], step: timedelta, series: Sequence[Series], unit: str) -> str:
    """Values over time, beside each other; a single one is filled down to zero."""
    values = [value for one in series for value in one.values]
    ticks = _ticks(min(0.0, *values), max(0.0, *values))
    last = times[-1] if len(times) > 1 else times[0] + step
    plot = _Plot(times[0], last, ticks, unit)
    parts = []
    for one in series:
        points = [
            f"{plot.x(at):.2f},{plot.y(value):.2f}"
            for at, value in zip(times, one.values, strict=True)
        ]
        if len(series) == 1:
            zero = f"{plot.y(0):.2f}"
            corners = f"{plot.x(times[0]):.2f},{zero} {' '.join(points)} {plot.x(last):.2f},{zero}"
            parts.append(f'<polygon class="{one.css} area" points="{corners}"/>')
        # One point alone is a line without a length, of which the round ends are seen.
        drawn = points if len(points) > 1 else points * 2
        parts.append(f'<polyline class="line {one.css}" points="{" ".join(drawn)}"/>')
    width = _WIDTH / max(len(times), 1)
    for index, at in enumerate(times):
        said = ", ".join(f"{one.name} {number(one.values[index])}" for one in series)
        moment = instant(at, step.total_seconds())
        parts.append(_target(plot.x(at) - width / 2, width, f"{moment}: {said} {unit}"))
    summary = ", ".join(f"{one.name} at most {number(max(one.values))}" for one in series)
    return plot.drawn(parts, f"{unit} over time, {summary}")


class _Plot:
    """The frame of a chart: its scales, and what stands around it."""

    def __init__(self, first: datetime, last: datetime, ticks: Sequence[float], unit: str) -> None:
        self._first, self._last, self._ticks, self._unit = first, last, ticks, unit
        across = _scale(first.timestamp(), last.timestamp(), 0, _WIDTH)
        self.x: Callable[[datetime], float] = lambda at: across(at.timestamp())
        self.y = _scale(ticks[0], ticks[-1], _HEIGHT, 0)

    def drawn(self, parts: Sequence[str], label: str) -> str:
        grid = "".join(
            f'<line class="{"zero" if value == 0 else "grid"}" x1="0" x2="{_WIDTH}" '
            f'y1="{self.y(value):.2f}" y2="{self.y(value):.2f}"/>'
            for value in self._ticks
        )
        heights = "".join(
            f'<span style="top:{self.y(value) / _HEIGHT:.2%}">{number(value)}</span>'
            for value in self._ticks
        )
        return (
            f'<figure class="chart" role="img" aria-label="{escape(label)}">'
            f'<div class="y">{heights}</div>'
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">'
            f"{grid}{''.join(parts)}</svg>"
            f'<div class="x">{"".join(self._times())}</div></figure>'
        )

    def _times(self) -> Iterator[str]:
        for place, (at, text) in enumerate(_time_ticks(self._first, self._last)):
            part = self.x(at) / _WIDTH
            edge = " first" if part < 0.04 else " last" if part > 0.96 else ""
            css = f"{'even' if place % 2 == 0 else 'odd'}{edge}"
            yield f'<span class="{css}" style="left:{part:.2%}">{text}</span>'


def _time_ticks(first: datetime, last: datetime) -> Iterator[tuple[datetime, str]]:
    """Round times, and what each is called; a date only where it is not that of the one before."""
    span = (last - first).total_seconds()
    tick = next((t for t in _TIME_TICKS_S if span / t <= _MOST_TIME_TICKS), _TIME_TICKS_S[-1])
    at = datetime.fromtimestamp(math.ceil(first.timestamp() / tick) * tick, UTC)
    day = at.date() if first.astimezone(UTC).date() == last.astimezone(UTC).date() else None
    while at <= last:
        clock = f"{at:%H:%M:%S}" if tick < 60 else f"{at:%H:%M}"
        date = f"{at:%d %b}".removeprefix("0")
        yield at, date if tick >= _DAY_S or at.date() != day else clock
        day = at.date()
        at += timedelta(seconds=tick)


def _target(x: float, width: float, title: str) -> str:
    """What can be pointed at: the whole height, also above a short bar."""
    return (
        f'<rect class="hit" x="{x:.2f}" y="0" width="{width:.2f}" height="{_HEIGHT}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _scale(low: float, high: float, from_: float, to: float) -> Callable[[float], float]:
    return lambda value: from_ + (to - from_) * (value - low) / ((high - low) or 1)


def _ticks(low: float, high: float) -> list[float]:
    """From three to six round numbers around two; whole ones, as what is counted is whole."""
    span = max(high - low, 1.0)
    power = 10.0 ** math.floor(math.log10(span))
    steps = (factor * power / 10 for factor in (1, 2, 2.5, 5, 10, 20, 25, 50))
    step = next(step for step in steps if step >= 1 and step % 1 == 0 and span / step <= 5)
    below, above = math.floor(low / step), max(math.ceil(high / step), 1)
    return [step * place for place in range(below, above + 1)]
