"""The parent of a worker renews its lease when the worker's own beat is late."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.model.workers import lease_clock
from penstock.store.commands import workers
from penstock.worker.late_beats import LONGEST_S, LateBeats
from penstock.worker.shared_memory import SharedMemory
from tests.contract.job_workers import Hand
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    import penstock

LEASE_MS, HEARTBEAT_MS = 60_000, 10
"""A beat is late when half of this is over; no lease ends within a test."""
LATE_S = 40.0

pytestmark = pytest.mark.stores("debian")


@pytest.fixture
def child() -> Iterator[int]:
    """A process that does nothing."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.kill()
    process.communicate()


@pytest.fixture
def shared() -> SharedMemory:
    shared = SharedMemory()
    shared.beats.describe(LEASE_MS, HEARTBEAT_MS, 1)
    return shared


@pytest.fixture
def late(ps: penstock.Penstock, child: int, shared: SharedMemory) -> Iterator[LateBeats]:
    late = LateBeats(ps.settings, child, shared)
    yield late
    late.close()


def fall_silent(ps: penstock.Penstock, shared: SharedMemory, worker: Hand, for_s: float) -> None:
    """Let a worker have renewed its lease so long ago, which has 20 s left."""
    ps.store.run(workers.keep_worker_alive(ps.keys, worker.id, 20_000))
    shared.beats.renewed(lease_clock() - for_s)
    shared.name_worker(worker.id)


def lease_left_ms(ps: penstock.Penstock, worker: Hand) -> int:
    [left] = [info.lease_left_ms for info in ps.workers() if info.id == worker.id]
    assert left is not None
    return left


def log_of(job: penstock.Job[object]) -> list[str]:
    return [line for _, line in job.log()]


def test_the_lease_of_a_silent_worker_is_renewed_and_its_job_says_so(
    ps: penstock.Penstock, shared: SharedMemory, late: LateBeats
) -> None:
    running, waiting = (ps.jobs("mail").add("email") for _ in range(2))
    worker = Hand(ps, "busy")
    worker.take(2)
    fall_silent(ps, shared, worker, LATE_S)

    with late:
        wait_for(lambda: running.log() != [])
        assert lease_left_ms(ps, worker) > 30_000
        shared.beats.renewed(lease_clock())
        wait_for(lambda: len(running.log()) == 2)

    lives, lived = log_of(running)
    assert lives.startswith("the worker has not answered for 4")
    assert lives.endswith("s, but lives: its parent process renews its lease")
    assert lived.startswith("the worker did not answer for 4")
    assert lived.endswith("s, but lived")
    assert waiting.log() == []  # the worker has one slot, so it only holds this one


def test_a_worker_that_beats_by_itself_is_left_alone(
    ps: penstock.Penstock, shared: SharedMemory, late: LateBeats
) -> None:
    worker = Hand(ps, "well")
    fall_silent(ps, shared, worker, for_s=1)

    late.look()

    assert lease_left_ms(ps, worker) <= 20_000


def test_a_worker_that_has_left_is_left_alone(
    ps: penstock.Penstock, shared: SharedMemory, late: LateBeats
) -> None:
    worker = Hand(ps, "gone")
    fall_silent(ps, shared, worker, LATE_S)
    shared.name_worker("")

    late.look()

    assert lease_left_ms(ps, worker) <= 20_000


@pytest.mark.parametrize(
    ("timeout_s", "silent_s", "is_renewed"),
    [
        (None, LONGEST_S - 20, True),
        (None, LONGEST_S + 1, False),
        (35.0, 36.0, False),
        (3600.0, LONGEST_S + 1, True),
    ],
)
def test_a_lease_is_renewed_up_to_the_timeout_of_the_job_or_for_a_minute(
    ps: penstock.Penstock,
    shared: SharedMemory,
    late: LateBeats,
    timeout_s: float | None,
    silent_s: float,
    is_renewed: bool,
) -> None:
    job = ps.jobs("mail").add("email", timeout=timeout_s)
    worker = Hand(ps, "busy")
    worker.take_one()
    fall_silent(ps, shared, worker, silent_s)

    late.look()
    late.look()

    [line] = log_of(job)
    assert line.endswith("renews its lease" if is_renewed else "lets its lease lapse")
    assert (lease_left_ms(ps, worker) > 30_000) is is_renewed


def test_a_worker_that_is_stopped_lapses_unless_it_goes_on(
    ps: penstock.Penstock, child: int, shared: SharedMemory, late: LateBeats
) -> None:
    worker = Hand(ps, "frozen")
    fall_silent(ps, shared, worker, LATE_S)
    os.kill(child, signal.SIGSTOP)
    os.waitid(os.P_PID, child, os.WSTOPPED)

    late.look()
    assert lease_left_ms(ps, worker) <= 20_000

    os.kill(child, signal.SIGCONT)
    os.waitid(os.P_PID, child, os.WCONTINUED)
    late.look()
    assert lease_left_ms(ps, worker) > 30_000


def test_a_worker_that_has_died_is_left_to_what_buries_it(
    ps: penstock.Penstock, child: int, shared: SharedMemory, late: LateBeats
) -> None:
    worker = Hand(ps, "dead")
    fall_silent(ps, shared, worker, LATE_S)
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

    late.look()

    assert lease_left_ms(ps, worker) <= 20_000


def test_a_worker_whose_work_peers_have_given_back_is_given_up(
    ps: penstock.Penstock,
    shared: SharedMemory,
    late: LateBeats,
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = Hand(ps, "busy")
    fall_silent(ps, shared, worker, LATE_S)
    worker.lapse()

    late.look()
    late.look()

    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "and peers have given its work back id=busy" in caplog.text
    assert ps.workers() == []


def test_a_worker_of_plain_tasks_keeps_its_lease_too(
    ps: penstock.Penstock, shared: SharedMemory, late: LateBeats
) -> None:
    ps.queue("mail").enqueue(b"hello")
    worker = Hand(ps, "busy", queue="other")
    ps.store.run(workers.start_work(ps.keys, worker.id, "mail", "tasks"))
    fall_silent(ps, shared, worker, LATE_S)

    late.look()

    assert lease_left_ms(ps, worker) > 30_000
