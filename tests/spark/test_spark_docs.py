"""docs/spark.md tells the truth: its examples run, and its tables are those of the code."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.spark.options import EVERYWHERE
from penstock.spark.schemas import RESULTS
from penstock.spark.source import READERS, WRITES
from tests.unit.test_docs import README, SPARK, examples_in

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

TEXT = SPARK.read_text()


def test_the_examples_run_one_after_the_other_in_a_session(
    spark: SparkSession,
    environment: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    examples = [examples_in(document, for_spark=True) for document in (SPARK, README)]
    for code in (code for found in examples for code in found):
        exec(compile(code, "docs/spark.md", "exec"), {"__name__": "__main__"})


def tables(first: str) -> list[list[list[str]]]:
    """The cells of each table whose first column has this name, without its head."""
    found = re.findall(rf"^\| {first} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", TEXT, re.M)
    return [[_cells(line) for line in table.splitlines()] for table in found]


def _cells(line: str) -> list[str]:
    return [cell.strip(" `") for cell in line.strip("|").split(" | ")]


def test_every_schema_is_described_column_by_column() -> None:
    described = [[row[:2] for row in table] for table in tables("column")]

    for schema in (RESULTS, *(readable.schema for readable in READERS.values())):
        columns = [[field.name, field.dataType.simpleString().upper()] for field in schema.fields]
        assert columns in described


def test_every_option_is_described() -> None:
    described = [[row[0] for row in table] for table in tables("option")]

    assert [option.name for option in EVERYWHERE] in described
    for kind in (*READERS, *WRITES):
        assert [option.name for option in (kind.target, *kind.options)] in described
