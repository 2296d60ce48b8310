"""The command line, run in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from penstock.cli.program import program
from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    from click.testing import Result

    import penstock
    from tests.servers import RedisServer


class CommandLine:
    """`penstock` with the store and namespace of a test in its environment."""

    def __init__(self, url: str, namespace: str | None, columns: int = 120) -> None:
        self._runner = CliRunner(
            env={
                "PENSTOCK_URL": url,
                "PENSTOCK_NAMESPACE": namespace,
                "PENSTOCK_DATA": None,
                "COLUMNS": str(columns),
            }
        )

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> Result:
        return self._runner.invoke(
            program, arguments, input=stdin, prog_name="penstock", catch_exceptions=False
        )

    def json(self, *arguments: str, stdin: bytes | None = None) -> Any:
        """What a program gets that asked for something possible."""
        result = self(*arguments, "--json", stdin=stdin)
        assert result.exit_code == 0, result.output
        assert result.stderr == ""
        return json.loads(result.stdout)


@pytest.fixture
def cli(server: RedisServer, namespace: str) -> CommandLine:
    return CommandLine(server.url, namespace)


@pytest.fixture
def mail(ps: penstock.Penstock) -> penstock.Jobs:
    """The queue of jobs that most tests use."""
    return ps.jobs("mail")


@pytest.fixture
def hand(ps: penstock.Penstock) -> Hand:
    """A worker for jobs of all types, driven by the test."""
    return Hand(ps)


def cells(stdout: str) -> list[list[str]]:
    """The words of a table, line by line, without the rule below its head."""
    return [line.split() for line in stdout.splitlines() if line.strip("─ ")]
