"""What the tables of a report say, in one sentence each: the titles of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.spark.reports.outlook import CLEAR_S, STEPS, TARGET
from penstock.spark.reports.units import duration, instant, number, per, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.spark.reports.report import Report

Rows = list[dict[str, Any]]

MODEL = (
    f"The model: a queue goes on as in its last {STEPS} steps. What is unfinished changes by the "
    "mean change of these steps; the load is the arrival rate times the time that a job takes with "
    f"all its attempts; what is needed is the load at {TARGET:.0%} of the time busy. Its error is "
    "that of the same rule applied at every step of the past."
)


def throughput(report: Report) -> str:
    rows: Rows = report.tables["throughput"].to_pylist()
    done, failed = _total(rows, "done"), _total(rows, "failed")
    if not done + failed:
        return "No attempt ended in this time"
    by_step: dict[Any, int] = {}
    for row in rows:
        by_step[row["at"]] = by_step.get(row["at"], 0) + row["done"] + row["failed"]
    busiest = max(by_step, key=by_step.__getitem__)
    time = duration((report.until - report.since).total_seconds())
    rate = per(by_step[busiest] / report.step_s)
    return (
        f"{number(done + failed)} attempts ended in {time}, {share(failed / (done + failed))} of "
        f"them failed; the busiest time was {instant(busiest)} with {rate}"
    )


def durations(rows: Rows) -> str:
    if not rows:
        return "Nothing ran"
    slowest = max(rows, key=lambda row: row["ran_p50_ms"] or 0)
    longest = max(rows, key=lambda row: row["waited_p95_ms"] or 0)
    return (
        f"{_name(slowest)} runs longest, half of the time over "
        f"{duration(slowest['ran_p50_ms'] / 1000)}; {_name(longest)} waits longest, one in twenty "
        f"over {duration(longest['waited_p95_ms'] / 1000)}"
    )


def failures(rows: Rows) -> str:
    if not rows:
        return "Nothing failed"
    by_type: dict[str, float] = {}
    for row in rows:
        by_type[_name(row)] = by_type.get(_name(row), 0.0) + row["share"]
    worst = max(by_type, key=by_type.__getitem__)
    reasons = [row for row in rows if _name(row) == worst]
    why = max(reasons, key=lambda row: row["attempts"])
    dead = _total(rows, "dead")
    fate = f"{number(dead)} jobs are dead of it" if dead else "no job is dead of it"
    return (
        f"{worst} fails most, in {share(by_type[worst])} of its attempts, mainly by "
        f"{why['error_type'] or why['outcome']}; {fate}"
    )


def retries(rows: Rows) -> str:
    wasted = _total(rows, "wasted_s")
    if not wasted:
        return "No time was lost to attempts that failed"
    worst = rows[0]
    return (
        f"{duration(wasted)} of running was lost to attempts that failed, "
        f"{share(worst['wasted_s'] / wasted)} of it by {_name(worst)}"
    )


def costs(rows: Rows) -> str:
    if not rows or not rows[0]["cpu_share"]:
        return "No CPU time was used"
    first = rows[0]
    tenant = f" for {first['tenant']}" if first["tenant"] else ""
    total = duration(_total(rows, "cpu_s"))
    return f"{_name(first)}{tenant} takes {share(first['cpu_share'])} of {total} of CPU time"


def workers(rows: Rows) -> str:
    busy = _total(rows, "busy_s")
    if not busy:
        return "No worker ran anything"
    first = rows[0]
    if len(rows) == 1:
        return f"{first['worker']} did all the work"
    return (
        f"{first['worker']} did {share(first['busy_s'] / busy)} of the work of {len(rows)} workers"
    )


def backlog(rows: Rows) -> str:
    if not rows:
        return "The backlog was not counted in this time"
    most = max(rows, key=lambda row: row["waiting"])
    last_at = max(row["at"] for row in rows)
    now = sum(row["waiting"] for row in rows if row["at"] == last_at)
    if not most["waiting"]:
        return "Nothing had to wait when it was counted"
    return (
        f"{number(now)} wait at the end; the most was {number(most['waiting'])} in "
        f"{most['queue']} at {instant(most['at'])}"
    )


def outlooks(rows: Rows) -> str:
    """Whether any queue is in trouble."""
    known = [row for row in rows if row["is_counted"]]
    if not known:
        return "How much waits was not counted, so it is not known whether any queue is behind"
    behind = [row["queue"] for row in known if row["verdict"] == "behind"]
    catching_up = [row["queue"] for row in known if row["verdict"] == "catching up"]
    if behind:
        return f"{_several(behind)} {'falls' if len(behind) == 1 else 'fall'} behind"
    if catching_up:
        verb = "is" if len(catching_up) == 1 else "are"
        return f"{_several(catching_up)} {verb} catching up; no queue falls behind"
    return "All queues keep up"


def outlook(row: dict[str, Any]) -> str:
    """What is to be expected of one queue."""
    queue, verdict = row["queue"], row["verdict"]
    if not row["is_counted"]:
        return f"{queue}: how much waits was not counted at the end"
    waiting = f"{number(row['unfinished'])} unfinished"
    if verdict == "behind":
        grows = per(max(row["arrived_per_s"] - row["ended_per_s"], 0))
        return f"{queue} falls behind: {waiting}, and about {grows} more"
    if verdict == "catching up" and row["done_at"] is not None:
        return f"{queue} is catching up: {waiting}, done at about {instant(row['done_at'])}"
    if row["unfinished"] < 1:
        return f"{queue} keeps up: nothing is unfinished"
    return f"{queue} keeps up: {waiting}, without a clear trend"


def needed(row: dict[str, Any]) -> str:
    """How much must run at the same time in one queue."""
    if row["needed"] is None:
        return "How long plain tasks run is not recorded, so what is needed is not known."
    text = (
        f"{per(row['arrived_per_s'], 'job')} arrive and take {duration(row['service_s'])} each: "
        f"{number(row['needed'])} must run at the same time to keep up"
    )
    if row["needed_to_clear"] > row["needed"]:
        text += f", {number(row['needed_to_clear'])} to be done within {duration(CLEAR_S)}"
    return f"{text}; on average {number(row['running'])} ran."


def error(row: dict[str, Any], step_s: int) -> str:
    """How good the model was for one queue."""
    if not row["tested"]:
        return "There is too little past to test the model on."
    return (
        f"On {number(row['tested'])} steps of {duration(step_s)} the model was wrong by "
        f"{number(row['error'])} on average; to say that nothing changes, by "
        f"{number(row['error_of_no_change'])}."
    )


def _total(rows: Sequence[dict[str, Any]], name: str) -> Any:
    return sum(row[name] or 0 for row in rows)


def _several(names: Sequence[str], most: int = 3) -> str:
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _name(row: dict[str, Any]) -> str:
    return f"{row['type']} in {row['queue']}"
