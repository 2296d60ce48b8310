"""A message that takes its whole worker down: it is found, and given up, and the others go on."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    import penstock
    from tests.servers import RedisServer

APP = """
import ctypes, os, signal
from pathlib import Path
import penstock

@penstock.consumer("clicks", "g", batch=5, on_failure={policy!r}, partitions=[0])
def read(messages):
    for message in messages:
        with open("notes", "a") as notes:
            notes.write(message.body.decode() + " ")
        if message.body == b"kill":
            ctypes.string_at(0)
        if message.body == b"last":
            os.kill(os.getppid(), signal.SIGTERM)
"""


@pytest.fixture
def clicks(ps: penstock.Penstock) -> penstock.Log:
    return ps.log("clicks", partitions=1)


def run_worker(policy: str, server: RedisServer, namespace: str, folder: Path) -> int:
    """Run a real worker until it has ended; returns its status."""
    (folder / "app.py").write_text(APP.format(policy=policy))
    command = [sys.executable, "-m", "penstock", "worker", "run", "app"]
    command += ["--url", server.url, "--namespace", namespace]
    ended = subprocess.run(command, check=False, cwd=folder, timeout=30, capture_output=True)
    return ended.returncode


def crashes(clicks: penstock.Log) -> list[tuple[int, str]]:
    readers = clicks.partition_info(0).readers
    return [(one.deaths.crashes, one.deaths.how.partition(",")[0]) for one in readers]


def test_a_message_that_kills_its_worker_three_times_is_given_up_and_the_others_are_read(
    clicks: penstock.Log,
    server: RedisServer,
    namespace: str,
    tmp_path: Path,
) -> None:
    clicks.append_many([b"0", b"1", b"2", b"kill", b"4", b"5", b"last"])

    statuses = [run_worker("skip", server, namespace, tmp_path) for _ in range(4)]

    assert statuses == [128 + signal.SIGSEGV] * 3 + [0]
    read = (tmp_path / "notes").read_text().split()
    # The batch, then each alone and written down before the next, then the culprit alone.
    assert read == ["0", "1", "2", "kill", "0", "1", "2", "kill", "kill", "4", "5", "last"]
    [error] = list(clicks.group("g").errors(0))
    assert error.message.body == b"kill"
    assert error.attempts == 3
    assert error.reason.startswith(
        "it took its worker down 3 times, the last by signal 11 (SIGSEGV)"
    )
    assert crashes(clicks) == [(0, "")]


def test_by_policy_the_partition_stands_still_before_a_message_that_kills_its_worker(
    clicks: penstock.Log, server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    clicks.append_many([b"kill", b"last"])
    for _ in range(3):
        assert run_worker("stop", server, namespace, tmp_path) == 128 + signal.SIGSEGV
    assert crashes(clicks) == [(3, "signal 11 (SIGSEGV)")]

    command = [sys.executable, "-m", "penstock", "worker", "run", "app"]
    command += ["--url", server.url, "--namespace", namespace]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as worker:
        assert worker.stderr is not None
        told = next(line for line in worker.stderr if "stands still" in line)
        worker.terminate()
        worker.communicate(timeout=20)

    assert "it took its worker down 3 times" in told
    assert (tmp_path / "notes").read_text().split() == ["kill"] * 3
    assert list(clicks.group("g").errors(0)) == []
