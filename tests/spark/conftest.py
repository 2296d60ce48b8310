"""One Spark session for all tests that need one; they run in one process after each other.

Tests that start a Spark of their own are another group, "own spark": they run beside those, one at
a time.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

import penstock.spark
from tests.conftest import shared_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrameReader, SparkSession

    from tests.servers import RedisCluster, RedisServer

TIMEOUT_S = 360
"""Of a test with Spark, as the first use of a data source takes long on a busy machine."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def event_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the session says all that it does."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def environment(servers: dict[str, RedisServer | RedisCluster]) -> dict[str, str]:
    """Where the session looks for queues if a test does not say where."""
    url = shared_server(servers, "debian").url
    return {"PENSTOCK_URL": url, "PENSTOCK_NAMESPACE": f"spark-{uuid.uuid4().hex[:12]}"}


@pytest.fixture(scope="session")
def spark(
    event_log: Path, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session with two cores that tries a task twice, shared by all tests."""
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        session = penstock.spark.session(
            "local[2,2]",
            "penstock-tests",
            {
                "spark.sql.shuffle.partitions": "2",
                # To compile each plan takes longer than to run it on a few rows. What starts a
                # Spark of its own (commands, clusters, the demo) runs compiled.
                "spark.sql.codegen.wholeStage": "false",
                "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                "spark.ui.enabled": "false",
                # Of 15 s, in which a busy machine may not get round to it.
                "spark.python.authenticate.socketTimeout": "120s",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.local.dir": str(folder / "local"),
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": event_log.as_uri(),
            },
        )
    yield session
    session.stop()


@pytest.fixture
def read(spark: SparkSession, server: RedisServer, namespace: str) -> DataFrameReader:
    """A reader of penstock on the shared server; the test says what is read."""
    return spark.read.format("penstock").option("url", server.url).option("namespace", namespace)
