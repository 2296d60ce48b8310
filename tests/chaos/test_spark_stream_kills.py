"""Spark is killed while it sends files to a queue or a log, and started again on the same
checkpoint: every row gets in once.
"""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from penstock.client.fsck import check
from tests.chaos.spark_drivers import SparkWorld
from tests.chaos.spark_program import LOG, TASKS
from tests.multisets import assert_each_once

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.chaos.spark_drivers import Driver
    from tests.chaos.spark_stops import Point

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("own spark"), pytest.mark.timeout(900)]

FILES, ROWS = 12, 2_000
KILLS = 3
FRONTS: dict[str, Callable[..., Driver]] = {
    "writeStream": SparkWorld.write_stream,
    "writeStream to a log": partial(SparkWorld.write_stream, target=LOG),
    "penstock spark ingest": SparkWorld.ingest,
}
TARGETS = dict.fromkeys(FRONTS, TASKS) | {"writeStream to a log": LOG}
BEFORE_CHECKPOINT: tuple[Point, ...] = ("staged", "decided", "moved")
"""Before the sink has written anything, right after, and when all is over but for the checkpoint.
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Files of which each becomes a micro-batch."""
    folder = tmp_path / "files"
    folder.mkdir()
    for file in range(FILES):
        lines = (f"{file}-{row}\n" for row in range(ROWS))
        (folder / f"{file}.txt").write_text("".join(lines))
    return folder


@pytest.mark.parametrize("front", FRONTS)
def test_a_stream_that_is_killed_around_the_sink_and_the_checkpoint_sends_each_row_once(
    front: str, spark_world: SparkWorld, files: Path, tmp_path: Path, report: Callable[[str], None]
) -> None:
    checkpoint = tmp_path / "checkpoint"
    for point in BEFORE_CHECKPOINT:
        sent = _committed(checkpoint)
        driver = FRONTS[front](spark_world, files, checkpoint, [point])
        driver.wait_at(point, TARGETS[front])
        driver.kill()
        assert _committed(checkpoint) == sent
        assert (checkpoint / "offsets" / str(sent)).exists()
        sent_rows = ROWS * (sent + (point == "moved"))
        assert len(spark_world.rows(TARGETS[front])) == sent_rows
    sent = _committed(checkpoint)
    driver = FRONTS[front](spark_world, files, checkpoint)
    driver.wait_until(lambda: _committed(checkpoint) > sent, "it committed")
    driver.kill()
    FRONTS[front](spark_world, files, checkpoint).wait_for_success()

    _assert_each_row_is_there_once(spark_world, TARGETS[front])
    report(
        f"{FILES * ROWS} rows by {front}; driver, JVM and Python workers killed 4 times: "
        f"{', '.join(BEFORE_CHECKPOINT)}, committed"
    )


@pytest.mark.parametrize("front", FRONTS)
def test_a_stream_that_is_killed_at_random_sends_each_row_once(
    front: str, spark_world: SparkWorld, files: Path, tmp_path: Path, report: Callable[[str], None]
) -> None:
    chance = random.Random(95)
    checkpoint = tmp_path / "checkpoint"
    kills = 0
    for _ in range(KILLS):
        driver = FRONTS[front](spark_world, files, checkpoint)
        _wait_until_it_writes(driver, spark_world)
        time.sleep(chance.uniform(0.0, 2.5))
        kills += driver.is_running
        driver.kill()
    FRONTS[front](spark_world, files, checkpoint).wait_for_success()

    _assert_each_row_is_there_once(spark_world, TARGETS[front])
    assert kills
    report(
        f"{FILES * ROWS} rows by {front}; driver, JVM and Python workers killed {kills} times at "
        "random"
    )


def _wait_until_it_writes(driver: Driver, world: SparkWorld) -> None:
    """A JVM takes longer to start than to write, so it is killed from its first row on."""
    before = world.stages()
    driver.wait_until(lambda: world.stages() - before or not driver.is_running, "it wrote")


def _assert_each_row_is_there_once(world: SparkWorld, target: str) -> None:
    assert_each_once(
        world.rows(target), (f"{file}-{row}" for file in range(FILES) for row in range(ROWS))
    )
    assert check(world.ps).violations == []


def _committed(checkpoint: Path) -> int:
    """How many micro-batches Spark knows to be written; they count from 0."""
    found = (checkpoint / "commits").glob("[0-9]*")
    return max((int(path.name) + 1 for path in found), default=0)
