"""`penstock demo`: kills and freezes on real processes, and an honest count afterwards."""

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
from penstock.demo.clicks.outcome import find_disagreements as find_log_disagreements
from penstock.demo.clicks.records import Batch, Reading, examine
from penstock.demo.clicks.records import Ledger as BatchLedger
from penstock.demo.clicks.records import Notebook as BatchNotebook
from penstock.demo.outcome import Outcome, count_lost, find_disagreements
from penstock.demo.records import Ledger, Notebook
from penstock.model.logs import LogInfo, PartitionInfo, Reader
from penstock.model.queues import Counters, QueueState
from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("chaos")

WITHOUT_PYSPARK = """
import importlib.metadata as metadata
from importlib import util
known, known_spec = metadata.version, util.find_spec
util.find_spec = lambda name: None if name.startswith("pyspark") else known_spec(name)
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


def test_the_log_act_skips_nothing_while_owners_and_the_leader_of_zookeeper_fail(
    temporary: Path,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "penstock", "demo", "--only", "log", "--json"],
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        timeout=170,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    outcome = json.loads(ended.stdout)["log"]
    assert outcome["appended"] == outcome["handled"] > 0
    assert outcome["skipped"] == 0
    assert outcome["refused"] >= 1, "the worker that was frozen in mid-batch came too late"
    assert outcome["handled_more_than_once"] >= 1
    assert outcome["disagreements"] == []
    assert list(temporary.iterdir()) == []


def test_an_interrupted_log_act_leaves_nothing_behind(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", "demo", "--only", "log"],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        assert any("killed with SIGKILL" in line for line in demo.stdout)
        started = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)

    assert demo.returncode == 130
    assert started
    assert not any(is_alive(process) for process in started)
    assert list(temporary.iterdir()) == []


def test_without_pyspark_the_demo_says_how_to_get_its_other_acts() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK, "demo", "--lease-ms", "900", "--tasks", "400"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    [log, pipeline] = [line for line in ended.stdout.splitlines() if line.startswith("left out: ")]
    assert log.startswith("left out: the private ZooKeeper runs from jars of the pyspark package")
    assert pipeline.startswith("left out: penstock.spark needs pyspark")
    for line in (log, pipeline):
        assert "pip install 'penstock-queue[spark]'" in line


@pytest.mark.parametrize("act", ["log", "pipeline"])
def test_an_act_that_needs_pyspark_is_refused_alone_without_it(act: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYSPARK, "demo", "--only", act],
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


# What the log act counts.


def read_batches(tmp_path: Path, *steps: tuple[bytes, int, int, int, int]) -> Reading:
    """Each step with the worker, the epoch, and the first and last of six messages."""
    path = tmp_path / "batches"
    for step, worker, epoch, first, last in steps:
        notebook = BatchNotebook(path, worker)
        notebook.note(step, Batch(0, epoch, first, last, last - first + 1))  # type: ignore[arg-type]
        notebook.close()
    ledger = BatchLedger(path)
    ledger.read_on()
    ledger.close()
    return examine(ledger.records[0], appended=6, frozen=3)


def test_a_log_that_is_read_from_first_to_last_is_a_success(tmp_path: Path) -> None:
    reading = read_batches(
        tmp_path,
        *((b"begun", 1, 10, 0, 2), (b"ended", 1, 10, 0, 2)),
        *((b"begun", 3, 11, 3, 5), (b"begun", 1, 12, 3, 5), (b"ended", 1, 12, 3, 5)),
        *((b"ended", 3, 11, 3, 5), (b"refused", 3, 11, 3, 5)),
    )

    assert reading == Reading(handled=6, skipped=0, repeated=3, problems=())


def test_messages_that_were_passed_over_are_skipped_even_if_they_come_later(tmp_path: Path) -> None:
    reading = read_batches(
        tmp_path,
        *((b"begun", 1, 10, 2, 5), (b"ended", 1, 10, 2, 5)),
        *((b"begun", 1, 10, 0, 0), (b"ended", 1, 10, 0, 0)),
    )

    assert (reading.handled, reading.skipped) == (5, 2)


def test_two_owners_at_once_are_found(tmp_path: Path) -> None:
    reading = read_batches(
        tmp_path,
        *((b"begun", 1, 10, 0, 5), (b"begun", 2, 11, 0, 5), (b"ended", 2, 11, 0, 5)),
        *((b"ended", 1, 10, 0, 5), (b"begun", 1, 10, 5, 5)),
    )

    beside, older = reading.problems
    assert "worker 1 was at work beside the next owner" in beside
    assert "worker 1 began after a newer owner" in older


def test_an_offset_that_is_not_the_last_message_is_a_failure() -> None:
    part = PartitionInfo(
        *(0, 1.0, 6, 60, 6, 0, "", 0, "1-0", "6-0"),
        readers=(Reader("counts", 12, "5-0", 1.0, "worker-1.a.0"),),
        floor="5-0",
        is_open=True,
    )
    found = find_log_disagreements(
        {0: 6}, {0: Reading(6, 1, 0, ())}, LogInfo("clicks", {}, ("counts",), (part,)), Report()
    )

    assert found == (
        "partition 0: 1 messages were skipped",
        "partition 0: its last message is 6-0, and committed is ['5-0']",
    )
