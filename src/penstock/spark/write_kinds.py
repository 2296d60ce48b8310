"""Every kind of write that `format("penstock")` knows, with its options."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from penstock.model.logs import MAX_PARTITIONS
from penstock.model.staging import MAX_STAGED_BYTES
from penstock.spark.kinds import whole_number
from penstock.spark.options import Kind, Option, text

if TYPE_CHECKING:
    from collections.abc import Callable

_QUEUE = "the name of a queue"


def _word(*words: str) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in words:
            raise ValueError
        return value

    return parse


def _seconds(value: str) -> float:
    seconds = float(value)
    if not 0 <= seconds < math.inf:
        raise ValueError
    return seconds


def _number_or_word(value: str) -> int | str:
    return int(value) if value.lstrip("-").isdecimal() else text(value)


def _seconds_or_word(value: str) -> float | str:
    return value if value in ("queued", "done") else _seconds(value)


def _seconds_or_text(value: str) -> float | str:
    try:
        return _seconds(value)
    except ValueError:
        return text(value)


def _words(value: str) -> list[str]:
    return [text(word.strip()) for word in value.split(",")]


_BATCH_ID = Option(
    "batch_id", text, "a name under which the batch is sent once, however often it is run"
)
_STAGED = (
    Option(
        "max_staged_bytes", whole_number(1, 2**63 - 1), "bytes from 1 up", default=MAX_STAGED_BYTES
    ),
    Option("bad_rows", text, "a folder for rows that cannot be sent"),
)
_WRITE = (
    _BATCH_ID,
    Option("wait", _word("moved", "decided"), "moved or decided", default="moved"),
    Option("wait_timeout", _seconds, "seconds from 0 up"),
    *_STAGED,
)
_OF_STREAMS = frozenset({"checkpointlocation", "queryname"})

WRITE_QUEUE = Kind(
    "to write tasks to a queue",
    Option("queue", text, _QUEUE),
    (
        Option("payload", text, "the name of the column that has the task", default="payload"),
        *_WRITE,
    ),
    _OF_STREAMS,
)

JOB_COLUMNS = ("type", "priority", "delay", "tenant", "key", "unique", "tags")
"""Options of jobs that a column may have."""

_JOB = (
    Option("type", text, "the type of all jobs"),
    Option("priority", _number_or_word, "a whole number, or a name such as high"),
    Option("delay", _seconds, "seconds from 0 up"),
    Option("tenant", text, "the tenant of all jobs"),
    Option("key", text, "the limit key of all jobs"),
    Option("tags", _words, "words with commas between them"),
    Option("attempts", int, "a whole number from 1 up"),
    Option("backoff", _seconds_or_text, "a backoff such as exponential, or seconds"),
    Option("timeout", _seconds, "seconds above 0"),
    Option("expires", _seconds, "seconds above 0"),
    Option("unique_for", _seconds_or_word, "queued, done or seconds"),
    Option("unique_scope", _word("type", "queue"), "type or queue"),
)
JOB_OPTIONS = tuple(option.name for option in _JOB)
"""Options of jobs that can be given for all rows."""

WRITE_JOBS = Kind(
    "to write jobs to a queue",
    Option("jobs", text, _QUEUE),
    (
        *_JOB,
        Option("key_columns", _words, "the columns that make the id of a job, with the batch_id"),
        Option("keep_for", _seconds, "seconds for which ended jobs of the batch are kept"),
        Option("data_column", text, "the name of the column that has the data"),
        *(
            Option(f"{name}_column", text, f"the name of the column that has the {name}")
            for name in JOB_COLUMNS
        ),
        *_WRITE,
    ),
    _OF_STREAMS,
)

WRITE_LOG = Kind(
    "to append to a log",
    Option("log", text, "the name of a log"),
    (
        Option(
            "partitions",
            whole_number(1, MAX_PARTITIONS),
            f"a whole number from 1 to {MAX_PARTITIONS}",
            default=1,
        ),
        _BATCH_ID,
        *_STAGED,
    ),
    _OF_STREAMS,
)
