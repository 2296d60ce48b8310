"""Runs every hostile case and prints one line for each: how it went, what was tried, how long."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


class LineForEachCase:
    """Prints a line when a case has ended, and the reasons of failures below it."""

    def __init__(self) -> None:
        self.failures = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        has_failed = report.failed
        if report.when != "call" and not has_failed:
            return
        self.failures += has_failed
        word = "FAILED" if has_failed else "ok"
        sys.stdout.write(f"{word:7}{_sentence(report.nodeid)}  {report.duration:.1f} s\n")
        if has_failed:
            sys.stdout.write(f"{report.longreprtext}\n")
        sys.stdout.flush()


def _sentence(nodeid: str) -> str:
    """The name of a test, as the sentence that it is."""
    return nodeid.partition("::")[2].removeprefix("test_").replace("_", " ")


def main(arguments: list[str]) -> int:
    lines = LineForEachCase()
    folder = str(Path(__file__).parent)
    ended = pytest.main(
        [folder, "-o", "addopts=", "-p", "no:terminal", *arguments], plugins=[lines]
    )
    return int(ended) or int(lines.failures > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
