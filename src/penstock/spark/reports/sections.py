"""The parts of the page: a finding as the title, a chart or table below it."""

from __future__ import annotations

from datetime import timedelta
from html import escape
from typing import TYPE_CHECKING, Any

from penstock.spark.reports import charts, findings
from penstock.spark.reports.charts import Bar, Series, Spread
from penstock.spark.reports.units import duration, instant, number, share, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from penstock.spark.reports.report import Report

Rows = list[dict[str, Any]]

NOTHING = "-"
"""Where there is no number."""

_MOST_ROWS = 12
_COLOURS = ("a", "b", "c", "d", "e", "f")


def outlook(report: Report) -> str:
    rows = rows_of(report, "outlook")
    if not rows:
        return ""
    cards = "".join(
        f'<div class="card {row["verdict"].replace(" ", "-")}">'
        f"<h3>{escape(findings.outlook(row))}</h3>"
        f"<p>{escape(findings.needed(row))}</p>"
        f'<p class="note">{escape(findings.error(row, report.step_s))}</p></div>'
        for row in rows[:_MOST_ROWS]
    )
    chart = ""
    tested = [row for row in rows_of(report, "backtest") if row["queue"] == rows[0]["queue"]]
    if len(tested) > 1:
        series = [
            Series("happened", "a", [row["change"] for row in tested]),
            Series("predicted", "b", [row["predicted"] for row in tested]),
        ]
        chart = (
            f"<h3>How the unfinished work of {escape(rows[0]['queue'])} changed in each step, and "
            "what the model said before</h3>"
            + _legend(series)
            + charts.lines([row["at"] for row in tested], series, "more or less")
        )
    note = f'<p class="note">{escape(findings.MODEL)}</p>'
    body = f'<div class="cards">{cards}</div>{chart}{note}'
    return _section(findings.outlooks(rows), body, "Outlook")


def throughput(report: Report) -> str:
    rows = rows_of(report, "throughput")
    if not rows:
        return _section(findings.throughput(report), "", "Throughput")
    step = timedelta(seconds=report.step_s)
    times = _steps(min(row["at"] for row in rows), max(row["at"] for row in rows), step)
    series = [
        Series(name, css, _sums(rows, times, name))
        for name, css in (("done", "a"), ("failed", "bad"), ("others", "dim"))
        if any(row[name] for row in rows)
    ]
    unit = f"attempts in {duration(report.step_s)}"
    body = _legend(series, unit) + charts.stacked_bars(times, step, series, unit)
    return _section(findings.throughput(report), body, "Throughput")


def backlog(report: Report) -> str:
    rows, unit = rows_of(report, "backlog"), "waiting"
    title = findings.backlog(rows)
    if not rows:
        rows = [{**row, "waiting": row["unfinished"]} for row in rows_of(report, "flow")]
        unit = "unfinished"
        title += "; this is what follows from jobs that have ended since"
    if not rows:
        return ""
    times = sorted({row["at"] for row in rows})
    largest: dict[str, float] = {}
    for row in rows:
        largest[row["queue"]] = max(largest.get(row["queue"], 0), row["waiting"])
    queues = sorted(largest, key=lambda queue: -largest[queue])[: len(_COLOURS)]
    series = [
        Series(queue, css, _last_known([r for r in rows if r["queue"] == queue], times))
        for queue, css in zip(queues, _COLOURS, strict=False)
    ]
    body = _legend(series, unit) + charts.lines(times, series, unit)
    return _section(title, body + _rest(len(largest), len(queues), "queues"), "Backlog")


def durations(report: Report) -> str:
    rows = rows_of(report, "durations")
    body = ""
    for what, title in (("ran", "How long attempts run"), ("waited", "How long they wait before")):
        spreads = [_spread(row, what) for row in rows[:_MOST_ROWS]]
        body += f"<h3>{title}</h3>{charts.spreads(spreads)}" if spreads else ""
    note = (
        '<p class="note">The dot is the middle; 95 % are within the bar, 99 % within the line.</p>'
    )
    return _section(
        findings.durations(rows), body + note + _rest(len(rows), _MOST_ROWS, "types"), "Times"
    )


def _spread(row: dict[str, Any], what: str) -> Spread:
    name = f"{row['type']} in {row['queue']}"
    seconds = {p: (row[f"{what}_{p}_ms"] or 0) / 1000 for p in ("p50", "p95", "p99")}
    said = ", ".join(f"{percentile} {duration(value)}" for percentile, value in seconds.items())
    return Spread(name, hint=f"{name}: {said} of {number(row['attempts'])} attempts", **seconds)


def failures(report: Report) -> str:
    rows = rows_of(report, "failures")
    bars = [
        Bar(
            f"{row['type']} in {row['queue']}: {row['error_type'] or row['outcome']}",
            row["attempts"],
            f"{number(row['attempts'])} ({share(row['share'])})",
            f"{row['type']} in {row['queue']}, {row['outcome']} by "
            f"{row['error_type'] or 'an unknown error'}: {number(row['attempts'])} attempts, "
            f"{share(row['share'])} of this type, {number(row['dead'])} jobs dead, last at "
            f"{instant(row['last_at'])}",
            "bad",
        )
        for row in rows[:_MOST_ROWS]
    ]
    body = charts.bars(bars) + _rest(len(rows), _MOST_ROWS, "kinds of failure") if bars else ""
    note = '<p class="note">In brackets: of all attempts of this type.</p>' if bars else ""
    return _section(findings.failures(rows), body + note, "Failures")


def retries(report: Report) -> str:
    rows = [row for row in rows_of(report, "retries") if row["failed"]]
    body = _table(
        ("type", "queue", "attempts", "failed", "attempts per done", "time wasted", "share"),
        [
            (
                row["type"],
                row["queue"],
                number(row["attempts"]),
                number(row["failed"]),
                NOTHING if row["attempts_per_done"] is None else f"{row['attempts_per_done']:.2f}",
                duration(row["wasted_s"]),
                share(row["wasted_share"] or 0),
            )
            for row in rows[:_MOST_ROWS]
        ],
        texts=2,
    )
    return _section(findings.retries(rows_of(report, "retries")), body if rows else "", "Retries")


def costs(report: Report) -> str:
    rows = rows_of(report, "costs")
    bars = [
        Bar(
            " · ".join(part for part in (row["type"], row["tenant"]) if part),
            row["cpu_s"] or 0,
            f"{duration(row['cpu_s'] or 0)} CPU, {size(row['bytes'] or 0)}",
            f"{row['type']} in {row['queue']} for {row['tenant'] or 'no tenant'}: "
            f"{duration(row['cpu_s'] or 0)} of CPU time, ran {duration(row['ran_s'] or 0)}, "
            f"{size(row['bytes'] or 0)} of data, {number(row['attempts'])} attempts",
        )
        for row in rows[:_MOST_ROWS]
    ]
    body = charts.bars(bars) + _rest(len(rows), _MOST_ROWS, "kinds of work") if bars else ""
    return _section(findings.costs(rows), body, "Costs by type and tenant")


def workers(report: Report) -> str:
    rows = rows_of(report, "workers")
    bars = [
        Bar(
            row["worker"],
            row["busy_s"] or 0,
            f"{duration(row['busy_s'] or 0)}, {number(row['running'] or 0)} at a time",
            f"{row['worker']}: {number(row['attempts'])} attempts, {number(row['failed'])} failed, "
            f"busy for {duration(row['busy_s'] or 0)} between {instant(row['first_at'])} and "
            f"{instant(row['last_at'])}",
        )
        for row in rows[:_MOST_ROWS]
    ]
    body = charts.bars(bars) + _rest(len(rows), _MOST_ROWS, "workers") if bars else ""
    return _section(findings.workers(rows), body, "Workers")


def _section(title: str, body: str, topic: str) -> str:
    return f'<section><p class="topic">{topic}</p><h2>{escape(title)}</h2>{body}</section>'


def _legend(series: Sequence[Series], unit: str = "") -> str:
    names = "".join(f'<span><i class="{one.css}"></i>{escape(one.name)}</span>' for one in series)
    return f'<p class="legend">{names}<span class="unit">{escape(unit)}</span></p>'


def _rest(there: int, shown: int, what: str) -> str:
    if there <= shown:
        return ""
    return f'<p class="note">{number(there - shown)} more {what} are in the Parquet tables.</p>'


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], texts: int) -> str:
    """The first `texts` columns are text, the others numbers."""
    head = "".join(
        f'<th class="{"text" if at < texts else "number"}">{escape(name)}</th>'
        for at, name in enumerate(columns)
    )
    lines = "".join(
        "<tr>"
        + "".join(
            f'<td class="{"text" if at < texts else "number"}">{escape(cell)}</td>'
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _steps(first: datetime, last: datetime, step: timedelta) -> list[datetime]:
    count = round((last - first) / step) + 1
    return [first + step * number for number in range(count)]


def _sums(rows: Rows, times: Sequence[datetime], name: str) -> list[float]:
    totals = dict.fromkeys(times, 0.0)
    for row in rows:
        totals[row["at"]] += row[name]
    return list(totals.values())


def _last_known(rows: Rows, times: Sequence[datetime]) -> list[float]:
    """A value for each time: the last that was counted, and 0 before the first."""
    known = {row["at"]: row["waiting"] for row in rows}
    values: list[float] = []
    for at in times:
        values.append(known.get(at, values[-1] if values else 0.0))
    return values


def rows_of(report: Report, name: str) -> Rows:
    rows: Rows = report.tables[name].to_pylist()
    return rows
