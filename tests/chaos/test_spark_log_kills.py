"""Spark is killed while it reads a log or appends to one. What it reads is stored once, and what it
leaves half appended is finished, or never seen.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from penstock.client.fsck import check, repair
from penstock.model.staging import STAGE_MS
from tests.chaos.spark_program import COPY, LOG
from tests.multisets import assert_each_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.chaos.spark_drivers import Driver, SparkWorld
    from tests.chaos.spark_stops import Point

pytestmark = [pytest.mark.xdist_group("own spark"), pytest.mark.timeout(900)]

ROWS = 10_000
READING: tuple[Point, ...] = ("asked", "ranged", "reading", "read", "stored")
KILLS = 4
DAY_MS, GRACE_MS = STAGE_MS + 1000, 61_000


@pytest.fixture
def copy(spark_world: SparkWorld, tmp_path: Path) -> Copy:
    return Copy(spark_world, tmp_path)


def test_a_stream_from_log_to_log_that_is_killed_in_a_batch_appends_each_message_once(
    spark_world: SparkWorld, tmp_path: Path
) -> None:
    source, copied = spark_world.ps.log(LOG, partitions=2), spark_world.ps.log(COPY)
    source.append_many(b"%d" % number for number in range(6000))
    driver = spark_world.read_stream(None, tmp_path / "checkpoint", ["decided"])
    driver.wait_at("decided", COPY)
    driver.kill()
    assert list(copied.read()) == []

    spark_world.read_stream(None, tmp_path / "checkpoint").wait_for_success()

    for number in range(2):
        expected = [message.body for message in source.read(partition=number)]
        assert [message.body for message in copied.read(partition=number)] == expected
    assert spark_world.stages() == set()
    assert check(spark_world.ps).violations == []


@pytest.mark.long
def test_a_stream_of_a_log_that_is_killed_at_each_step_stores_each_message_once(
    copy: Copy, report: Callable[[str], None]
) -> None:
    copy.begin()
    with copy.filling():
        for point in READING:
            driver = copy.start([point])
            driver.wait_at(point, LOG)
            driver.kill()
    copy.finish()

    copy.assert_each_message_is_stored_once()
    report(
        f"{len(copy.sent)} messages of a log copied by Spark while more came; driver, JVM and "
        f"Python workers killed {len(READING)} times: {', '.join(READING)}"
    )


@pytest.mark.long
def test_a_stream_of_a_log_whose_jvm_or_python_workers_are_killed_stores_each_message_once(
    copy: Copy, report: Callable[[str], None]
) -> None:
    copy.begin()
    with copy.filling():
        driver = copy.start(["reading"])
        os.kill(driver.wait_at("reading", LOG), signal.SIGKILL)
        driver.wait_for_success()  # Spark tries the task again
        for point in ("reading", "stored"):
            driver = copy.start([point])
            driver.wait_at(point, LOG)
            driver.jvm().kill()
            assert driver.wait() != 0
    copy.finish()

    copy.assert_each_message_is_stored_once()
    report(
        f"{len(copy.sent)} messages of a log copied by Spark while more came; 1 Python worker "
        "killed while it read, and the JVM 2 times"
    )


@pytest.mark.long
def test_a_stream_of_a_log_that_is_killed_at_random_stores_each_message_once(
    copy: Copy, report: Callable[[str], None]
) -> None:
    chance = random.Random(97)
    copy.begin()
    kills = 0
    with copy.filling():
        for _ in range(KILLS):
            stored = copy.batches()
            driver = copy.start()
            driver.wait_until(lambda: copy.batches() > stored, "it stored a batch")  # noqa: B023
            time.sleep(chance.uniform(0.0, 1.5))
            kills += driver.is_running
            driver.kill()
    let_go = copy.let_go()
    copy.finish()

    copy.assert_each_message_is_stored_once()
    assert kills and let_go
    report(
        f"{len(copy.sent)} messages of a log copied by Spark while more came and {let_go} that "
        f"were stored were let go; driver, JVM and Python workers killed {kills} times at random"
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "age_ms", "rows"),
    [("prepared", DAY_MS, 0), ("decided", GRACE_MS, ROWS), ("moving", GRACE_MS, ROWS)],
)
def test_fsck_finishes_what_a_killed_driver_has_decided_and_drops_what_it_has_not(
    point: Point,
    age_ms: int,
    rows: int,
    spark_world: SparkWorld,
    report: Callable[[str], None],
) -> None:
    driver = spark_world.write_batches("today", rows=ROWS, stop_at=[point], targets=[LOG])
    driver.wait_at(point, LOG)
    driver.kill()
    assert len(spark_world.messages()) < ROWS
    assert check(spark_world.ps).violations == []
    grow_older(spark_world, age_ms)

    assert {each.kind for each in check(spark_world.ps).violations} == {"batch_is_not_finished"}
    assert repair(spark_world.ps, check(spark_world.ps)).violations == []

    assert_each_once(spark_world.messages(), (f"today-{row}" for row in range(rows)))
    assert spark_world.stages() == set()
    spark_world.write_batches("today", rows=ROWS, targets=[LOG]).wait_for_success()
    spark_world.assert_batches_are_there_once(["today"], ROWS, [LOG])
    report(f"{ROWS} rows to a log whose driver was killed when they were {point}, and fsck")


class Copy:
    """A stream that copies the log into files. Meanwhile more is appended, and the log has to keep
    nothing but what the stream has not stored.
    """

    def __init__(self, world: SparkWorld, folder: Path) -> None:
        self.sent: list[str] = []
        self._world = world
        self._log = world.ps.log(LOG, partitions=2)
        self._folder = folder / "copy"
        self._checkpoint = folder / "checkpoint"
        self._numbers = count()

    def begin(self) -> None:
        """The first run says for whom messages are kept."""
        self._append(2)
        self.start().wait_for_success()
        self._log.configure(keep_count=1)
        self._append(20_000)

    def start(self, stop_at: tuple[Point, ...] | list[Point] = ()) -> Driver:
        return self._world.read_stream(self._folder, self._checkpoint, stop_at)

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Messages come during a `with` block."""
        is_over = Event()

        def fill() -> None:
            while not is_over.wait(0.1):
                self._append(200)

        thread = Thread(target=fill)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def finish(self) -> None:
        """Read the rest; a further run notes that it is stored."""
        for _ in range(2):
            self.start().wait_for_success()

    def batches(self) -> int:
        """How many are stored."""
        return len(list((self._checkpoint / "commits").glob("[0-9]*")))

    def let_go(self) -> int:
        """How many the log has trimmed."""
        return sum(part.trimmed for part in self._log.info().partitions)

    def assert_each_message_is_stored_once(self) -> None:
        assert_each_once(self._stored(), self.sent)
        assert check(self._world.ps).violations == []
        self._append(10)
        for number in range(2):
            self._log.trim(id="9999999999999-0", partition=number)
        assert self._log.info().messages == 10  # all but those that are not stored

    def _append(self, number: int) -> None:
        bodies = [f"{next(self._numbers):06}" for _ in range(number)]
        self._log.append_many([body.encode() for body in bodies])
        self.sent += bodies

    def _stored(self) -> list[str]:
        """What is in the files that Spark says are part of the copy."""
        names = {
            entry["path"].rpartition("/")[2]
            for batch in (self._folder / "_spark_metadata").glob("[0-9]*")
            for line in batch.read_text().splitlines()[1:]
            for entry in [json.loads(line)]
        }
        tables = [pq.read_table(self._folder / name, columns=["body"]) for name in sorted(names)]
        return [body.decode() for table in tables for body in table["body"].to_pylist()]


def grow_older(world: SparkWorld, ms: int) -> None:
    """Let what is prepared for the log be so much older."""
    for number in range(2):
        key = world.ps.keys.queue(LOG).partition(number).prepared
        flat = world.ps.store.call(key, "HGETALL", key)
        for stage, entry in zip(flat[::2], flat[1::2], strict=True):
            token, version, at, rest = entry.decode().split(" ", 3)
            world.ps.store.call(
                key, "HSET", key, stage.decode(), f"{token} {version} {int(at) - ms} {rest}"
            )
