"""Errors that came through Spark, which keeps only their text."""

from __future__ import annotations

import re

import penstock.errors
from penstock.errors import PenstockError

_RAISED = re.compile(r"penstock\.errors\.(\w+): (.+)")
# The line with which Python ends a traceback, and Java begins one.
_REASON = re.compile(r"^(?:Caused by: |: )?((?:\w+\.)*\w*(?:Error|Exception): .+)$", re.MULTILINE)
# The library for Delta tables puts each cause into a line of its own, in colour.
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_CAUSE = re.compile(r"\s*\n\s*↳\s*")
_QUERY = re.compile(r"^\[STREAM_FAILED\] Query .*? terminated with exception: ")
_MOST_CHARACTERS = 300


def penstock_error(error: BaseException) -> PenstockError | None:
    """The error that penstock raised in another process of Spark; None if it was an error of
    another library.
    """
    for name, message in reversed(_RAISED.findall(str(error))):
        kind = getattr(penstock.errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            try:
                return kind(message.strip())
            except TypeError:  # one that is made of more than its message
                return PenstockError(message.strip())
    return None


def reason_of(error: BaseException) -> str:
    """What has failed, in one line: the last error of Python or Java in the text, else its first
    line.
    """
    text = _CAUSE.sub(": ", _COLOUR.sub("", str(error))).strip()
    named = _REASON.findall(text)
    line = named[-1] if named else (text.splitlines() or [type(error).__name__])[0]
    line = _QUERY.sub("", line)
    if len(line) <= _MOST_CHARACTERS:
        return line
    half = _MOST_CHARACTERS // 2  # the first words say what, the last ones why
    return f"{line[:half]} ... {line[-half:]}"
