"""Fixtures of the chaos tests. What they measure is printed at the end of the run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.chaos.harness import World
from tests.chaos.jobs_world import JobWorld
from tests.chaos.spark_drivers import SparkWorld
from tests.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def chaos_seconds(request: pytest.FixtureRequest) -> float:
    """How long the main test makes trouble."""
    return float(request.config.getoption("--chaos-seconds"))


@pytest.fixture
def report(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Say something at the end of the run."""
    return lambda line: record_property("chaos", line)


@pytest.fixture
def world(own_server: RedisServer, namespace: str, tmp_path: Path) -> Iterator[World]:
    world = World(own_server, namespace, tmp_path)
    yield world
    world.close()


@pytest.fixture
def job_world(own_server: RedisServer, namespace: str, tmp_path: Path) -> Iterator[JobWorld]:
    world = JobWorld(own_server, namespace, tmp_path)
    yield world
    world.close()


@pytest.fixture
def durable_server() -> Iterator[RedisServer]:
    """A store that answers only when the write is in its file. With `everysec` Redis answers first
    while the disk is busy, and a kill in that moment may cost acknowledged writes.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder), "--appendonly", "yes", "--appendfsync", "always").start()
        yield server
        server.kill()


@pytest.fixture
def durable_world(durable_server: RedisServer, namespace: str, tmp_path: Path) -> Iterator[World]:
    world = World(durable_server, namespace, tmp_path)
    yield world
    world.close()


@pytest.fixture
def durable_job_world(
    durable_server: RedisServer, namespace: str, tmp_path: Path
) -> Iterator[JobWorld]:
    world = JobWorld(durable_server, namespace, tmp_path)
    yield world
    world.close()


@pytest.fixture
def spark_world(own_server: RedisServer, namespace: str, tmp_path: Path) -> Iterator[SparkWorld]:
    with SparkWorld(own_server, namespace, tmp_path) as world:
        yield world


@pytest.fixture
def durable_spark_world(
    durable_server: RedisServer, namespace: str, tmp_path: Path
) -> Iterator[SparkWorld]:
    with SparkWorld(durable_server, namespace, tmp_path) as world:
        yield world
