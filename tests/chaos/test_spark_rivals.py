"""Two drivers write the same at the same time, as when one was thought to be dead, and the store is
killed beneath a driver: every row gets in once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.client.fsck import check
from tests.chaos.spark_program import JOBS, TASKS
from tests.multisets import assert_each_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.chaos.spark_drivers import SparkWorld
    from tests.chaos.spark_stops import Point

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("own spark"), pytest.mark.timeout(900)]

ROWS = 10_000
QUEUES = (TASKS, JOBS)


def test_two_drivers_with_the_same_batch_ids_send_each_row_once(
    spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    names = [f"batch{number}" for number in range(4)]
    slow = spark_world.write_batches(*names, rows=ROWS, stop_at=["staged"])
    for queue in QUEUES:
        slow.wait_at("staged", queue)
    quick = spark_world.write_batches(*names, rows=ROWS)
    quick.wait_until(lambda: quick.done, "its first batch was written")

    for queue in QUEUES:  # it decides what the other has decided; from here on they race
        slow.let_go("staged", queue)

    slow.wait_for_success()
    quick.wait_for_success()
    spark_world.assert_batches_are_there_once(names, ROWS)
    report(f"{2 * len(names) * ROWS} rows written by two drivers of Spark at the same time")


def test_two_drivers_on_one_checkpoint_send_each_row_once(
    spark_world: SparkWorld, tmp_path: Path, report: Callable[[str], None]
) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    for file in range(6):
        lines = (f"{file}-{row}\n" for row in range(ROWS))
        (files / f"{file}.txt").write_text("".join(lines))
    slow = spark_world.write_stream(files, checkpoint, stop_at=["staged"])
    slow.wait_at("staged")
    quick = spark_world.write_stream(files, checkpoint)
    first = checkpoint / "commits" / "0"
    quick.wait_until(first.exists, "its first batch was written")

    slow.let_go("staged")

    ended = [driver.wait() for driver in (slow, quick)]
    if 0 not in ended:  # each has found that the other is there
        spark_world.write_stream(files, checkpoint).wait_for_success()
    assert_each_once(
        spark_world.tasks(), (f"{file}-{row}" for file in range(6) for row in range(ROWS))
    )
    assert check(spark_world.ps).violations == []
    failed = sum(status != 0 for status in ended)
    report(f"{6 * ROWS} rows sent by two drivers on one checkpoint; Spark ended {failed} of them")


def test_a_batch_survives_a_store_that_is_killed_at_each_step(
    durable_spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    world = durable_spark_world
    points: tuple[Point, ...] = ("staging", "staged", "decided", "moving")
    driver = world.write_batches("today", rows=ROWS, stop_at=points)
    for point in points:
        for queue in QUEUES:
            driver.wait_at(point, queue)
        world.server.kill()
        for queue in QUEUES:  # they find no store
            driver.let_go(point, queue)
        world.server.start()

    driver.wait_for_success()

    world.assert_batches_are_there_once(["today"], ROWS)
    report(
        f"{2 * ROWS} rows through Spark; Redis killed and started again {len(points)} times: "
        f"{', '.join(points)}"
    )
