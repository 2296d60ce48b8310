"""The SPARK_HOME with which Spark's Python processes import compiled modules."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from penstock.spark.home import compiled_modules, linked_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSTALLED = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_python_processes_of_spark_import_the_installed_pyspark(spark: SparkSession) -> None:
    def place(_: object) -> list[str]:
        import pyspark  # noqa: PLC0415 - this runs in a process of Spark

        return [pyspark.__file__]

    (found,) = spark.sparkContext.parallelize([1], 1).mapPartitions(place).collect()

    assert Path(found) == INSTALLED / "__init__.py"


def test_it_has_everything_but_the_zip(tmp_path: Path) -> None:
    home = linked_home(tmp_path)

    there = {part.name for part in INSTALLED.iterdir()}
    assert {part.name for part in home.iterdir()} == there - {"python"}
    assert (home / "bin" / "spark-submit").samefile(INSTALLED / "bin" / "spark-submit")


def test_it_is_made_once_and_again_if_somebody_has_emptied_it(tmp_path: Path) -> None:
    home = linked_home(tmp_path)
    assert linked_home(tmp_path) == home
    for part in home.iterdir():
        part.unlink()

    assert linked_home(tmp_path) == home
    assert (home / "bin" / "spark-submit").exists()
    assert list(tmp_path.iterdir()) == [home]


@pytest.mark.parametrize("master", [None, "local", "local[2]", "local[2,2]"])
def test_it_is_used_on_one_machine(master: str | None, tmp_path: Path) -> None:
    with compiled_modules(master):
        assert Path(os.environ["SPARK_HOME"]).parent == tmp_path / "penstock"

    assert "SPARK_HOME" not in os.environ


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "local-cluster[2,1,1024]"])
def test_a_cluster_may_need_the_zip(master: str) -> None:
    with compiled_modules(master):
        assert "SPARK_HOME" not in os.environ


@pytest.mark.parametrize("name", ["SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"])
def test_a_spark_that_was_set_up_by_hand_is_left_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "mine")

    with compiled_modules("local[2]"):
        assert os.environ.get("SPARK_HOME") == ("mine" if name == "SPARK_HOME" else None)


def test_a_pyspark_with_settings_of_its_own_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    monkeypatch.setattr("penstock.spark.home._installed", lambda: tmp_path)

    with compiled_modules(None):
        assert "SPARK_HOME" not in os.environ


def test_without_a_cache_spark_runs_as_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    with compiled_modules(None):
        assert "SPARK_HOME" not in os.environ
