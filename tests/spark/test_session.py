"""Sessions, registration, and what is said where Spark is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

import penstock.spark
from penstock.errors import SparkNotFound
from penstock.spark.requirements import check_pyspark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrameReader, SparkSession

    from tests.servers import RedisServer


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.10.1", "4.4.0.dev1"])
def test_versions_of_pyspark_that_work(version: str) -> None:
    check_pyspark(version)


@pytest.mark.parametrize("version", ["3.5.8", "4.0.1", "4.1.0", "5.0.0", "5.0.0.dev2"])
def test_other_versions_of_pyspark_are_refused(version: str) -> None:
    with pytest.raises(SparkNotFound) as caught:
        check_pyspark(version)

    assert str(caught.value) == (
        f"penstock.spark needs pyspark>=4.2,<5, but {version} is installed; install one with pip "
        "install 'penstock-queue[spark]'"
    )


def test_without_pyspark_the_error_says_how_to_get_it() -> None:
    with pytest.raises(SparkNotFound, match="not installed; install one with pip install"):
        check_pyspark(None)


def test_the_module_for_automatic_registration_never_raises_on_import(tmp_path: Path) -> None:
    (tmp_path / "penstock").mkdir()  # hides the real one, so that nothing can be imported from it
    (tmp_path / "penstock" / "__init__.py").write_text("raise ValueError('broken')")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import pyspark_penstock\n"
        "assert pyspark_penstock.DefaultSource.name() == 'penstock'\n"
        "pyspark_penstock.DefaultSource({})\n"
    )

    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert run.stderr.splitlines()[-1] == "ValueError: broken"


def test_a_session_that_runs_is_kept(spark: SparkSession) -> None:
    assert penstock.spark.session() is spark


def test_spark_finds_the_source_by_itself(
    spark: SparkSession, server: RedisServer, namespace: str, queue: penstock.Queue
) -> None:
    queue.enqueue(b"a")
    fresh = spark.newSession()  # nothing is registered in it by hand

    read = fresh.read.format("penstock").option("url", server.url).option("namespace", namespace)

    assert read.option("queue", "mail").load().count() == 1


def test_options_given_in_sql_arrive(
    spark: SparkSession, server: RedisServer, namespace: str, queue: penstock.Queue
) -> None:
    queue.enqueue(b"a")
    spark.sql(
        "CREATE TEMPORARY VIEW tasks USING penstock "
        f"OPTIONS (url '{server.url}', namespace '{namespace}', queue 'mail')"
    )

    assert spark.sql("SELECT count(*) FROM tasks").collect()[0][0] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give exactly one of the options .*queue.*; none was given"),
        ({"queue": "mail", "stat": "dead"}, "there is no option 'stat' to read tasks of a queue"),
        ({"queue": "mail", "state": "done"}, "option 'state' is 'done'; give waiting or dead"),
        ({"queue": "mail", "url": "http://:sesame@host"}, "the store URL begins with 'http'"),
    ],
)
def test_wrong_options_are_told_to_the_reader(
    read: DataFrameReader, options: dict[str, str], message: str
) -> None:
    with pytest.raises(AnalysisException, match=message) as caught:
        read.options(**options).load().collect()

    assert "sesame" not in str(caught.value)


def test_a_schema_of_ones_own_is_refused(read: DataFrameReader, queue: penstock.Queue) -> None:
    queue.enqueue(b"a")

    with pytest.raises(AnalysisException, match=r"but it is always struct<payload:binary"):
        read.schema("payload STRING").option("queue", "mail").load().collect()


def test_a_path_is_refused(read: DataFrameReader) -> None:
    with pytest.raises(AnalysisException, match="has no paths"):
        read.load("mail")


def test_the_environment_in_which_spark_was_started_names_the_store(
    spark: SparkSession, environment: dict[str, str]
) -> None:
    url, namespace = environment.values()
    with penstock.connect(url, namespace=namespace) as ps:
        ps.queue("mail").enqueue(b"a")

    assert spark.read.format("penstock").option("queue", "mail").load().count() == 1


CONNECT = """
import penstock.spark

spark = penstock.spark.session()
assert type(spark).__module__ == "pyspark.sql.connect.session"
print(spark.read.format("penstock").option("queue", "mail").load().count())
orders = spark.range(3).selectExpr("id AS order")
for _ in range(2):
    writer = orders.write.format("penstock").mode("append").option("jobs", "orders")
    writer.option("type", "bill").option("batch_id", "today").save()
jobs = spark.read.format("penstock").options(jobs="orders", state="ready").load()
print(sorted(row.data for row in jobs.collect()))
spark.stop()
"""


@pytest.mark.xdist_group("own spark")
@pytest.mark.timeout(240)
def test_a_session_of_spark_connect_reads_and_writes_too(
    server: RedisServer, namespace: str, ps: penstock.Penstock, queue: penstock.Queue
) -> None:
    queue.enqueue_many([b"a", b"b"])
    names = {"PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": namespace}

    run = subprocess.run(
        [sys.executable, "-c", CONNECT],
        env={**os.environ, **names, "SPARK_REMOTE": "local[1]"},
        capture_output=True,
        text=True,
        check=False,
    )

    orders = ['{"order":0}', '{"order":1}', '{"order":2}']
    assert run.stdout == f"2\n{orders}\n", run.stderr
    assert sorted(job.data.decode() for job in ps.jobs("orders").page("ready").jobs) == orders
    assert "UserWarning" not in run.stderr
