"""Two drivers write the same at the same time, as when one was thought to be dead, and the store is
killed beneath a driver: every row gets in once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.client.fsck import check
from tests.chaos.spark_program import LOG, QUEUES, TASKS
from tests.multisets import assert_each_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.chaos.spark_drivers import SparkWorld
    from tests.chaos.spark_stops import Point

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("own spark"), pytest.mark.timeout(900)]

ROWS = 10_000
TARGETS = {"queues": QUEUES, "log": (LOG,)}
STEPS: dict[str, tuple[Point, ...]] = {
    "queues": ("staging", "staged", "decided", "moving"),
    "log": ("staging", "staged", "prepared", "decided", "moving"),
}

each_target = pytest.mark.parametrize("to", TARGETS)


@pytest.mark.parametrize(
    ("to", "point"), [("queues", "staged"), ("log", "staged"), ("log", "prepared")]
)
def test_two_drivers_with_the_same_batch_ids_send_each_row_once(
    to: str, point: Point, spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    targets = TARGETS[to]
    names = [f"batch{number}" for number in range(4)]
    slow = spark_world.write_batches(*names, rows=ROWS, stop_at=[point], targets=targets)
    for target in targets:
        slow.wait_at(point, target)
    quick = spark_world.write_batches(*names, rows=ROWS, targets=targets)
    quick.wait_until(lambda: quick.done, "its first batch was written")

    for target in targets:  # it decides what the other has decided; from here on they race
        slow.let_go(point, target)

    slow.wait_for_success()
    quick.wait_for_success()
    spark_world.assert_batches_are_there_once(names, ROWS, targets)
    report(
        f"{len(targets) * len(names) * ROWS} rows written to {' and '.join(targets)} by two "
        "drivers of Spark at the same time"
    )


@pytest.mark.parametrize("target", [TASKS, LOG])
def test_two_drivers_on_one_checkpoint_send_each_row_once(
    target: str, spark_world: SparkWorld, tmp_path: Path, report: Callable[[str], None]
) -> None:
    files, checkpoint = tmp_path / "files", tmp_path / "checkpoint"
    files.mkdir()
    for file in range(6):
        lines = (f"{file}-{row}\n" for row in range(ROWS))
        (files / f"{file}.txt").write_text("".join(lines))
    slow = spark_world.write_stream(files, checkpoint, ["staged"], target)
    slow.wait_at("staged", target)
    quick = spark_world.write_stream(files, checkpoint, target=target)
    first = checkpoint / "commits" / "0"
    quick.wait_until(first.exists, "its first batch was written")

    slow.let_go("staged", target)

    ended = [driver.wait() for driver in (slow, quick)]
    if 0 not in ended:  # each has found that the other is there
        spark_world.write_stream(files, checkpoint, target=target).wait_for_success()
    assert_each_once(
        spark_world.rows(target), (f"{file}-{row}" for file in range(6) for row in range(ROWS))
    )
    assert check(spark_world.ps).violations == []
    failed = sum(status != 0 for status in ended)
    report(f"{6 * ROWS} rows sent by two drivers on one checkpoint; Spark ended {failed} of them")


@each_target
def test_a_batch_survives_a_store_that_is_killed_at_each_step(
    to: str, durable_spark_world: SparkWorld, report: Callable[[str], None]
) -> None:
    world, targets, points = durable_spark_world, TARGETS[to], STEPS[to]
    driver = world.write_batches("today", rows=ROWS, stop_at=points, targets=targets)
    for point in points:
        for target in targets:
            driver.wait_at(point, target)
        world.server.kill()
        for target in targets:  # they find no store
            driver.let_go(point, target)
        world.server.start()

    driver.wait_for_success()

    world.assert_batches_are_there_once(["today"], ROWS, targets)
    report(
        f"{len(targets) * ROWS} rows to {' and '.join(targets)} through Spark; Redis killed and "
        f"started again {len(points)} times: {', '.join(points)}"
    )
