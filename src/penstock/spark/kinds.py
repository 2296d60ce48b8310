"""Every kind of read that `format("penstock")` knows, with its options."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from penstock.model.jobs import JOB_STATES, JobState
from penstock.spark.history_offsets import starting_offsets
from penstock.spark.log_offsets import Times, log_offsets, log_times
from penstock.spark.options import Kind, Option, text

if TYPE_CHECKING:
    from collections.abc import Callable

_QUEUE = "the name of a queue"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Takes a number from `least` to `most`."""

    def parse(value: str) -> int:
        if not least <= int(value) <= most:
            raise ValueError
        return int(value)

    return parse


def instant_ms(value: str) -> int:
    """An instant in ISO 8601 as milliseconds since 1970; a part of one counts as a whole."""
    instant = datetime.fromisoformat(value)
    if instant.tzinfo is None:
        raise ValueError
    return -((_EPOCH - instant) // timedelta(milliseconds=1))


def time_ms(value: str) -> int:
    """An instant as above, or milliseconds since 1970 as they are."""
    return int(value) if value.isdecimal() else instant_ms(value)


def partition_times(value: str) -> Times:
    """JSON with times as above."""
    return log_times(value, time_ms)


def true_or_false(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError
    return value.lower() == "true"


def _job_states(value: str) -> tuple[JobState, ...]:
    states = dict.fromkeys(word.strip() for word in value.split(","))
    if not states.keys() <= set(JOB_STATES):
        raise ValueError
    return tuple(state for state in JOB_STATES if state in states)


def _task_state(value: str) -> str:
    if value not in ("waiting", "dead"):
        raise ValueError
    return value


_INSTANT = "an instant in ISO 8601 with its offset, such as 2026-11-15T09:30:00+01:00"

READ_QUEUE = Kind(
    "to read tasks of a queue",
    Option("queue", text, _QUEUE),
    (Option("state", _task_state, "waiting or dead", default="waiting"),),
)

READ_JOBS = Kind(
    "to read jobs",
    Option("jobs", text, _QUEUE),
    (
        Option(
            "state",
            _job_states,
            f"one or several of {', '.join(JOB_STATES)}, with commas between them",
            is_required=True,
        ),
        Option("type", text, "a type of jobs"),
        Option("tenant", text, "a tenant"),
        Option("since", instant_ms, _INSTANT),
        Option("until", instant_ms, _INSTANT),
        Option(
            "pages_per_partition",
            whole_number(1, 100_000),
            "a whole number from 1 to 100000",
            default=64,
        ),
    ),
)

READ_HISTORY = Kind(
    "to read history",
    Option("history", text, "the name of a queue, or several with commas between them"),
    (
        Option("type", text, "a type of jobs"),
        Option("tenant", text, "a tenant"),
        Option("since", instant_ms, _INSTANT),
        Option("until", instant_ms, _INSTANT),
        Option(
            "startingOffsets",
            starting_offsets,
            'earliest, latest, or JSON such as {"images": "earliest"}',
        ),
        Option("maxRowsPerTrigger", whole_number(1, 10**9), "a whole number from 1 up"),
        Option("reader", text, "the name under which history is kept for this stream"),
        Option("failOnDataLoss", true_or_false, "true or false", default=True),
        Option(
            "entries_per_partition",
            whole_number(1, 10**9),
            "a whole number from 1 up",
            default=250_000,
        ),
    ),
)

_OFFSETS = 'JSON such as {"clicks": {"0": "1794946245267-0"}}'
_TIME = f"{_INSTANT}, or milliseconds since 1970"
_TIMES = 'JSON with a time of each partition, such as {"clicks": {"0": 1794946245267}}'

READ_LOG = Kind(
    "to read a log",
    Option("log", text, "the name of a log"),
    (
        Option("startingOffsets", log_offsets, f"earliest, latest, or {_OFFSETS}"),
        Option("endingOffsets", log_offsets, f"latest, or {_OFFSETS}"),
        Option("startingTimestamp", time_ms, _TIME),
        Option("endingTimestamp", time_ms, _TIME),
        Option("startingOffsetsByTimestamp", partition_times, _TIMES),
        Option("endingOffsetsByTimestamp", partition_times, _TIMES),
        Option("maxOffsetsPerTrigger", whole_number(1, 10**9), "a whole number from 1 up"),
        Option("minPartitions", whole_number(1, 10_000), "a whole number from 1 to 10000"),
        Option("reader", text, "the name under which messages are kept for this stream"),
        Option("failOnDataLoss", true_or_false, "true or false", default=True),
    ),
)
