"""What is kept of an exception: text, so that it can leave its process and be stored."""

from __future__ import annotations

import traceback
from typing import NamedTuple

from penstock.model.jobs import JobError

MAX_MESSAGE = 4 * 1024
MAX_TRACEBACK = 32 * 1024


class Failure(NamedTuple):
    type: str
    """module and qualified name of the class"""
    message: str
    traceback: str


class RaisedInChild(Exception):
    """Stands for an exception that a job raised in a child process."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        return f"{self.failure.type}: {self.failure.message}"


def describe(error: BaseException) -> Failure:
    """Never raises, whatever the exception does when it is turned into text."""
    if isinstance(error, RaisedInChild):
        return error.failure
    cls = type(error)
    name = f"{cls.__module__}.{cls.__qualname__}"
    try:
        message = str(error)
    except BaseException:
        message = f"<its text could not be made: {name}.__str__ raised>"
    try:
        lines = "".join(traceback.format_exception(error))
    except BaseException:
        lines = f"{name}: {message}\n"
    return Failure(name, shorten(message, MAX_MESSAGE), shorten(lines, MAX_TRACEBACK))


def crash_of(who: str, how: str) -> JobError:
    """What is kept of an attempt whose process has died, where nobody could raise anything."""
    return JobError("penstock.errors.JobCrashed", f"the {who} ended by {how}")


def lapse_of(has_lived: bool = False) -> JobError:
    """What is kept of an attempt whose worker did not renew its lease, with no word of its death.
    `has_lived` is said by the worker itself.
    """
    known = "but lived" if has_lived else "and nobody has reported its death"
    return JobError(
        "penstock.errors.LeaseLost",
        f"the worker did not answer until its lease had lapsed, {known}; a job that keeps the "
        "worker from answering (long C code that holds the GIL) can run with process=True",
    )


def shorten(text: str, limit: int) -> str:
    """At most `limit` bytes of valid UTF-8, with the beginning and more of the end."""
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > limit:
        gap = b"\n...\n"
        head = limit // 4
        data = data[:head] + gap + data[len(data) - (limit - head - len(gap)) :]
    return data.decode("utf-8", "ignore")
