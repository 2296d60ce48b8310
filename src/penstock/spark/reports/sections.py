"""The parts of the page: a finding as the title, a chart or table below it."""

from __future__ import annotations

from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any

from penstock.spark.reports import charts, findings
from penstock.spark.reports.charts import Series
from penstock.spark.reports.tables import Bar, Column, Name, Row, Spread, table
from penstock.spark.reports.units import duration, instant, number, share, size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from penstock.spark.reports.report import Report

Rows = list[dict[str, Any]]

NOTHING = "-"
"""Where there is no number."""

_MOST_ROWS = 12
_COLOURS = ("c", "b", "d", "e", "f", "a")


def outlook(report: Report) -> str:
    rows = rows_of(report, "outlook")
    if not rows:
        return ""
    cards = "".join(
        f'<div class="card {row["verdict"].replace(" ", "-")}">'
        f"<h3>{escape(findings.outlook(row, report.step_s))}</h3>"
        f"<p>{escape(findings.needed(row, report.step_s))}</p>"
        f'<p class="note">{escape(findings.error(row, report.step_s))}</p></div>'
        for row in rows[:_MOST_ROWS]
    )
    body = f'<div class="cards">{cards}</div>{_rest(len(rows), _MOST_ROWS, "queues")}'
    return _section("Each queue, and what it needs", body, "Outlook")


def model(report: Report) -> str:
    """What the model says is worth what it said before."""
    tested = rows_of(report, "backtest")
    queues = [row["queue"] for row in tested]
    if not tested:
        return ""
    queue = max(sorted(set(queues)), key=queues.count)
    steps = [row for row in tested if row["queue"] == queue]
    series = [
        Series("happened", "a", [row["change"] for row in steps]),
        Series("predicted", "b", [row["predicted"] for row in steps]),
    ]
    unit = f"more or less unfinished in {queue} after each step of {duration(report.step_s)}"
    step = timedelta(seconds=report.step_s)
    body = _legend(series, unit) + charts.lines([row["at"] for row in steps], step, series, unit)
    note = f'<p class="note">{escape(findings.MODEL)}</p>'
    return _section("How far the outlook can be trusted", body + note, "The model")


def throughput(report: Report) -> str:
    rows = rows_of(report, "throughput")
    if not rows:
        return _section(findings.throughput(report), "", "Throughput")
    step = timedelta(seconds=report.step_s)
    first = min(_step_of(report.since, step), *(row["at"] for row in rows))
    times = _steps(first, max(row["at"] for row in rows), step)
    series = [
        Series(name, css, _sums(rows, times, name))
        for name, css in (("done", "a"), ("failed", "bad"), ("others", "dim"))
        if any(row[name] for row in rows)
    ]
    unit = f"attempts in {duration(report.step_s)}"
    body = _legend(series, unit) + charts.stacked_bars(times, step, series, unit)
    return _section(findings.throughput(report), body, "Throughput")


def backlog(report: Report) -> str:
    rows = findings.shown_backlog(rows_of(report, "flow"))
    title = findings.backlog(rows, rows_of(report, "backlog"), report.step_s)
    if not rows:
        return _section(title, "", "Backlog")
    times = sorted({row["at"] for row in rows})
    largest: dict[str, float] = {}
    for row in rows:
        largest[row["queue"]] = max(largest.get(row["queue"], 0), row["unfinished"])
    queues = sorted(largest, key=lambda queue: -largest[queue])[: len(_COLOURS)]
    series = [
        Series(queue, css, _last_known([r for r in rows if r["queue"] == queue], times))
        for queue, css in zip(queues, _COLOURS, strict=False)
    ]
    step, unit = timedelta(seconds=report.step_s), "waiting or running"
    # What is counted is there at the end of its step.
    body = _legend(series, unit) + charts.lines([at + step for at in times], step, series, unit)
    note = ""
    if not all(row["is_known"] for row in rows):
        note = (
            '<p class="note">Where a queue was not counted, this is what follows from jobs that '
            "were tried or have ended since; others may have waited besides.</p>"
        )
    return _section(title, body + note + _rest(len(largest), len(queues), "queues"), "Backlog")


def durations(report: Report) -> str:
    rows = rows_of(report, "durations")
    body = ""
    for what, title in (("ran", "How long attempts run"), ("waited", "How long they wait before")):
        if rows:
            body += f"<h3>{title}</h3>{_durations(rows[:_MOST_ROWS], what, title)}"
    note = (
        '<p class="note">The dot is p50: half of the attempts take less. The bar ends at p95, the '
        "line at p99.</p>"
    )
    body += note + _rest(len(rows), _MOST_ROWS, "types") if rows else ""
    return _section(findings.durations(rows), body, "Times")


def _durations(rows: Rows, what: str, title: str) -> str:
    columns = (_TYPE, Column("", "drawn"), *(Column(p) for p in ("p50", "p95", "p99")))
    lines = []
    for row in rows:
        seconds = [(row[f"{what}_{p}_ms"] or 0) / 1000 for p in ("p50", "p95", "p99")]
        hint = f"{row['type']} in {row['queue']}: {number(row['attempts'])} attempts"
        lines.append(Row([_type(row), Spread(*seconds), *map(duration, seconds)], hint))
    return table(columns, lines, title)


def failures(report: Report) -> str:
    rows = rows_of(report, "failures")
    columns = (
        *(_TYPE, Column("error", "text"), Column("", "drawn"), Column("attempts")),
        *(
            Column("of its type", is_minor=True),
            Column("jobs dead"),
            Column("last at", is_minor=True),
        ),
    )
    lines = [
        Row(
            [
                *(_type(row), _error(row), Bar(row["attempts"], "bad"), number(row["attempts"])),
                *(share(row["share"]), number(row["dead"])),
                instant(row["last_at"], report.step_s),
            ],
            f"{row['type']} in {row['queue']}, {row['outcome']} by "
            f"{row['error_type'] or 'an unknown error'}",
        )
        for row in rows[:_MOST_ROWS]
    ]
    body = table(columns, lines, "Failures by type and error") if rows else ""
    body += _rest(len(rows), _MOST_ROWS, "kinds of failure")
    return _section(findings.failures(rows), body, "Failures")


def _error(row: dict[str, Any]) -> Name:
    module, _, name = (row["error_type"] or "").rpartition(".")
    return Name(name, module) if name else Name(row["outcome"])


def retries(report: Report) -> str:
    rows = [row for row in rows_of(report, "retries") if row["failed"]]
    columns = (
        *(_TYPE, Column("", "drawn"), Column("time wasted"), Column("of its time")),
        *(Column("failed"), Column("attempts", is_minor=True)),
        Column("attempts per done", is_minor=True),
    )
    lines = [
        Row(
            [
                *(_type(row), Bar(row["wasted_s"] or 0, "bad"), duration(row["wasted_s"] or 0)),
                *(share(row["wasted_share"] or 0), number(row["failed"])),
                number(row["attempts"]),
                NOTHING if row["attempts_per_done"] is None else f"{row['attempts_per_done']:.2f}",
            ],
            f"{row['type']} in {row['queue']}: {duration(row['wasted_cpu_s'] or 0)} of CPU time",
        )
        for row in rows[:_MOST_ROWS]
    ]
    body = table(columns, lines, "What failed attempts have cost") if rows else ""
    body += _rest(len(rows), _MOST_ROWS, "types")
    return _section(findings.retries(rows_of(report, "retries")), body, "Retries")


def costs(report: Report) -> str:
    rows = rows_of(report, "costs")
    columns = (
        *(_TYPE, Column("tenant", "text"), Column("", "drawn"), Column("CPU"), Column("share")),
        *(Column("ran", is_minor=True), Column("data"), Column("attempts", is_minor=True)),
    )
    lines = [
        Row(
            [
                *(_type(row), Name(row["tenant"] or NOTHING), Bar(row["cpu_s"] or 0)),
                *(duration(row["cpu_s"] or 0), share(row["cpu_share"] or 0)),
                *(duration(row["ran_s"] or 0), size(row["bytes"] or 0), number(row["attempts"])),
            ],
            f"{row['type']} in {row['queue']} for {row['tenant'] or 'no tenant'}",
        )
        for row in rows[:_MOST_ROWS]
    ]
    body = table(columns, lines, "Cost by type and tenant") if rows else ""
    body += _rest(len(rows), _MOST_ROWS, "kinds of work")
    return _section(findings.costs(rows), body, "Costs by type and tenant")


def workers(report: Report) -> str:
    rows = rows_of(report, "workers")
    columns = (
        *(Column("worker", "text"), Column("", "drawn"), Column("busy"), Column("at a time")),
        *(Column("attempts"), Column("failed", is_minor=True)),
    )
    lines = [
        Row(
            [
                *(Name(row["worker"]), Bar(row["busy_s"] or 0), duration(row["busy_s"] or 0)),
                *(number(row["running"] or 0), number(row["attempts"]), number(row["failed"])),
            ],
            f"{row['worker']}, from {instant(row['first_at'], report.step_s)} to "
            f"{instant(row['last_at'], report.step_s)}",
        )
        for row in rows[:_MOST_ROWS]
    ]
    body = table(columns, lines, "The busiest workers") if rows else ""
    body += _rest(len(rows), _MOST_ROWS, "workers")
    return _section(findings.workers(rows), body, "Workers")


_TYPE = Column("type", "text")


def _type(row: dict[str, Any]) -> Name:
    return Name(row["type"], f"in {row['queue']}")


def _section(title: str, body: str, topic: str) -> str:
    return f'<section><p class="topic">{topic}</p><h2>{escape(title)}</h2>{body}</section>'


def _legend(series: Sequence[Series], unit: str = "") -> str:
    names = "".join(f'<span><i class="{one.css}"></i>{escape(one.name)}</span>' for one in series)
    return f'<p class="legend">{names}<span class="unit">{escape(unit)}</span></p>'


def _rest(there: int, shown: int, what: str) -> str:
    if there <= shown:
        return ""
    return f'<p class="note">{number(there - shown)} more {what} are in the Parquet tables.</p>'


def _step_of(at: datetime, step: timedelta) -> datetime:
    seconds = step.total_seconds()
    return at - timedelta(seconds=at.timestamp() % seconds)


def _steps(first: datetime, last: datetime, step: timedelta) -> list[datetime]:
    count = round((last - first) / step) + 1
    return [first + step * number for number in range(count)]


def _sums(rows: Rows, times: Sequence[datetime], name: str) -> list[float]:
    totals = dict.fromkeys(times, 0.0)
    for row in rows:
        totals[row["at"]] += row[name]
    return list(totals.values())


def _last_known(rows: Rows, times: Sequence[datetime]) -> list[float]:
    """A value for each time: the last that is known, and 0 before the first."""
    known = {row["at"]: row["unfinished"] for row in rows}
    values: list[float] = []
    for at in times:
        values.append(known.get(at, values[-1] if values else 0.0))
    return values


def rows_of(report: Report, name: str) -> Rows:
    rows: Rows = report.tables[name].to_pylist()
    return rows
