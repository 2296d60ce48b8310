"""A report for people at a terminal, and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.render import print_lines, print_table, say
from penstock.spark.reports import findings
from penstock.spark.reports.units import duration, number, share, size, span

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.cli.render import Cell
    from penstock.spark.reports.report import Report

_MOST_ROWS = 10

Row = dict[str, Any]


def print_report(report: Report) -> None:
    """What was found, in sentences and tables."""
    say(f"{report.lake}, {span(report.since, report.until)} UTC")
    rows: dict[str, list[Row]] = {name: _rows(report, name) for name in report.tables}
    lines = [
        line
        for row in rows["outlook"]
        for line in (
            findings.outlook(row, report.step_s),
            findings.needed(row, report.step_s),
            findings.error(row, report.step_s),
        )
    ]
    click.echo()
    print_lines(findings.outlooks(rows["outlook"], report.step_s), lines)
    click.echo()
    say(findings.throughput(report))
    flow = findings.shown_backlog(rows["flow"])
    say(findings.backlog(flow, rows["backlog"], report.step_s))
    for title, name, columns in (
        (findings.durations, "durations", _DURATIONS),
        (findings.failures, "failures", _FAILURES),
        (findings.retries, "retries", _RETRIES),
        (findings.costs, "costs", _COSTS),
        (findings.workers, "workers", _WORKERS),
    ):
        click.echo()
        say(title(rows[name]))
        if rows[name]:
            cells = [[cell(row) for cell in columns.values()] for row in rows[name][:_MOST_ROWS]]
            print_table(tuple(columns), cells, empty="")


def report_document(report: Report) -> dict[str, Any]:
    """Everything, with times in ISO 8601."""
    return {
        "lake": report.lake,
        "since": report.since.isoformat(),
        "until": report.until.isoformat(),
        "step_s": report.step_s,
        "tables": {
            name: [{column: _plain(value) for column, value in row.items()} for row in rows]
            for name, rows in ((name, _rows(report, name)) for name in report.tables)
        },
    }


def _rows(report: Report, name: str) -> list[Row]:
    found: list[Row] = report.tables[name].to_pylist()
    return found


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _field(name: str) -> Callable[[Row], Cell]:
    return lambda row: row[name]


def _shown(name: str, form: Callable[[float], str], factor: float = 1.0) -> Callable[[Row], Cell]:
    return lambda row: "-" if row[name] is None else form(row[name] * factor)


_TYPE = {"type": _field("type"), "queue": _field("queue")}
_ATTEMPTS = {"attempts": _field("attempts")}

_DURATIONS: dict[str, Callable[[Row], Cell]] = {
    **_TYPE,
    **_ATTEMPTS,
    "ran p50": _shown("ran_p50_ms", duration, 0.001),
    "p95": _shown("ran_p95_ms", duration, 0.001),
    "p99": _shown("ran_p99_ms", duration, 0.001),
    "waited p50": _shown("waited_p50_ms", duration, 0.001),
    "p95 ": _shown("waited_p95_ms", duration, 0.001),
    "p99 ": _shown("waited_p99_ms", duration, 0.001),
}
_FAILURES: dict[str, Callable[[Row], Cell]] = {
    **_TYPE,
    "outcome": _field("outcome"),
    "error": _field("error_type"),
    **_ATTEMPTS,
    "share": _shown("share", share),
    "dead": _field("dead"),
}
_RETRIES: dict[str, Callable[[Row], Cell]] = {
    **_TYPE,
    **_ATTEMPTS,
    "failed": _field("failed"),
    "per done": _shown("attempts_per_done", number),
    "wasted": _shown("wasted_s", duration),
    "share": _shown("wasted_share", share),
}
_COSTS: dict[str, Callable[[Row], Cell]] = {
    **_TYPE,
    "tenant": _field("tenant"),
    **_ATTEMPTS,
    "CPU": _shown("cpu_s", duration),
    "share": _shown("cpu_share", share),
    "bytes": _shown("bytes", size),
}
_WORKERS: dict[str, Callable[[Row], Cell]] = {
    "worker": _field("worker"),
    **_ATTEMPTS,
    "failed": _field("failed"),
    "busy": _shown("busy_s", duration),
    "at a time": _shown("running", number),
}
