"""Spark is killed while it writes a batch to queues or a log, in whole and in parts, and the write
is run again under the same `batch_id`: every row gets in once.
"""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pytest

from tests.chaos.spark_program import LOG, QUEUES
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.spark_drivers import Driver, SparkWorld
    from tests.chaos.spark_stops import Point

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("own spark"), pytest.mark.timeout(900)]

ROWS, MANY_ROWS = 10_000, 40_000
KILLS = 5
POINTS: dict[str, tuple[Point, ...]] = {
    "queues": ("planned", "staging", "staged", "decided"),
    "log": ("planned", "staging", "staged", "prepared", "decided"),
}
"""All before the first row is moved."""
TARGETS = {"queues": QUEUES, "log": (LOG,)}

each_target = pytest.mark.parametrize("to", TARGETS)


@each_target
def test_a_batch_whose_driver_is_killed_at_each_step_gets_in_once(
    to: str, spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    targets = TARGETS[to]
    for point in POINTS[to]:
        driver = spark_world.write_batches("today", rows=ROWS, stop_at=[point], targets=targets)
        for target in targets:
            driver.wait_at(point, target)
        driver.kill()
        assert [spark_world.rows(target) for target in targets] == [[] for _ in targets]

    spark_world.write_batches("today", rows=ROWS, targets=targets).wait_for_success()

    spark_world.assert_batches_are_there_once(["today"], ROWS, targets)
    report(
        f"{ROWS} rows to {' and '.join(targets)} through Spark; driver, JVM and Python workers "
        f"killed {len(POINTS[to])} times: {', '.join(POINTS[to])}"
    )


@each_target
def test_batches_whose_drivers_are_killed_at_random_get_in_once(
    to: str, spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    targets = TARGETS[to]
    chance = random.Random(94)
    names = [f"batch{number}" for number in range(6)]
    done: list[str] = []
    kills = half_way = 0
    for _ in range(KILLS):
        before = spark_world.stages()
        # The last that is done is written again, to no effect.
        left = names[max(0, len(done) - 1) :]
        driver = spark_world.write_batches(*left, rows=MANY_ROWS, targets=targets)
        _wait_until_it_writes(driver, spark_world)
        time.sleep(chance.uniform(0.0, 2.5))
        kills += driver.is_running
        driver.kill()
        half_way += bool(spark_world.stages() - before)
        done = sorted({*done, *driver.done})

    spark_world.write_batches(*names, rows=MANY_ROWS, targets=targets).wait_for_success()

    spark_world.assert_batches_are_there_once(names, MANY_ROWS, targets)
    assert kills
    written = len(targets) * len(names)
    report(
        f"{written * MANY_ROWS} rows in {written} batches to {' and '.join(targets)} by Spark; "
        f"driver, JVM and Python workers killed {kills} times at random, {half_way} of them with "
        "rows staged that had not got in; then all batches written again"
    )


def _wait_until_it_writes(driver: Driver, world: SparkWorld) -> None:
    """A JVM takes longer to start than to write, so it is killed from its first row on."""
    before = world.stages()
    driver.wait_until(lambda: world.stages() - before or driver.done, "it wrote")


@each_target
def test_a_batch_whose_python_workers_or_jvm_are_killed_gets_in_once(
    to: str, spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    targets = TARGETS[to]
    driver = spark_world.write_batches("one", rows=ROWS, stop_at=["staging"], targets=targets)
    for target in targets:
        os.kill(driver.wait_at("staging", target), signal.SIGKILL)
    driver.wait_for_success()  # Spark tries the tasks again
    spark_world.assert_batches_are_there_once(["one"], ROWS, targets)

    driver = spark_world.write_batches("two", rows=ROWS, stop_at=["staging"], targets=targets)
    for target in targets:
        driver.wait_at("staging", target)
    driver.jvm().kill()
    assert driver.wait() != 0
    spark_world.write_batches("two", rows=ROWS, targets=targets).wait_for_success()

    spark_world.assert_batches_are_there_once(["one", "two"], ROWS, targets)
    report(
        f"{2 * len(targets) * ROWS} rows to {' and '.join(targets)} through Spark; {len(targets)} "
        "Python workers killed while staging, and 1 JVM"
    )


@each_target
def test_a_batch_whose_executor_is_killed_while_it_stages_gets_in_once(
    to: str, spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    targets = TARGETS[to]
    driver = spark_world.write_batches(
        *("today",),
        rows=ROWS,
        stop_at=["staging"],
        master="local-cluster[2,1,1024]",
        targets=targets,
    )
    executors = {
        executor.pid: executor
        for target in targets
        for executor in psutil.Process(driver.wait_at("staging", target)).parents()
        if any("CoarseGrainedExecutorBackend" in part for part in executor.cmdline())
    }
    for executor in executors.values():
        executor.kill()

    driver.wait_for_success()

    wait_for(lambda: not any(executor.is_running() for executor in executors.values()))
    spark_world.assert_batches_are_there_once(["today"], ROWS, targets)
    assert executors
    report(
        f"{len(targets) * ROWS} rows to {' and '.join(targets)} through Spark; {len(executors)} "
        "executors killed while staging"
    )
