"""What can break while an archive writes: workers, disks, entries that nobody can read."""

from __future__ import annotations

import os
import resource
import signal
from collections import Counter
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from penstock.errors import ArchiveFailed, HistoryLost, UnknownLayout
from tests.proxy import Fault, FaultProxy
from tests.spark.archive_rig import PATIENCE_S, Rig, Running
from tests.spark.history_worlds import copy_last_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

    import penstock
    from tests.servers import RedisServer

MANY = 10_000


@pytest.fixture
def rig(spark: SparkSession, ps: penstock.Penstock, server: RedisServer, tmp_path: Path) -> Rig:
    return Rig(spark, ps, server, tmp_path / "history")


@contextmanager
def small_files(size: int, *processes: int) -> Iterator[None]:
    """Let these processes write no file that is larger, as on a disk that is full."""
    former = {}
    for process in processes:
        former[process] = resource.prlimit(process, resource.RLIMIT_FSIZE)
        resource.prlimit(process, resource.RLIMIT_FSIZE, (size, former[process][1]))
    try:
        yield
    finally:
        for process, limits in former.items():
            if psutil.pid_exists(process):
                resource.prlimit(process, resource.RLIMIT_FSIZE, limits)


def python_processes() -> list[int]:
    """Those in which Spark runs Python code, and those that start them."""
    children = psutil.Process().children(recursive=True)
    return [
        child.pid for child in children if "pyspark" in _words(child) and "java" not in child.name()
    ]


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:  # it has ended
        return ""


def history_key(ps: penstock.Penstock) -> str:
    return ps.keys.queue("mail").history


def live_files(rig: Rig) -> set[Path]:
    return {Path(uri) for uri in rig.lake.table("attempts").existing().file_uris()}


def test_a_python_worker_that_is_killed_while_it_reads_and_writes_costs_and_doubles_nothing(
    spark: SparkSession, rig: Rig, ps: penstock.Penstock, server: RedisServer, namespace: str
) -> None:
    rig.world.end_jobs(1)
    rig.archive("mail")
    places = copy_last_entry(server.client, history_key(ps), MANY)
    tracker = spark.sparkContext.statusTracker()
    pages = count()
    with FaultProxy(server.folder, server.socket, name=f"{namespace}.sock") as proxy:
        held = proxy.plan(
            Fault.DELAY, match=lambda request: request[0] == b"XRANGE" and next(pages) == 2
        )
        running = Running(lambda stop: rig.archive("mail", stop=stop, url=f"unix://{proxy.path}"))
        running.start()
        held.wait_for_hits(1, PATIENCE_S)
        (stage,) = tracker.getActiveStageIds()
        # Not those that are idle: Spark would go on to them one by one, and fail with each.
        os.kill(held.clients[0], signal.SIGKILL)
        running.wait_until(lambda: _failed_tasks(tracker, stage))
        held.release()
        running.join(PATIENCE_S)

    assert running.error is None
    assert Counter(rig.rows("attempts", "place")) == places


def _failed_tasks(tracker: StatusTracker, stage: int) -> int:
    info = tracker.getStageInfo(stage)
    return info.numFailedTasks if info is not None else 0


def test_a_disk_that_is_full_while_a_file_is_written_is_an_error_and_the_next_run_goes_on(
    rig: Rig, ps: penstock.Penstock, server: RedisServer
) -> None:
    rig.world.end_jobs(1)
    rig.archive("mail")
    before = live_files(rig)
    places = copy_last_entry(server.client, history_key(ps), 20_000)

    with (
        small_files(4096, *python_processes()),
        pytest.raises(ArchiveFailed, match=r"'mail' could not be archived: .*File too large"),
    ):
        rig.archive("mail")

    assert live_files(rig) == before
    (mark,) = ps.jobs("mail").history_bounds().marks
    assert [mark.place] == rig.rows("attempts", "place")
    assert rig.archive("mail").rows == {"mail": 20_000}
    assert Counter(rig.rows("attempts", "place")) == places


def test_a_disk_that_is_full_while_the_log_is_written_is_an_error_and_the_next_run_goes_on(
    rig: Rig, ps: penstock.Penstock
) -> None:
    ids = rig.world.end_jobs(5)
    rig.archive("mail")
    version = rig.lake.table("attempts").existing().version()
    ids += rig.world.end_jobs(500)

    with small_files(100, os.getpid()), pytest.raises(ArchiveFailed, match="File too large"):
        rig.archive("mail")

    assert rig.lake.table("attempts").existing().version() == version
    (mark,) = ps.jobs("mail").history_bounds().marks
    assert mark.place in rig.rows("attempts", "place")
    assert rig.archive("mail").rows == {"mail": 500}
    assert rig.jobs() == Counter(ids)


def test_an_entry_of_a_newer_version_stops_an_archive_that_may_pass_over_gaps_too(
    rig: Rig, ps: penstock.Penstock, server: RedisServer
) -> None:
    ids = rig.world.end_jobs(5)
    rig.archive("mail")
    rig.world.end_jobs(5)
    key = history_key(ps)
    client: Any = server.client
    [(_, fields)] = client.xrevrange(key, count=1)
    (name,) = fields
    client.xadd(key, {name: bytes([99]) + fields[name][1:]})

    with pytest.raises(UnknownLayout, match=r"newer penstock .* upgrade this program"):
        rig.archive("mail", skip_gap=True)

    assert rig.jobs() == Counter(ids)
    assert rig.rows("gaps", "queue") == []
    (mark,) = ps.jobs("mail").history_bounds().marks
    assert mark.place in rig.rows("attempts", "place")


def test_a_damaged_entry_is_an_error_that_names_it_and_can_be_passed_over(
    rig: Rig, ps: penstock.Penstock, server: RedisServer
) -> None:
    ids = rig.world.end_jobs(5)
    rig.archive("mail")
    client: Any = server.client
    place = client.xadd(history_key(ps), {"attempt": b"\x01 no entry"})
    ids += rig.world.end_jobs(5)

    with pytest.raises(HistoryLost, match=f"the entry at {place.decode()} of the history"):
        rig.archive("mail")
    done = rig.archive("mail", skip_gap=True)

    assert (done.rows, done.gaps) == ({"mail": 5}, ["mail"])
    assert rig.jobs() == Counter(ids)
    (reason,) = rig.rows("gaps", "reason")
    assert reason == f"the entry at {place.decode()} of the history of queue 'mail' is damaged"
