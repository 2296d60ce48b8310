"""The results as tables, as JSON and as a chart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bench.peers.harness import Series

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from bench.peers.sheets import Contest, Figure, Panel, Sheet
    from bench.peers.systems import System

OURS = "penstock"


@dataclass
class Outcome:
    """What one system came to over the rounds."""

    system: System
    figures: dict[str, Series] = field(default_factory=dict)
    bulk: str = "none"
    errors: list[str] = field(default_factory=list)

    def add(self, figure: str, value: float) -> None:
        self.figures.setdefault(figure, Series()).values.append(value)

    def median(self, figure: str) -> float | None:
        return self.figures[figure].median if figure in self.figures else None

    def line(self, shown_figures: Iterable[Figure]) -> str:
        """The last values, for a person who watches."""
        shown = [
            f"{figure.title} {self.figures[figure.key].values[-1]:,.{figure.digits}f}"
            for figure in shown_figures
            if figure.key in self.figures
        ]
        failed = [f"FAILED {self.errors[-1]}"] if self.errors else []
        return f"{self.system.name}: " + ", ".join(shown + failed)


@dataclass
class Report:
    sheet: Sheet
    machine: dict[str, Any]
    outcomes: dict[str, Outcome]
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    raw: dict[str, dict[str, Series]] = field(default_factory=dict)
    raw_errors: list[str] = field(default_factory=list)

    @property
    def ours(self) -> Outcome | None:
        """The first of our own settings, which all others are compared with."""
        ours = (one for one in self.outcomes.values() if one.system.peer == OURS)
        return next(ours, None)


def markdown(report: Report) -> str:
    parts = [
        f"# {report.sheet.title}",
        "",
        *report.sheet.notes,
        "",
        ", ".join(f"{name} {value}" for name, value in report.machine.items()),
        "",
        *_contests_table(report),
        *_raw_table(report),
        *_systems_table(report),
        *_settings(report),
        *_failures(report),
    ]
    return "\n".join(parts) + "\n"


@dataclass(frozen=True)
class Verdict:
    """How a contest ended: our value, the best of the others, and ours divided by it."""

    contest: Contest
    ours: float
    rival: str
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs


def verdicts(report: Report) -> list[Verdict]:
    """Of the contests for which both sides were measured."""
    found = []
    for contest in report.sheet.contests:
        ours = report.ours.median(contest.key) if report.ours else None
        rivals = _rivals(report, contest)
        if ours is not None and rivals:
            best = max if contest.key.endswith("per_s") else min
            rival = best(rivals, key=lambda name: rivals[name])
            found.append(Verdict(contest, ours, rival, rivals[rival]))
    return found


def _rivals(report: Report, contest: Contest) -> dict[str, float]:
    """Their medians, by name."""
    if contest.is_rival is None:
        limit = report.raw.get(contest.limit or "", {}).get(contest.limit_figure or "")
        known = {contest.limit or "": limit.median if limit else None}
    else:
        known = {
            name: outcome.median(contest.key)
            for name, outcome in report.outcomes.items()
            if contest.is_rival(outcome.system)
        }
    return {name: median for name, median in known.items() if median}


def _contests_table(report: Report) -> list[str]:
    found = verdicts(report)
    if not found:
        return []
    digits = {figure.key: figure.digits for figure in report.sheet.figures}
    rows = ["## In short", "", "| what | penstock | against | | ratio |", "|---|---|---|---|---|"]
    for verdict in found:
        shown = digits[verdict.contest.key]
        rows.append(
            f"| {verdict.contest.what} | {verdict.ours:,.{shown}f} "
            f"| {verdict.contest.against}: {verdict.rival} | {verdict.theirs:,.{shown}f} "
            f"| {_ratio_text(verdict.ratio)} |"
        )
    return [*rows, ""]


_RAW_COLUMNS = {
    "per_s": ("per second", 0),
    "client_us": ("client us", 1),
    "redis_us": ("redis us", 1),
    "p50_ms": ("p50 ms", 2),
    "p99_ms": ("p99 ms", 2),
    "bytes_per_job": ("bytes/job", 0),
}


def _raw_table(report: Report) -> list[str]:
    if not report.raw:
        return []
    measured = {key for figures in report.raw.values() for key in figures}
    columns = {key: column for key, column in _RAW_COLUMNS.items() if key in measured}
    rows = [
        "## Raw limits (Python and hiredis)",
        "",
        "| what | " + " | ".join(title for title, _ in columns.values()) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for name, figures in report.raw.items():
        cells = [_value(figures.get(key), digits) for key, (_, digits) in columns.items()]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*rows, ""]


def _systems_table(report: Report) -> list[str]:
    figures = report.sheet.figures
    titles = [*(["record"] if report.sheet.shows_records else []), *(one.title for one in figures)]
    rows = [
        "## Systems",
        "",
        "| system | " + " | ".join(titles) + " |",
        "|---" * (len(titles) + 1) + "|",
    ]
    for name, outcome in report.outcomes.items():
        cells = [_cell(figure, outcome, report.ours) for figure in figures]
        if report.sheet.shows_records:
            cells.insert(0, "yes" if outcome.system.keeps_record else "no")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*rows, ""]


def _cell(figure: Figure, outcome: Outcome, ours: Outcome | None) -> str:
    if figure.is_producers and not outcome.system.has_own_producer:
        return "″"
    series = outcome.figures.get(figure.key)
    if figure.key == "bulk_per_s" and series is None and outcome.figures:
        return "none"
    text = _value(series, figure.digits, has_spread=figure.is_rate)
    if figure.key == "bulk_per_s" and series is not None:
        text = {"in_flight": f"~{text}", "none": f"{text} ¹"}.get(outcome.bulk, text)
    return text + _ratio(figure, outcome, ours)


def _ratio(figure: Figure, outcome: Outcome, ours: Outcome | None) -> str:
    if ours is None or outcome.system.peer == OURS:
        return ""
    mine, theirs = ours.median(figure.key), outcome.median(figure.key)
    if mine is None or theirs is None:
        return ""
    if theirs == 0:
        return " (∞)" if mine > 0 else " (1.00)"
    return f" ({_ratio_text(mine / theirs)})"


def _ratio_text(ratio: float) -> str:
    digits = 1 if ratio >= 10 else 2 if ratio >= 0.1 else 3
    return f"{ratio:.{digits}f}"


def _value(series: Series | None, digits: int, *, has_spread: bool = True) -> str:
    if series is None or series.median is None:
        return "-"
    spread = series.half_spread if has_spread and digits == 0 else None
    return f"{series.median:,.{digits}f}" + ("" if spread is None else f" ±{spread:.0%}")


def _settings(report: Report) -> list[str]:
    rows = ["## Versions and settings", ""]
    for name, outcome in report.outcomes.items():
        versions = report.versions.get(outcome.system.peer, {})
        listed = ", ".join(f"{package} {version}" for package, version in versions.items())
        rows.append(f"- {name}: {outcome.system.said} ({listed or 'not installed'})")
    return [*rows, ""]


def _failures(report: Report) -> list[str]:
    failed = [("raw", error) for error in report.raw_errors]
    failed += [
        (name, error) for name, outcome in report.outcomes.items() for error in outcome.errors
    ]
    if not failed:
        return []
    return ["## What failed", "", *(f"- {name}: {error}" for name, error in failed), ""]


def as_json(report: Report) -> dict[str, Any]:
    return {
        "machine": report.machine,
        "versions": report.versions,
        "contests": [
            {
                "what": verdict.contest.what,
                "against": verdict.contest.against,
                "rival": verdict.rival,
                "ours": verdict.ours,
                "theirs": verdict.theirs,
                "ratio": verdict.ratio,
            }
            for verdict in verdicts(report)
        ],
        "raw": {name: _plain(figures) for name, figures in report.raw.items()},
        "raw_errors": report.raw_errors,
        "systems": {
            name: {
                "peer": outcome.system.peer,
                "settings": outcome.system.said,
                "bulk": outcome.bulk,
                "keeps_record": outcome.system.keeps_record,
                "figures": _plain(outcome.figures),
                "errors": outcome.errors,
            }
            for name, outcome in report.outcomes.items()
        },
    }


def _plain(figures: dict[str, Series]) -> dict[str, Any]:
    return {
        name: {
            "median": series.median,
            "half_spread": series.half_spread,
            "values": series.values,
        }
        for name, series in figures.items()
    }


def draw(report: Report, path: Path) -> bool:
    """Draw the figures that matter most; False when matplotlib is not installed."""
    try:
        import_module("matplotlib").use("Agg")
    except ImportError:
        return False
    pyplot = import_module("matplotlib.pyplot")

    panels = report.sheet.panels
    rows = math.ceil(len(panels) / 2)
    height = 1.5 + 0.28 * len(report.outcomes)
    drawing, axes = pyplot.subplots(rows, 2, figsize=(13, rows * height), layout="constrained")
    for axis, panel in zip(axes.flat, panels, strict=True):
        _draw_panel(report, axis, panel)
    versions = f"Redis {report.machine['redis']}, AOF {report.machine['aof']}"
    drawing.suptitle(f"{report.sheet.title} ({versions}, {report.machine['cores']} cores)")
    drawing.savefig(path)
    pyplot.close(drawing)
    return True


def _draw_panel(report: Report, axis: Any, panel: Panel) -> None:
    bars = [
        (name, median)
        for name, outcome in report.outcomes.items()
        if (median := outcome.median(panel.key)) is not None
    ]
    bars.sort(key=lambda bar: bar[1], reverse=not panel.key.endswith("per_s"))
    colours = ["#c2410c" if name.startswith(OURS) else "#64748b" for name, _ in bars]
    shapes = axis.barh([name for name, _ in bars], [value for _, value in bars], color=colours)
    axis.bar_label(shapes, fmt="{:,.3g}" if panel.key.endswith("_ms") else "{:,.0f}", padding=3)
    shown = [value for _, value in bars]
    if panel.limit in report.raw and panel.limit_figure in report.raw[panel.limit]:
        raw = report.raw[panel.limit][panel.limit_figure].median or 0.0
        axis.axvline(raw, color="#0f766e", linestyle="--", label=f"raw limit: {panel.limit}")
        axis.legend(fontsize="small")
        shown.append(raw)
    axis.set_xscale("log")
    if shown := [value for value in shown if value > 0]:
        # Room for the label of the longest bar.
        axis.set_xlim(10 ** math.floor(math.log10(0.9 * min(shown))), 3 * max(shown))
    axis.set_title(panel.title)
