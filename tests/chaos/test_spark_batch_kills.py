"""Spark is killed while it writes a batch, in whole and in parts, and the write is run again under
the same `batch_id`: every row gets in once.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pytest

from tests.chaos.spark_program import JOBS, TASKS
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.spark_drivers import Driver, SparkWorld
    from tests.chaos.spark_stops import Point

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("own spark"), pytest.mark.timeout(900)]

ROWS, MANY_ROWS = 10_000, 40_000
KILLS = 5
POINTS: tuple[Point, ...] = ("planned", "staging", "staged", "decided")
"""All before the first row is moved."""


def test_a_batch_whose_driver_is_killed_at_each_step_gets_in_once(
    spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    for point in POINTS:
        driver = spark_world.write_batches("today", rows=ROWS, stop_at=[point])
        driver.wait_at(point, TASKS)
        driver.wait_at(point, JOBS)
        driver.kill()
        assert not spark_world.tasks() and not spark_world.jobs()

    spark_world.write_batches("today", rows=ROWS).wait_for_success()

    spark_world.assert_batches_are_there_once(["today"], ROWS)
    report(
        f"{ROWS} rows as tasks and {ROWS} as jobs through Spark; driver, JVM and Python workers "
        f"killed {len(POINTS)} times: {', '.join(POINTS)}"
    )


def test_batches_whose_drivers_are_killed_at_random_get_in_once(
    spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    chance = random.Random(94)
    names = [f"batch{number}" for number in range(6)]
    done: list[str] = []
    kills = half_way = 0
    for _ in range(KILLS):
        before = spark_world.stages()
        # The last that is done is written again, to no effect.
        driver = spark_world.write_batches(*names[max(0, len(done) - 1) :], rows=MANY_ROWS)
        _wait_until_it_writes(driver, spark_world)
        time.sleep(chance.uniform(0.0, 2.5))
        kills += driver.is_running
        driver.kill()
        half_way += bool(spark_world.stages() - before)
        done = sorted({*done, *driver.done})

    spark_world.write_batches(*names, rows=MANY_ROWS).wait_for_success()

    spark_world.assert_batches_are_there_once(names, MANY_ROWS)
    assert kills
    report(
        f"{2 * len(names) * MANY_ROWS} rows in {2 * len(names)} batches through Spark; driver, JVM "
        f"and Python workers killed {kills} times at random, {half_way} of them with rows staged "
        "that were not in their queue; then all batches written again"
    )


def _wait_until_it_writes(driver: Driver, world: SparkWorld) -> None:
    """A JVM takes longer to start than to write, so it is killed from its first row on."""
    before = world.stages()
    driver.wait_until(lambda: world.stages() - before or driver.done, "it wrote")


def test_a_batch_whose_python_workers_or_jvm_are_killed_gets_in_once(
    spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    driver = spark_world.write_batches("one", rows=ROWS, stop_at=["staging"])
    for queue in (TASKS, JOBS):
        os.kill(driver.wait_at("staging", queue), signal.SIGKILL)
    driver.wait_for_success()  # Spark tries the tasks again
    spark_world.assert_batches_are_there_once(["one"], ROWS)

    driver = spark_world.write_batches("two", rows=ROWS, stop_at=["staging"])
    for queue in (TASKS, JOBS):
        driver.wait_at("staging", queue)
    driver.jvm().kill()
    assert driver.wait() != 0
    spark_world.write_batches("two", rows=ROWS).wait_for_success()

    spark_world.assert_batches_are_there_once(["one", "two"], ROWS)
    report(f"{4 * ROWS} rows through Spark; 2 Python workers killed while staging, and 1 JVM")


def test_a_batch_whose_executor_is_killed_while_it_stages_gets_in_once(
    spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    driver = spark_world.write_batches(
        "today", rows=ROWS, stop_at=["staging"], master="local-cluster[2,1,1024]"
    )
    executors = {
        executor.pid: executor
        for queue in (TASKS, JOBS)
        for executor in psutil.Process(driver.wait_at("staging", queue)).parents()
        if any("CoarseGrainedExecutorBackend" in part for part in executor.cmdline())
    }
    for executor in executors.values():
        executor.kill()

    driver.wait_for_success()

    wait_for(lambda: not any(executor.is_running() for executor in executors.values()))
    spark_world.assert_batches_are_there_once(["today"], ROWS)
    assert executors
    report(f"{2 * ROWS} rows through Spark; {len(executors)} executors killed while staging")
