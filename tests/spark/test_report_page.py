"""The page of a report, from tables made by hand. No Spark takes part."""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.spark.reports import findings
from penstock.spark.reports.page import render
from penstock.spark.reports.report import TABLES, Report
from penstock.spark.reports.units import duration, number, per, share, size, span
from tests.spark.synthetic_history import BEGIN, minutes_after

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NASTY = '<script>alert("1")</script>'


def report_of(
    tables: Mapping[str, list[dict[str, Any]]] | None = None, queue: str = "images"
) -> Report:
    """A day in which little happened; tables that are given replace it."""
    named = {"queue": queue, "type": "resize"}
    usual: dict[str, list[dict[str, Any]]] = {
        "throughput": [
            {"at": minutes_after(0), "queue": queue, "done": 90, "failed": 10, "others": 0},
            {"at": minutes_after(15), "queue": queue, "done": 900, "failed": 0, "others": 2},
        ],
        "durations": [
            named
            | {"attempts": 1000}
            | {f"waited_{p}_ms": ms for p, ms in (("p50", 5.0), ("p95", 70.0), ("p99", 90.0))}
            | {f"ran_{p}_ms": ms for p, ms in (("p50", 200.0), ("p95", 900.0), ("p99", 5000.0))}
        ],
        "failures": [
            named
            | {"outcome": "failed", "error_type": "ValueError", "attempts": 10, "dead": 2}
            | {"share": 0.01, "last_at": minutes_after(3)}
        ],
        "retries": [
            named
            | {"attempts": 1000, "failed": 10, "wasted_s": 90.0, "wasted_cpu_s": 9.0}
            | {"wasted_share": 0.1, "attempts_per_done": 1.01}
        ],
        "costs": [
            named
            | {"tenant": "acme", "attempts": 1000, "ran_s": 900.0, "cpu_s": 600.0}
            | {"bytes": 4096, "cpu_share": 1.0}
        ],
        "workers": [
            {"worker": "w-1", "attempts": 1000, "failed": 10, "busy_s": 900.0, "cpu_s": 600.0}
            | {"first_at": minutes_after(0), "last_at": minutes_after(30), "running": 0.5}
        ],
        "backlog": [
            {"at": minutes_after(at), "queue": queue, "waiting": waiting, "running": 1, "dead": 0}
            for at, waiting in ((0, 500), (15, 20))
        ],
        "flow": [],
        "backtest": [
            {"at": minutes_after(at), "queue": queue, "change": 1.0, "predicted": 2.0}
            | {"error": 1.0, "error_of_no_change": 1.0}
            for at in (0, 15)
        ],
        "outlook": [outlook_of(queue=queue)],
    }
    rows = {**usual, **(tables or {})}
    assert rows.keys() == set(TABLES)
    return Report(
        lake="history/",
        since=BEGIN,
        until=BEGIN + timedelta(minutes=30),
        step_s=900,
        tables={name: pa.Table.from_pylist(found) for name, found in rows.items()},
    )


def outlook_of(**changes: Any) -> dict[str, Any]:
    row = {
        "queue": "images",
        "at": minutes_after(30),
        "unfinished": 20.0,
        "is_counted": True,
        "arrived_per_s": 1.0,
        "ended_per_s": 0.5,
        "service_s": 4.0,
        "running": 2.0,
        "load": 4.0,
        "needed": 5,
        "needed_to_clear": 6,
        "verdict": "behind",
        "done_at": None,
        "error": 1.5,
        "error_of_no_change": 3.0,
        "tested": 12,
    }
    return {**row, **changes}


def titles(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_each_part_has_a_title_that_says_what_was_found() -> None:
    assert titles(render(report_of())) == [
        "images falls behind",
        "1,000 attempts ended in 30 min, 1.0 % of them failed; the busiest time was 16 Nov 08:15 "
        "with 1 a second",
        "20 wait at the end; the most was 500 in images at 16 Nov 08:00",
        "resize in images runs longest, half of the time over 200 ms; resize in images waits "
        "longest, one in twenty over 70 ms",
        "resize in images fails most, in 1.0 % of its attempts, mainly by ValueError; 2 jobs are "
        "dead of it",
        "1.5 min of running was lost to attempts that failed, 100 % of it by resize in images",
        "resize in images for acme takes 100 % of 10 min of CPU time",
        "w-1 did all the work",
    ]


def test_the_page_needs_nothing_else() -> None:
    page = render(report_of())

    assert not re.search(r"https?:|src=|href=|<script|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page


def test_the_page_is_well_formed_and_all_charts_have_titles_to_point_at() -> None:
    page = render(report_of())

    assert unclosed(page) == []
    assert page.count("<svg") == 8
    assert "<title>16 Nov 08:00: 90 done, 10 failed, 0 others attempts in 15 min</title>" in page


def test_names_from_queues_are_shown_and_not_obeyed() -> None:
    page = render(report_of(queue=NASTY))

    assert NASTY not in page
    assert "&lt;script&gt;" in page


def test_a_time_in_which_nothing_happened_has_a_page() -> None:
    page = render(report_of({name: [] for name in TABLES}))

    assert "No attempt ended in this time" in titles(page)
    assert "Nothing failed" in titles(page)


def test_without_counts_the_backlog_is_what_follows_from_attempts() -> None:
    flowed = [{"at": minutes_after(at), "queue": "images", "unfinished": 3.0} for at in (0, 15)]
    uncounted = [outlook_of(is_counted=False)]

    page = render(report_of({"backlog": [], "flow": flowed, "outlook": uncounted}))

    assert any("what follows from jobs that have ended" in title for title in titles(page))
    assert "How much waits was not counted, so it is not known" in titles(page)[0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "images falls behind: 20 unfinished, and about 30 a minute more"),
        (
            {"verdict": "catching up", "done_at": minutes_after(90)},
            "images is catching up: 20 unfinished, done at about 16 Nov 09:30",
        ),
        ({"verdict": "keeping up"}, "images keeps up: 20 unfinished, without a clear trend"),
        ({"verdict": "keeping up", "unfinished": 0.0}, "images keeps up: nothing is unfinished"),
        ({"is_counted": False}, "images: how much waits was not counted at the end"),
    ],
)
def test_the_outlook_of_a_queue_is_a_sentence(changes: dict[str, Any], said: str) -> None:
    assert findings.outlook(outlook_of(**changes)) == said


def test_what_is_needed_and_how_sure_that_is_are_said() -> None:
    assert findings.needed(outlook_of()) == (
        "1 job a second arrive and take 4 s each: 5 must run at the same time to keep up, 6 to be "
        "done within 1 h; on average 2 ran."
    )
    assert "is not recorded" in findings.needed(outlook_of(needed=None))
    assert findings.error(outlook_of(), 900) == (
        "On 12 steps of 15 min the model was wrong by 1.5 on average; to say that nothing changes, "
        "by 3."
    )
    assert findings.error(outlook_of(tested=0), 900).startswith("There is too little past")


def test_several_queues_in_trouble_are_named_shortly() -> None:
    rows = [outlook_of(queue=name) for name in "abcde"]

    assert findings.outlooks(rows) == "a, b, c and 2 more fall behind"
    assert findings.outlooks(rows[:2]) == "a and b fall behind"
    assert findings.outlooks([outlook_of(verdict="keeping up")]) == "All queues keep up"


def test_numbers_have_as_many_digits_as_say_something() -> None:
    assert [number(value) for value in (0, 0.0412, 1.5, 12.34, 1234.5)] == [
        *("0", "0.041", "1.5", "12.3", "1,234")
    ]
    assert [duration(value) for value in (0.035, 2.42, 90, 12_000, 90_000)] == [
        *("35 ms", "2.42 s", "1.5 min", "3 h 20 min", "1 d 1 h")
    ]
    assert [size(value) for value in (10, 4096, 3 << 40)] == ["10 bytes", "4 KiB", "3 TiB"]
    assert [share(value) for value in (0, 0.0001, 0.034, 0.5)] == [
        *("0.0 %", "under 0.1 %", "3.4 %", "50 %")
    ]
    assert [per(value) for value in (5, 0.5, 0.001, 0.00002)] == [
        *("5 a second", "30 a minute", "3.6 an hour", "1.73 a day")
    ]
    assert span(BEGIN, minutes_after(5)) == "2026-11-16, 08:00 to 08:05"


def test_tables_become_parquet_files(tmp_path: Path) -> None:
    report = report_of()

    paths = report.write_parquet(tmp_path / "out")

    assert [path.name for path in paths] == [f"{name}.parquet" for name in report.tables]
    assert pa.parquet.read_table(paths[0]) == report.tables["throughput"]


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def unclosed(page: str) -> list[str]:
    parser = _Tags()
    parser.feed(page)
    return parser.open
