"""`penstock demo`: a kill and a freeze on real processes, and an honest count afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]
import pytest

from penstock.client.fsck import Report
from penstock.demo.outcome import Outcome, count_lost, find_disagreements
from penstock.demo.records import Ledger, Notebook
from penstock.model.queues import Counters, QueueState
from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("chaos")

WITHOUT_PYSPARK = """
import importlib.metadata as metadata
known = metadata.version
def version(name):
    if name.startswith("pyspark"):
        raise metadata.PackageNotFoundError(name)
    return known(name)
metadata.version = version
from penstock.cli import main
main()
"""
DEMO = [
    *(sys.executable, "-m", "penstock", "demo", "--only", "queue"),
    *("--lease-ms", "900", "--tasks", "400"),
]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Where the demo makes its folder; short, as sockets need it."""
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        yield Path(folder)


def test_the_demo_loses_nothing_and_refuses_zombies(temporary: Path) -> None:
    ended = subprocess.run(
        [*DEMO, "--json"],
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        timeout=100,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    outcome = json.loads(ended.stdout)["queue"]
    assert outcome["accepted"] == outcome["finished"] == 400
    assert outcome["lost"] == 0
    assert outcome["refused"] >= 1
    assert outcome["run_more_than_once"] >= 1
    assert outcome["recovery_s"] > 0
    assert outcome["disagreements"] == []
    assert list(temporary.iterdir()) == []


def test_an_interrupted_demo_leaves_nothing_behind(temporary: Path) -> None:
    with subprocess.Popen(
        DEMO, env=os.environ | {"TMPDIR": str(temporary)}, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        frozen = next(line for line in demo.stdout if "frozen with" in line)
        started = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=30)

    assert "worker 3" in frozen
    assert demo.returncode == 130
    assert started
    assert not any(is_alive(process) for process in started)
    assert list(temporary.iterdir()) == []


def test_without_pyspark_the_demo_says_how_to_get_its_second_act() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK, "demo", "--lease-ms", "900", "--tasks", "400"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("left out: penstock.spark needs pyspark")
    assert ended.stdout.endswith("pip install 'penstock-queue[spark]'\n")


def test_the_second_act_alone_is_refused_without_pyspark() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK, "demo", "--only", "pipeline"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert ended.returncode == 1
    assert "pip install 'penstock-queue[spark]'" in ended.stderr


def is_alive(process: psutil.Process) -> bool:
    """Not so an orphan that nobody has reaped yet."""
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


# A wrong count is exit status 1.


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Three tasks that were each run once."""
    notebook = Notebook(tmp_path / "records", worker=1)
    for task in range(3):
        notebook.note(b"begun", task)
        notebook.note(b"ended", task)
    notebook.close()
    ledger = Ledger(tmp_path / "records")
    ledger.read_on()
    yield ledger
    ledger.close()


def queue_state(ready: int = 0, enqueued: int = 3, finished: int = 3) -> QueueState:
    counters = Counters(enqueued=enqueued, started=finished, finished=finished)
    return QueueState("demo", "1", ready, 0, False, None, 5, 0, 0, 0, {}, counters)


def exit_status(disagreements: tuple[str, ...]) -> int:
    return Outcome(3, 3, 0, 1, 1, 1.0, 1.0, 1.0, disagreements).exit_status


def test_counts_that_agree_are_a_success(ledger: Ledger) -> None:
    found = find_disagreements(3, queue_state(), ledger, Report())

    assert found == ()
    assert exit_status(found) == 0


def test_a_task_that_was_never_run_is_lost(ledger: Ledger) -> None:
    found = find_disagreements(4, queue_state(enqueued=4, finished=4), ledger, Report())

    assert count_lost(4, ledger) == 1
    assert "1 tasks were accepted and never run to their end" in found
    assert exit_status(found) == 1


def test_a_missing_finish_is_a_failure(ledger: Ledger) -> None:
    found = find_disagreements(3, queue_state(ready=1, finished=2), ledger, Report())

    assert found == (
        "3 tasks were accepted, but 2 finished",
        "the queue is not empty: 1 wait, 0 are held, 0 are dead",
    )
    assert exit_status(found) == 1


def test_a_broken_invariant_is_a_failure(ledger: Ledger) -> None:
    report = Report(violations=[Violation("I1", "demo", "a task is in two places")])

    found = find_disagreements(3, queue_state(), ledger, report)

    assert found == ("I1: a task is in two places",)
    assert exit_status(found) == 1


def test_a_record_cut_in_half_is_read_when_it_is_whole(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path / "whole", worker=1)
    notebook.note(b"ended", 7)
    notebook.close()
    record = (tmp_path / "whole").read_bytes()
    ledger = Ledger(tmp_path / "growing")

    with (tmp_path / "growing").open("ab", buffering=0) as growing:
        growing.write(record[:5])
        ledger.read_on()
        assert not ledger.ended
        growing.write(record[5:])
        ledger.read_on()

    assert ledger.ended == {7: 1}
    ledger.close()
