"""Errors that came through Spark, in one line."""

from __future__ import annotations

import pytest

from penstock.spark.failures import reason_of


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "OSError"),
        ("no such host\nat line 7", "no such host"),
        ("[STREAM_FAILED] Query [id = 1] terminated with exception: too late", "too late"),
        (
            "Job aborted\nTraceback:\n  File x\nOSError: disk full\n\tat Java",
            "OSError: disk full",
        ),
        (
            "java.lang.Exception: outside\nCaused by: java.io.IOException: inside\n\tat Java",
            "java.io.IOException: inside",
        ),
        (
            "Generic error\n  \x1b[31m↳\x1b[0m Unable to copy\n  \x1b[31m↳\x1b[0m full\n",
            "Generic error: Unable to copy: full",
        ),
        ("what " * 99 + "why " * 99 + "!", "what " * 30 + " ... " + " why" * 37 + " !"),
    ],
)
def test_the_reason_is_what_was_said_last_by_the_program_that_failed(
    said: str, reason: str
) -> None:
    assert reason_of(OSError(said)) == reason
