"""`penstock spark archive|report`."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from penstock.spark.history_lake import Lake
from penstock.spark.lake_files import write_rows
from penstock.spark.reports.report import TABLES
from tests.cli.conftest import CommandLine, cells
from tests.spark.synthetic_history import history

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import RedisServer

WITHOUT_PYSPARK = """
import importlib.metadata as metadata
known = metadata.version
def version(name):
    if name.startswith("pyspark"):
        raise metadata.PackageNotFoundError(name)
    return known(name)
metadata.version = version
from penstock.cli import main
main()
"""


@pytest.fixture
def cli(server: RedisServer, namespace: str) -> CommandLine:
    return CommandLine(server.url, namespace)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    table = Lake(tmp_path / "history").table("attempts")
    table.append(write_rows(history(2000), table, "ended_at"), "archive", 0)
    return tmp_path / "history"


def without_pyspark(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK, "spark", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_pyspark_the_group_still_explains_itself() -> None:
    result = without_pyspark("--help")

    assert result.returncode == 0
    assert "archive" in result.stdout
    assert "report" in result.stdout


@pytest.mark.parametrize(
    "arguments", [("report", "history/"), ("archive", "--to", "history/", "--url", "redis://none")]
)
def test_without_pyspark_commands_say_how_to_install_it(arguments: tuple[str, ...]) -> None:
    result = without_pyspark(*arguments)

    assert result.returncode == 1
    assert "pip install 'penstock-queue[spark]'" in result.stderr


@pytest.mark.parametrize("command", ["archive", "report"])
def test_each_command_has_a_short_help_with_an_example(cli: CommandLine, command: str) -> None:
    result = cli("spark", command, "--help")

    said, _, examples = result.stdout.partition("Example")
    assert result.exit_code == 0
    assert f"penstock spark {command}" in examples
    assert all(len(line) <= 80 for line in said.splitlines())


def test_a_storage_option_without_a_value_is_refused(cli: CommandLine) -> None:
    result = cli("spark", "report", "s3://bucket/history", "--storage", "AWS_REGION")

    assert result.exit_code == 2
    assert "'AWS_REGION' is not of the form NAME=VALUE" in result.stderr


@pytest.mark.usefixtures("spark")
def test_a_report_is_a_page_tables_and_parquet(
    cli: CommandLine, place: Path, tmp_path: Path
) -> None:
    page, tables = tmp_path / "report.html", tmp_path / "tables"

    result = cli("spark", "report", str(place), "--html", str(page), "--parquet", str(tables))

    assert result.exit_code == 0, result.output
    lines = cells(result.stdout)
    assert ["2,000", "attempts", "ended", "in"] in [line[:4] for line in lines]
    assert ["type", "queue", "outcome", "error", "attempts", "share", "dead"] in lines
    assert f"wrote {page}" in result.stdout
    assert page.read_text().startswith("<!doctype html>")
    assert {path.stem for path in tables.iterdir()} == set(TABLES)
    assert pq.read_table(tables / "workers.parquet").num_rows == 5


@pytest.mark.usefixtures("spark")
def test_programs_get_all_tables(cli: CommandLine, place: Path) -> None:
    document = cli.json("spark", "report", str(place), "-q", "mail", "--until", "2026-11-17T00:00Z")

    assert tuple(document["tables"]) == TABLES
    assert document["until"] == "2026-11-17T00:00:00+00:00"
    assert {row["queue"] for row in document["tables"]["throughput"]} == {"mail"}


@pytest.mark.usefixtures("spark")
def test_a_report_of_nothing_is_an_error(cli: CommandLine, tmp_path: Path) -> None:
    result = cli("spark", "report", str(tmp_path / "nothing"), "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "lake_not_found"
