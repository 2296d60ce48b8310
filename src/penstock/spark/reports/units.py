"""Numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_EXACT_S = 5 * _MINUTE
"""Shorter times have seconds."""


def number(value: float) -> str:
    """`1,234`, `12.3` or `0.04`: as many digits as say something."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:,.1f}".removesuffix(".0")
    return f"{value:.2g}" if abs(value) < 1 else f"{value:.2f}".rstrip("0").rstrip(".")


def share(value: float) -> str:
    """A part of the whole, in percent."""
    if value < 0.001:
        return "under 0.1 %" if value else "0 %"
    return f"{100 * value:.1f} %" if value < 0.1 else f"{100 * value:.0f} %"


def duration(seconds: float) -> str:
    """In the unit that suits it, as `35 ms`, `2.4 s`, `12 min` or `3 h 20 min`."""
    if 0 < seconds < 0.0001:
        return f"{number(seconds * 1_000_000)} µs"
    if seconds < 1:
        return f"{number(seconds * 1000)} ms"
    if seconds < _MINUTE:
        return f"{number(seconds)} s"
    if seconds < _HOUR:
        return f"{number(seconds / _MINUTE)} min"
    large, small, names = (
        (_DAY, _HOUR, ("d", "h")) if seconds >= _DAY else (_HOUR, _MINUTE, ("h", "min"))
    )
    whole, rest = divmod(round(seconds / small), large // small)
    return f"{whole} {names[0]} {rest} {names[1]}" if rest else f"{whole} {names[0]}"


def size(count: float) -> str:
    """Bytes, with a prefix."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{number(count)} {unit}"
        count /= 1024
    return f"{number(count)} TiB"


def instant(at: datetime, step_s: float = _MINUTE) -> str:
    """A time in UTC as exact as its step; the year is in the title of the page."""
    clock = "%H:%M:%S" if step_s < _MINUTE else "%H:%M"
    return f"{at.astimezone(UTC):%d %b {clock}}".removeprefix("0")


def span(first: datetime, last: datetime) -> str:
    """From one time to another, in UTC, each part said once."""
    first, last = first.astimezone(UTC), last.astimezone(UTC)
    clock = "%H:%M:%S" if (last - first).total_seconds() < _EXACT_S else "%H:%M"
    if first.date() == last.date():
        return f"{first:%Y-%m-%d}, {first:{clock}} to {last:{clock}}"
    return f"{first:%Y-%m-%d {clock}} to {last:%Y-%m-%d {clock}}"


def per(rate_per_s: float, noun: str = "") -> str:
    """A rate for the shortest time in which something happens, as `30 jobs a minute`."""
    if rate_per_s <= 0:
        return f"no {noun}" if noun else "none"
    steps = ((1, "a second"), (_MINUTE, "a minute"), (_HOUR, "an hour"), (_DAY, "a day"))
    seconds, name = next((step for step in steps if rate_per_s * step[0] >= 1), steps[-1])
    value = number(rate_per_s * seconds)
    nouns = "" if not noun else f" {noun}" if value == "1" else f" {noun}s"
    return f"{value}{nouns} {name}"
