"""The report as one HTML file that needs nothing else: no script, no font, no other server."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from penstock.spark.reports import findings, sections
from penstock.spark.reports.units import duration, number, share, span

if TYPE_CHECKING:
    from penstock.spark.reports.report import Report


def render(report: Report) -> str:
    """The whole page."""
    style = (files(__package__) / "page.css").read_text()
    parts = "".join(
        (
            sections.backlog(report),
            sections.outlook(report),
            sections.throughput(report),
            sections.durations(report),
            sections.failures(report),
            sections.retries(report),
            sections.costs(report),
            sections.workers(report),
            sections.model(report),
        )
    )
    when = span(report.since, report.until)
    outlook = sections.rows_of(report, "outlook")
    answer = findings.outlooks(outlook, report.step_s) if outlook else "Nothing happened"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(f'{answer} - queues, {when}')}</title><style>{style}</style></head>"
        f'<body><main><header><p class="topic">Queues, {escape(when)} UTC</p>'
        f"<h1>{escape(answer)}</h1><p>{escape(findings.summary(report))}</p>{_figures(report)}"
        f"</header>{parts}<footer><p>Made by <code>penstock spark report</code> from the lake "
        f"{escape(report.lake)}. All times are in UTC, in steps of {duration(report.step_s)}.</p>"
        "</footer></main></body></html>\n"
    )


def _figures(report: Report) -> str:
    """The numbers that most people come for."""
    throughput = sections.rows_of(report, "throughput")
    done, failed = (sum(row[name] for row in throughput) for name in ("done", "failed"))
    retries = sections.rows_of(report, "retries")
    ran_s = sum(row["ran_s"] or 0 for row in sections.rows_of(report, "costs"))
    wasted = sum(row["wasted_s"] or 0 for row in retries)
    seconds = max((report.until - report.since).total_seconds(), 1)
    flow = findings.shown_backlog(sections.rows_of(report, "flow"))
    unfinished = findings.unfinished(flow)
    figures = [
        (number(done), "attempts done"),
        (
            share(failed / (done + failed)) if done + failed else sections.NOTHING,
            "of attempts failed",
        ),
        (number(ran_s / seconds), "ran at the same time, on average"),
        (share(wasted / ran_s) if ran_s else sections.NOTHING, "of the run time wasted"),
        (
            sections.NOTHING if unfinished is None else number(unfinished),
            "unfinished, not counted" if unfinished is None else "unfinished at the end",
        ),
    ]
    cells = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in figures)
    return f'<div class="figures">{cells}</div>'
