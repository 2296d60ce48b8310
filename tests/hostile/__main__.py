"""Runs every hostile case and prints one line for each: how it went, what was tried, how long."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


class LineForEachCase:
    """Prints a line when a case has ended, and all of what went wrong below the last one."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        has_failed = report.failed
        if report.when != "call" and not has_failed:
            return
        word = "FAILED" if has_failed else "ok"
        line = f"{word:7}{_sentence(report.nodeid)}  {report.duration:.1f} s"
        sys.stdout.write(line.replace("\n", " ") + "\n")
        sys.stdout.flush()
        if has_failed:
            self.failures.append(f"{line}\n{report.longreprtext}\n")


def _sentence(nodeid: str) -> str:
    """The name of a test, as the sentence that it is."""
    return nodeid.partition("::")[2].removeprefix("test_").replace("_", " ")


def main(arguments: list[str]) -> int:
    lines = LineForEachCase()
    folder = str(Path(__file__).parent)
    ended = pytest.main(
        [folder, "-o", "addopts=", "-p", "no:terminal", *arguments], plugins=[lines]
    )
    sys.stdout.write("".join(f"\n{failure}" for failure in lines.failures))
    return int(ended) or int(bool(lines.failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
