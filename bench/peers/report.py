"""The results as tables, as JSON and as a chart."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bench.peers.harness import Series

if TYPE_CHECKING:
    from pathlib import Path

    from bench.peers.systems import System

OURS = "penstock"


@dataclass(frozen=True)
class Figure:
    """One column: what it is called, how it is written, which way is better."""

    key: str
    title: str
    is_rate: bool = False
    digits: int = 0
    is_producers: bool = False


FIGURES = (
    Figure("one_per_s", "enqueue /s", is_rate=True, is_producers=True),
    Figure("one_client_us", "client us", is_producers=True),
    Figure("one_redis_us", "redis us", is_producers=True),
    Figure("bulk_per_s", "bulk /s", is_rate=True, is_producers=True),
    Figure("drain_per_s", "drain /s", is_rate=True),
    Figure("drain_worker_us", "worker us/task"),
    Figure("drain_redis_us", "redis us/task"),
    Figure("p50_ms", "p50 ms", digits=2),
    Figure("p99_ms", "p99 ms", digits=2),
    Figure("idle_sent_per_s", "idle cmd/s sent", digits=1),
    Figure("idle_executed_per_s", "executed", digits=1),
    Figure("bytes_per_job", "bytes/job", is_producers=True),
)


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

    def line(self) -> str:
        """The last values, for a person who watches."""
        shown = [
            f"{figure.title} {self.figures[figure.key].values[-1]:,.{figure.digits}f}"
            for figure in FIGURES
            if figure.key in self.figures
        ]
        failed = [f"FAILED {self.errors[-1]}"] if self.errors else []
        return f"{self.system.name}: " + ", ".join(shown + failed)


@dataclass
class Report:
    machine: dict[str, Any]
    outcomes: dict[str, Outcome]
    versions: dict[str, dict[str, str]] = field(default_factory=dict)
    raw: dict[str, dict[str, Series]] = field(default_factory=dict)
    raw_errors: list[str] = field(default_factory=list)


def markdown(report: Report) -> str:
    parts = [
        "# penstock beside its peers",
        "",
        "No-op jobs of 100 bytes; Redis, producer and worker share one machine. Medians over the "
        "rounds, ± half the spread between them.",
        "In brackets: penstock / this system. For rates more than 1 means that penstock is faster; "
        "for times, commands and bytes less than 1 means that penstock needs less.",
        "`~` = no bulk call, 100 enqueues in flight; `none` = one by one only; "
        "`″` = the same producer as above; `-` = not measured, or too short to count.",
        "Drain rewards batching: penstock claims and finishes short tasks by the hundred, so a "
        "killed worker may repeat as many; most peers acknowledge one by one.",
        "Idle commands: those that clients sent, and all that Redis executed, inside scripts too.",
        "",
        ", ".join(f"{name} {value}" for name, value in report.machine.items()),
        "",
        *_raw_table(report),
        *_systems_table(report),
        *_settings(report),
        *_failures(report),
    ]
    return "\n".join(parts) + "\n"


def _raw_table(report: Report) -> list[str]:
    if not report.raw:
        return []
    rows = [
        "## Raw limits (Python and hiredis)",
        "",
        "| what | per second | client us | redis us | p50 ms | p99 ms |",
        "|---|---|---|---|---|---|",
    ]
    for name, figures in report.raw.items():
        digits = {"per_s": 0, "client_us": 1, "redis_us": 1, "p50_ms": 2, "p99_ms": 2}
        cells = [_value(figures.get(key), count) for key, count in digits.items()]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*rows, ""]


def _systems_table(report: Report) -> list[str]:
    rows = [
        "## Systems",
        "",
        "| system | " + " | ".join(figure.title for figure in FIGURES) + " |",
        "|---" * (len(FIGURES) + 1) + "|",
    ]
    ours = report.outcomes.get(OURS)
    for name, outcome in report.outcomes.items():
        cells = [_cell(figure, outcome, ours) for figure in FIGURES]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*rows, ""]


def _cell(figure: Figure, outcome: Outcome, ours: Outcome | None) -> str:
    if figure.is_producers and not outcome.system.has_own_producer:
        return "″"
    series = outcome.figures.get(figure.key)
    if figure.key == "bulk_per_s" and series is None and outcome.figures:
        return "none"
    text = _value(series, figure.digits, has_spread=figure.is_rate)
    if figure.key == "bulk_per_s" and outcome.bulk == "in_flight":
        text = "~" + text
    return text + _ratio(figure, outcome, ours)


def _ratio(figure: Figure, outcome: Outcome, ours: Outcome | None) -> str:
    if ours is None or outcome.system.peer == OURS:
        return ""
    mine, theirs = ours.median(figure.key), outcome.median(figure.key)
    if mine is None or theirs is None:
        return ""
    if theirs == 0:
        return " (∞)" if mine > 0 else " (1.00)"
    ratio = mine / theirs
    digits = 1 if ratio >= 10 else 2 if ratio >= 0.1 else 3
    return f" ({ratio:.{digits}f})"


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
        "raw": {name: _plain(figures) for name, figures in report.raw.items()},
        "raw_errors": report.raw_errors,
        "systems": {
            name: {
                "peer": outcome.system.peer,
                "settings": outcome.system.said,
                "bulk": outcome.bulk,
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
    """Draw the four figures that matter most; False when matplotlib is not installed."""
    try:
        import_module("matplotlib").use("Agg")
    except ImportError:
        return False
    pyplot = import_module("matplotlib.pyplot")

    panels = (
        ("one_per_s", "enqueue one by one, per second", "LPUSH, one by one", "per_s"),
        (
            "drain_per_s",
            "drain, one worker, tasks per second",
            "LMOVE+DEL, 100 jobs a trip",
            "per_s",
        ),
        ("drain_worker_us", "worker CPU per task, us", None, None),
        ("p50_ms", "pick-up latency p50, ms", "PUBLISH, received, one EVALSHA", "p50_ms"),
    )
    height = 1.5 + 0.28 * len(report.outcomes)
    drawing, axes = pyplot.subplots(2, 2, figsize=(13, 2 * height), layout="constrained")
    for axis, (key, title, limit, limit_figure) in zip(axes.flat, panels, strict=True):
        bars = [
            (name, median)
            for name, outcome in report.outcomes.items()
            if (median := outcome.median(key)) is not None
        ]
        bars.sort(key=lambda bar: bar[1], reverse=not key.endswith("per_s"))
        colours = ["#c2410c" if name.startswith(OURS) else "#64748b" for name, _ in bars]
        shapes = axis.barh([name for name, _ in bars], [value for _, value in bars], color=colours)
        axis.bar_label(shapes, fmt="{:,.3g}" if key == "p50_ms" else "{:,.0f}", padding=3)
        if limit in report.raw and limit_figure:
            raw = report.raw[limit][limit_figure].median
            axis.axvline(raw, color="#0f766e", linestyle="--", label=f"raw limit: {limit}")
            axis.legend(fontsize="small")
        axis.set_xscale("log")
        if bars:
            axis.set_xlim(left=10 ** math.floor(math.log10(0.9 * min(value for _, value in bars))))
        axis.margins(x=0.15)
        axis.set_title(title)
    versions = f"Redis {report.machine['redis']}, AOF {report.machine['aof']}"
    drawing.suptitle(f"penstock beside its peers ({versions}, {report.machine['cores']} cores)")
    drawing.savefig(path)
    pyplot.close(drawing)
    return True
