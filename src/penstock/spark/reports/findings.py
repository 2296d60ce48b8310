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
    f"A queue goes on as in its last {STEPS} steps. What is unfinished changes by the mean change "
    "of these steps; the load is the arrival rate times the time that a job takes with all its "
    f"attempts; what is needed is the load at {TARGET:.0%} of the time busy, as workers times what "
    "each runs at a time. Its error is that of the same rule applied at every step of the past. "
    "Where fewer steps are known, it says nothing."
)

SILENT = ("not counted", "too short")
"""Verdicts of a model that cannot say more."""


def summary(report: Report) -> str:
    """The whole report in a few words, for a reader who reads no further."""
    rows: Rows = report.tables["throughput"].to_pylist()
    return f"{_ended(report, rows)}." if rows else "No attempt ended in this time."


def throughput(report: Report) -> str:
    rows: Rows = report.tables["throughput"].to_pylist()
    done, failed = _total(rows, "done"), _total(rows, "failed")
    if not done + failed:
        return "No attempt ended in this time"
    by_step: dict[Any, int] = {}
    for row in rows:
        by_step[row["at"]] = by_step.get(row["at"], 0) + row["done"] + row["failed"]
    busiest = max(by_step, key=by_step.__getitem__)
    rate = per(by_step[busiest] / report.step_s)
    when = instant(busiest, report.step_s)
    return f"{_ended(report, rows)}; the busiest time was {when} with {rate}"


def _ended(report: Report, rows: Rows) -> str:
    done, failed = _total(rows, "done"), _total(rows, "failed")
    time = duration((report.until - report.since).total_seconds())
    part = f"{share(failed / (done + failed))} of them" if failed else "none of them"
    return f"{counted(done + failed, 'attempt')} ended in {time}, {part} failed"


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
    kinds = "failures" if len(by_type) > 1 else "it"
    fate = f"{counted(dead, 'job')} {'is' if dead == 1 else 'are'} dead of {kinds}"
    return (
        f"{worst} fails most, in {share(by_type[worst])} of its attempts, mainly by "
        f"{short(why['error_type']) or why['outcome']}; {fate if dead else 'no job is dead of it'}"
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


def backlog(flow: Rows, counts: Rows, step_s: int) -> str:
    """How much is there; `flow` is what `shown_backlog` has left of it."""
    if not flow:
        return "How much was unfinished is not known"
    ends = _ends(flow)
    most = max(flow, key=lambda row: row["unfinished"])
    now = _total(ends, "unfinished")
    text = f"{number(now)} are" if now > 1 else "1 is" if now == 1 else "nothing is"
    text += " unfinished at the end"
    if not all(row["is_known"] for row in ends):
        text = f"of what was tried, {text}"
    if most["unfinished"]:
        when = instant(most["at"], step_s)
        text += f"; the most was {number(most['unfinished'])} in {most['queue']} at {when}"
    dead = _total(_ends(counts), "dead")
    if dead:
        text += f"; {counted(dead, 'dead job')} {'is' if dead == 1 else 'are'} kept"
    return text[0].upper() + text[1:]


def unfinished(flow: Rows) -> float | None:
    """How much is unfinished in all queues that are known; None if none is."""
    known = [row["unfinished"] for row in _ends(flow) if row["is_known"]]
    return sum(known) if known else None


def _ends(flow: Rows) -> Rows:
    """The last row of each queue; rows are in the order of time."""
    return list({row["queue"]: row for row in flow}.values())


def shown_backlog(flow: Rows) -> Rows:
    """What was unfinished, of each queue up to the last step in which it is known; what follows
    would look as if it had ended.
    """
    known_until = {row["queue"]: row["at"] for row in flow if row["is_known"]}
    return [
        row
        for row in flow
        if row["unfinished"] is not None and row["at"] <= known_until.get(row["queue"], row["at"])
    ]


def outlooks(rows: Rows, step_s: int) -> str:
    """Whether any queue is in trouble."""
    by_verdict: dict[str, Rows] = {}
    for row in rows:
        by_verdict.setdefault(row["verdict"], []).append(row)
    silent = [row["queue"] for verdict in SILENT for row in by_verdict.get(verdict, [])]
    if len(silent) == len(rows):
        return "Too little is known to say whether any queue is behind"
    unsure = f"; too little is known of {_several(silent)}" if silent else ""
    if behind := by_verdict.get("behind"):
        verb = "falls" if len(behind) == 1 else "fall"
        return f"{_several([row['queue'] for row in behind])} {verb} behind{unsure}"
    if catching_up := by_verdict.get("catching up"):
        verb = "is" if len(catching_up) == 1 else "are"
        done_at = max(row["done_at"] for row in catching_up)
        names = _several([row["queue"] for row in catching_up])
        return f"{names} {verb} catching up, done at about {instant(done_at, step_s)}{unsure}"
    if "keeping up" in by_verdict:
        return f"All {'other ' if silent else ''}queues keep up{unsure}"
    return f"All {'other ' if silent else ''}work is done{unsure}"


def outlook(row: dict[str, Any], step_s: int) -> str:
    """What is to be expected of one queue."""
    queue, verdict = row["queue"], row["verdict"]
    unfinished = row["unfinished"] or 0
    there = f"{number(unfinished)} unfinished" if unfinished else "nothing is unfinished"
    if verdict == "behind":
        grows = per(max(row["arrived_per_s"] - row["ended_per_s"], 0))
        return f"{queue} falls behind: {there}, and about {grows} more"
    if verdict == "catching up":
        done, early, late = (
            instant(row[name], step_s) for name in ("done_at", "done_from", "done_until")
        )
        return f"{queue} is catching up: {there}, done at about {done} ({early} to {late})"
    if verdict == "keeping up":
        return f"{queue} keeps up: {there}{', without a clear trend' if unfinished else ''}"
    if verdict == "done":
        return f"{queue} is done: {there}"
    if verdict == "too short":
        return f"{queue}: {there}; too few steps are known for a forecast{_rest(row)}"
    return f"{queue}: {there} of what was tried; how much waits for a first try was not counted"


def _rest(row: dict[str, Any]) -> str:
    """The one forecast that needs no past."""
    if not row["unfinished"] or not row["ended_per_s"]:
        return ""
    return f"; if no more come, they take {duration(row['unfinished'] / row['ended_per_s'])}"


def needed(row: dict[str, Any], step_s: int) -> str:
    """How much must run at the same time in one queue."""
    since, until = row["rates_since"], row["rates_until"]
    if since is None:
        return "Nothing came and nothing ended."
    if until == row["at"]:
        when = f"In the last {duration((until - since).total_seconds())},"
    else:
        when = f"From {instant(since, step_s)} to {instant(until, step_s)},"
    least = "" if row["is_known"] else "at least "
    came = f"{when} {least if row['arrived_per_s'] else ''}{per(row['arrived_per_s'], 'job')}"
    if row["service_s"] is None:
        return (
            f"{came} arrived and {per(row['ended_per_s'])} ended. No attempt at a job ended, so "
            "how long one takes is not known, nor how many must run at the same time."
        )
    if not row["arrived_per_s"]:
        return (
            f"{came} arrived and {per(row['ended_per_s'])} ended, {duration(row['service_s'])} "
            f"each; on average {number(row['running'])} ran."
        )
    text = (
        f"{came} arrived and took {duration(row['service_s'])} each. To keep up with that, "
        f"{number(row['needed'])} must run at the same time"
    )
    if row["needed_to_clear"] > row["needed"]:
        text += f", {number(row['needed_to_clear'])} to be done within {duration(CLEAR_S)}"
    return f"{text}; on average {number(row['running'])} ran."


def error(row: dict[str, Any], step_s: int) -> str:
    """How good the model was for one queue."""
    if not row["tested"]:
        return "There is too little past to test the model on."
    return (
        f"On {counted(row['tested'], 'step')} of {duration(step_s)} the model was wrong by "
        f"{number(row['error'])} on average; to say that nothing changes, by "
        f"{number(row['error_of_no_change'])}."
    )


def short(error_type: str | None) -> str:
    """The name of an error without the module that defines it."""
    return (error_type or "").rpartition(".")[2]


def counted(count: float, noun: str) -> str:
    return f"{number(count)} {noun}{'' if count == 1 else 's'}"


def _total(rows: Sequence[dict[str, Any]], name: str) -> Any:
    return sum(row[name] or 0 for row in rows)


def _several(names: Sequence[str], most: int = 3) -> str:
    shown = list(names[:most])
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _name(row: dict[str, Any]) -> str:
    return f"{row['type']} in {row['queue']}"
