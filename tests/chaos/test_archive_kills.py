"""An archive is killed while it writes and right after its commit, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import penstock
from penstock.model.jobs import Report
from penstock.spark.history_lake import Lake
from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers import RedisServer

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]

ENTRIES = 30_000


def test_no_attempt_is_lost_or_archived_twice(
    own_server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    places = _fill_history(own_server, namespace)
    lake = tmp_path / "history"
    archive = [sys.executable, "-m", "penstock", "spark", "archive", "-q", "mail", "--once"]
    archive += ["--to", str(lake), "--master", "local[2]"]
    archive += ["--url", own_server.url, "--namespace", namespace]
    table = lake / "attempts"

    _kill_when(archive, lambda: any(table.rglob("*.parquet")))
    _kill_when(archive, lambda: _commits(table) > 1)
    assert _commits(table) > 1
    ended = subprocess.run(archive, capture_output=True, text=True, timeout=300, check=False)

    assert ended.returncode == 0, ended.stderr
    assert _places_by_pyarrow(lake) == places
    assert _places_by_duckdb(lake) == places


def _fill_history(server: RedisServer, namespace: str) -> Counter[str]:
    """Many copies of one entry; returns the place of each."""
    with penstock.connect(server.url, namespace=namespace) as ps:
        ps.jobs("mail").add("email")
        hand = Hand(ps)
        hand.report(*(Report(job.process, "done", 20, 10) for job in hand.take(1)))
        key = ps.keys.queue("mail").of_jobs("history")
    client: Any = server.client
    [(_, fields)] = client.xrange(key)
    pipeline = client.pipeline(transaction=False)
    for _ in range(ENTRIES - 1):
        pipeline.xadd(key, fields)
    pipeline.execute()
    return Counter(place.decode() for place, _ in client.xrange(key))


def _kill_when(command: list[str], condition: Callable[[], bool]) -> None:
    """Start a command, and kill it with all its children as soon as something is so."""
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 240
        while not condition() and process.poll() is None:
            assert time.monotonic() < deadline, "the archive wrote nothing"
            time.sleep(0.005)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _commits(table: Path) -> int:
    """How many there are; the first makes the table."""
    return len(list((table / "_delta_log").glob("*.json")))


def _places_by_pyarrow(lake: Path) -> Counter[str]:
    dataset = Lake(lake).table("attempts").open().to_pyarrow_dataset()
    return Counter(dataset.to_table(columns=["place"])["place"].to_pylist())


def _places_by_duckdb(lake: Path) -> Counter[str]:
    dataset = Lake(lake).table("attempts").open().to_pyarrow_dataset()
    rows = duckdb.connect().register("attempts", dataset).sql("SELECT place FROM attempts")
    return Counter(place for (place,) in rows.fetchall())
