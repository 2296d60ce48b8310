"""The page of a report, from tables made by hand. No Spark takes part."""

from __future__ import annotations

import re
from datetime import timedelta
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from penstock.spark.reports import findings
from penstock.spark.reports.charts import Series, lines
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
            {"at": minutes_after(at), "queue": queue, "waiting": waiting, "running": 1, "dead": 2}
            for at, waiting in ((0, 500), (15, 20))
        ],
        "flow": [
            {"at": minutes_after(at), "queue": queue, "arrived": 9.0, "ended": 9.0, "attempts": 9}
            | {"busy_s": 9.0, "unfinished": unfinished, "is_known": True}
            for at, unfinished in ((0, 501.0), (15, 21.0))
        ],
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
        "is_known": True,
        "rates_since": minutes_after(0),
        "rates_until": minutes_after(30),
        "arrived_per_s": 1.0,
        "ended_per_s": 0.5,
        "service_s": 4.0,
        "running": 2.0,
        "load": 4.0,
        "needed": 5,
        "needed_to_clear": 6,
        "verdict": "behind",
        "done_at": None,
        "done_from": None,
        "done_until": None,
        "error": 1.5,
        "error_of_no_change": 3.0,
        "tested": 12,
    }
    return {**row, **changes}


def titles(page: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", page)


def test_each_part_has_a_title_that_says_what_was_found() -> None:
    assert titles(render(report_of())) == [
        "21 are unfinished at the end; the most was 501 in images at 16 Nov 08:00; 2 dead jobs "
        "are kept",
        "Each queue, and what it needs",
        "1,000 attempts ended in 30 min, 1.0 % of them failed; the busiest time was 16 Nov 08:15 "
        "with 1 a second",
        "resize in images runs longest, half of the time over 200 ms; resize in images waits "
        "longest, one in twenty over 70 ms",
        "resize in images fails most, in 1.0 % of its attempts, mainly by ValueError; 2 jobs are "
        "dead of it",
        "1.5 min of running was lost to attempts that failed, 100 % of it by resize in images",
        "resize in images for acme takes 100 % of 10 min of CPU time",
        "w-1 did all the work",
        "How far the outlook can be trusted",
    ]


def test_the_headline_is_the_answer() -> None:
    page = render(report_of())

    assert "<h1>images falls behind</h1>" in page
    assert "<p>1,000 attempts ended in 30 min, 1.0 % of them failed.</p>" in page


def test_the_page_needs_nothing_else() -> None:
    page = render(report_of())

    assert not re.search(r"https?:|src=|href=|<script|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page


def test_the_page_is_well_formed_and_all_charts_have_titles_to_point_at() -> None:
    page = render(report_of())

    assert unclosed(page) == []
    assert page.count("<svg") == page.count('role="img" aria-label="') == 3
    assert page.count("<table aria-label=") == 6
    assert "<title>16 Nov 08:00: 90 done, 10 failed, 0 others attempts in 15 min</title>" in page


def test_names_from_queues_are_shown_and_not_obeyed() -> None:
    page = render(report_of(queue=NASTY))

    assert NASTY not in page
    assert "&lt;script&gt;" in page


def test_a_time_in_which_nothing_happened_has_a_page() -> None:
    page = render(report_of({name: [] for name in TABLES}))

    assert "No attempt ended in this time" in titles(page)
    assert "Nothing failed" in titles(page)


def flow_of(*unfinished: float | None, is_known: bool = True, queue: str = "images") -> list[Any]:
    return [
        {"at": minutes_after(15 * step), "queue": queue, "unfinished": value, "is_known": is_known}
        for step, value in enumerate(unfinished)
    ]


def test_without_counts_the_backlog_is_what_follows_from_attempts() -> None:
    uncounted = [outlook_of(is_known=False, verdict="not counted")]
    flowed = flow_of(3.0, 5.0, is_known=False)

    page = render(report_of({"backlog": [], "flow": flowed, "outlook": uncounted}))

    assert "<h1>Too little is known to say whether any queue is behind</h1>" in page
    assert titles(page)[0] == (
        "Of what was tried, 5 are unfinished at the end; the most was 5 in images at 16 Nov 08:15"
    )
    assert "others may have waited besides" in page
    assert "<b>-</b><span>unfinished, not counted</span>" in page


def test_the_backlog_of_a_queue_ends_where_it_is_known() -> None:
    known, unknown = flow_of(3.0, 8.0), flow_of(None, None, 1.0, is_known=False)

    assert findings.shown_backlog([*known, *unknown]) == known
    assert findings.shown_backlog(unknown) == unknown[2:]
    assert findings.unfinished(known) == 8.0
    assert findings.unfinished(unknown[2:]) is None


DONE = {name: minutes_after(at) for name, at in (("done_at", 90), ("done_from", 80))}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "images falls behind: 20 unfinished, and about 30 a minute more"),
        (
            {"verdict": "catching up", **DONE, "done_until": minutes_after(120)},
            "images is catching up: 20 unfinished, done at about 16 Nov 09:30 (16 Nov 09:20 to "
            "16 Nov 10:00)",
        ),
        ({"verdict": "keeping up"}, "images keeps up: 20 unfinished, without a clear trend"),
        ({"verdict": "keeping up", "unfinished": 0.0}, "images keeps up: nothing is unfinished"),
        ({"verdict": "done", "unfinished": 0.0}, "images is done: nothing is unfinished"),
        (
            {"verdict": "too short"},
            "images: 20 unfinished; too few steps are known for a forecast; if no more come, they "
            "take 40 s",
        ),
        (
            {"verdict": "not counted", "is_known": False},
            "images: 20 unfinished of what was tried; how much waits for a first try was not "
            "counted",
        ),
    ],
)
def test_the_outlook_of_a_queue_is_a_sentence(changes: dict[str, Any], said: str) -> None:
    assert findings.outlook(outlook_of(**changes), 900) == said


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {},
            "In the last 30 min, 1 job a second arrived and took 4 s each. To keep up with that, 5 "
            "must run at the same time, 6 to be done within 1 h; on average 2 ran.",
        ),
        (
            {"rates_until": minutes_after(1), "needed_to_clear": 5, "is_known": False},
            "From 16 Nov 08:00:00 to 16 Nov 08:01:00, at least 1 job a second arrived and took 4 s "
            "each. To keep up with that, 5 must run at the same time; on average 2 ran.",
        ),
        (
            {"arrived_per_s": 0.0},
            "In the last 30 min, no job arrived and 30 a minute ended, 4 s each; on average 2 ran.",
        ),
        (
            {"service_s": None, "needed": None},
            "In the last 30 min, 1 job a second arrived and 30 a minute ended. No attempt at a job "
            "ended, so how long one takes is not known, nor how many must run at the same time.",
        ),
        ({"rates_since": None, "rates_until": None}, "Nothing came and nothing ended."),
    ],
)
def test_what_is_needed_is_said_with_the_time_it_is_of(changes: dict[str, Any], said: str) -> None:
    assert findings.needed(outlook_of(**changes), 1) == said


def test_how_sure_that_is_is_said() -> None:
    assert findings.error(outlook_of(), 900) == (
        "On 12 steps of 15 min the model was wrong by 1.5 on average; to say that nothing changes, "
        "by 3."
    )
    assert findings.error(outlook_of(tested=0), 900).startswith("There is too little past")


def test_several_queues_in_trouble_are_named_shortly() -> None:
    rows = [outlook_of(queue=name) for name in "abcde"]

    assert findings.outlooks(rows, 60) == "a, b, c and 2 more fall behind"
    assert findings.outlooks(rows[:2], 60) == "a and b fall behind"


def test_queues_of_which_too_little_is_known_are_named_beside_the_others() -> None:
    keeping_up, done = outlook_of(verdict="keeping up"), outlook_of(verdict="done")
    catching_up = outlook_of(verdict="catching up", **DONE)
    unknown = outlook_of(queue="mail", verdict="too short")

    assert findings.outlooks([keeping_up, done], 60) == "All queues keep up"
    assert findings.outlooks([done], 60) == "All work is done"
    assert findings.outlooks([done, unknown], 60) == (
        "All other work is done; too little is known of mail"
    )
    assert findings.outlooks([catching_up, keeping_up], 60) == (
        "images is catching up, done at about 16 Nov 09:30"
    )


def test_names_that_are_long_are_whole_and_can_wrap() -> None:
    error = f"app.{'much.' * 20}too.LongError"
    failure = report_of().tables["failures"].to_pylist()[0] | {"error_type": error}

    page = render(report_of({"failures": [failure]}))

    assert "mainly by LongError" in page
    assert f"failed by {error}" in page
    assert f"LongError<small>app.<wbr>{'much.<wbr>' * 20}too</small>" in page


def test_a_chart_of_seconds_has_seconds_on_its_axis() -> None:
    times = [minutes_after(second / 60) for second in range(30)]
    few = Series("orders", "a", [1.0] * 30)

    drawn = lines(times, timedelta(seconds=1), [few], "waiting")

    labels = re.findall(r'style="left:[^"]*">([^<]*)<', drawn)
    assert labels == [f"08:00:{second:02}" for second in range(0, 30, 5)]
    assert "<title>16 Nov 08:00:29: orders 1 waiting</title>" in drawn
    assert re.findall(r'style="top:[^"]*">([^<]*)<', drawn) == ["0", "1"]


def test_a_chart_of_days_names_each_day_once() -> None:
    times = [minutes_after(60 * hour) for hour in range(0, 72, 6)]

    drawn = lines(times, timedelta(hours=6), [Series("a", "a", [5e4] * 12)], "waiting")

    labels = re.findall(r'style="left:[^"]*">([^<]*)<', drawn)
    assert labels == ["16 Nov", "17 Nov", "12:00", "18 Nov", "12:00", "19 Nov"]
    assert re.findall(r'style="top:[^"]*">([^<]*)<', drawn)[-1] == "50,000"


def test_numbers_have_as_many_digits_as_say_something() -> None:
    assert [number(value) for value in (0, 0.0412, 1.5, 12.34, 1234.5)] == [
        *("0", "0.041", "1.5", "12.3", "1,234")
    ]
    assert [duration(value) for value in (0.0000049, 0.035, 2.42, 90, 12_000, 90_000)] == [
        *("4.9 µs", "35 ms", "2.42 s", "1.5 min", "3 h 20 min", "1 d 1 h")
    ]
    assert [size(value) for value in (10, 4096, 3 << 40)] == ["10 bytes", "4 KiB", "3 TiB"]
    assert [share(value) for value in (0, 0.0001, 0.034, 0.5)] == [
        *("0 %", "under 0.1 %", "3.4 %", "50 %")
    ]
    assert [per(value) for value in (5, 0.5, 0.001, 0.00002)] == [
        *("5 a second", "30 a minute", "3.6 an hour", "1.73 a day")
    ]
    assert (per(0, "job"), per(1, "job")) == ("no job", "1 job a second")
    assert span(BEGIN, minutes_after(5)) == "2026-11-16, 08:00 to 08:05"
    assert span(BEGIN, minutes_after(1)) == "2026-11-16, 08:00:00 to 08:01:00"


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
