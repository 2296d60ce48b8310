"""The report as one HTML file that needs nothing else: no script, no font, no other server."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from penstock.spark.reports import sections
from penstock.spark.reports.units import duration, number, share, span

if TYPE_CHECKING:
    from penstock.spark.reports.report import Report


def render(report: Report) -> str:
    """The whole page."""
    style = (files(__package__) / "page.css").read_text()
    parts = "".join(
        (
            sections.outlook(report),
            sections.throughput(report),
            sections.backlog(report),
            sections.durations(report),
            sections.failures(report),
            sections.retries(report),
            sections.costs(report),
            sections.workers(report),
        )
    )
    title = f"Queues, {span(report.since, report.until)}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1>"
        f"<p>All times are in UTC. A step is {duration(report.step_s)}. "
        f"From the lake {escape(report.lake)}.</p>{_figures(report)}</header>"
        f"{parts}<footer><p>Made by <code>penstock spark report</code>.</p></footer>"
        "</main></body></html>\n"
    )


def _figures(report: Report) -> str:
    """The numbers that most people come for."""
    throughput = sections.rows_of(report, "throughput")
    done, failed = (sum(row[name] for row in throughput) for name in ("done", "failed"))
    retries = sections.rows_of(report, "retries")
    ran_s = sum(row["ran_s"] for row in sections.rows_of(report, "costs"))
    wasted = sum(row["wasted_s"] for row in retries)
    seconds = max((report.until - report.since).total_seconds(), 1)
    unfinished = sum(
        row["unfinished"] for row in sections.rows_of(report, "outlook") if row["is_counted"]
    )
    figures = [
        (number(done), "attempts done"),
        (
            share(failed / (done + failed)) if done + failed else sections.NOTHING,
            "of attempts failed",
        ),
        (number(ran_s / seconds), "ran at the same time, on average"),
        (share(wasted / ran_s) if ran_s else sections.NOTHING, "of the run time wasted"),
        (number(unfinished), "unfinished at the end"),
    ]
    cells = "".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in figures)
    return f'<div class="figures">{cells}</div>'
