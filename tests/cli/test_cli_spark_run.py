"""`penstock spark run`, as far as it goes without Spark; tests/spark has the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine


def test_it_has_a_short_help_with_examples(cli: CommandLine) -> None:
    result = cli("spark", "run", "--help")

    said, _, examples = result.stdout.partition("Examples")
    assert result.exit_code == 0
    assert "penstock spark run app.jobs -q images --until-empty" in examples
    assert all(len(line) <= 80 for line in said.splitlines())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Missing option '-q' / '--queue'"),
        (["-q", "mail", "--conf", "spark.ui.enabled"], "'spark.ui.enabled' is not NAME=VALUE"),
        (["-q", "mail", "--workers", "0"], "Invalid value for '--workers'"),
        (
            ["-q", "mail", "--lease-ms", "100", "--heartbeat-ms", "100"],
            "--heartbeat-ms must be less than --lease-ms",
        ),
    ],
)
def test_what_is_not_understood_is_said_before_spark_is_started(
    cli: CommandLine, options: list[str], message: str
) -> None:
    result = cli("spark", "run", "app", *options)

    assert result.exit_code == 2
    assert message in result.stderr


def test_spark_connect_is_refused_in_one_line(cli: CommandLine) -> None:
    result = cli("spark", "run", "app", "-q", "mail", "--master", "sc://host")

    assert result.exit_code == 1
    assert result.stderr == (
        "penstock: workers do not run through Spark Connect; give the master of the cluster "
        "itself, such as spark://host:7077, and unset SPARK_REMOTE\n"
    )
