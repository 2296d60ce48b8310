"""A store out of memory takes nothing in, and can still be worked off."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

import penstock
from penstock.codec.chunks import pack_chunk
from penstock.connection.job_ids import new_ids
from penstock.connection.staging import decide_batch
from penstock.errors import StoreFull
from penstock.model.jobs import Report
from penstock.model.staging import Stage
from penstock.store.commands import jobs, staging, workers
from penstock.store.kinds import KINDS
from tests.job_samples import ERROR, sample_job_world, staged_jobs
from tests.kinds import QUEUE, SAMPLES, each_kind, each_queue_kind, each_sample
from tests.samples import sample_commands, sample_world
from tests.servers import VERSIONS, RedisServer, binary_of
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.model.queues import KindName
    from penstock.store.keys import NamespaceKeys

# fmt: off
GROWING = {
    "tasks": [
        "configure_queue", "decide_batch", "enqueue_tasks", "enqueue_unique_task",
        "mend_unique_key", "move_tasks", "register_queue", "stage_chunk",
    ],
    "jobs": [
        "send_jobs", "put_schedule", "fire_schedule", "set_limit", "set_share", "note_job",
        "move_jobs", "send a job again", "send jobs with causes",
    ],
    "logs": [
        "append_messages", "append with a key", "append with all", "decide_append",
        "move_messages", "prepare_stages", "put_log", "replay_errors",
    ],
}
"""What is refused, as it takes memory."""
REPAIRS = {
    "tasks": list[str](),
    "jobs": ["mend_count", "mend_job", "mend_line", "mend_page", "mend_trace"],
    "logs": ["lift a bound"],
}
"""What may be refused or not."""
DONE = {"tasks": (b"ok", b"idle"), "jobs": (b"ok", b"idle", b"empty"), "logs": (b"ok",)}
"""First words of what goes through."""
# fmt: on


@pytest.fixture(scope="module", params=VERSIONS)
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


@each_sample(lambda kind, samples: GROWING[kind])
def test_what_makes_the_store_grow_is_refused_and_writes_nothing(
    ps: penstock.Penstock, small_server: RedisServer, stored: Stored, kind: str, name: str
) -> None:
    samples = SAMPLES[kind]
    command = samples.commands(ps.keys, samples.fill(ps.store, ps.keys))[name]
    before = stored.everything()
    fill(small_server)

    with pytest.raises(StoreFull, match="let workers catch up"):
        ps.store.run(command)

    assert stored.everything() == before


@each_sample(
    lambda kind, samples: [
        name
        for name in (*samples.scripts, *samples.more)
        if name not in GROWING[kind] + REPAIRS[kind]
    ]
)
def test_what_works_the_store_off_goes_through(
    ps: penstock.Penstock, small_server: RedisServer, kind: str, name: str
) -> None:
    samples = SAMPLES[kind]
    command = samples.commands(ps.keys, samples.fill(ps.store, ps.keys))[name]
    fill(small_server)

    reply = ps.store.run(command._replace(decode=lambda reply: reply))

    assert any(word in DONE[kind] for word in reply[:2])


@each_queue_kind
def test_a_decided_batch_moves_into_a_full_store_when_nothing_else_waits(
    ps: penstock.Penstock, small_server: RedisServer, kind: KindName
) -> None:
    """Or a store that is full of what is staged could never be worked off."""
    queue = ps.keys.queue(QUEUE)
    rows = {"tasks": [b"a"], "jobs": staged_jobs()}[kind]
    of_chunk = {"tasks": 1, "jobs": 2}[kind]
    for index in range(2):
        ps.store.run(staging.stage_chunk(queue, "b", "s", index, pack_chunk(rows), 1000))
    stage = Stage("s", 2, 2 * of_chunk, 7)
    decide_batch(ps.store, ps.keys, QUEUE, kind, "b", 0, [stage])
    fill(small_server)

    def move() -> int:
        ids = new_ids(2)
        return ps.store.run_once(lambda own: KINDS[kind].move(queue, own, ids)).moved

    assert move() == of_chunk
    with pytest.raises(StoreFull):
        move()


def test_the_rest_of_a_decided_batch_moves_when_what_waited_is_done(
    ps: penstock.Penstock, small_server: RedisServer, names: NamespaceKeys
) -> None:
    queue = names.queue("mail")
    for index in range(2):
        ps.store.run(staging.stage_chunk(queue, "b", "s", index, pack_chunk([b"a"]), 1000))
    decide_batch(ps.store, names, "mail", "tasks", "b", 0, [Stage("s", 2, 2, 1)])
    fill(small_server)

    assert ps.store.run(staging.move_tasks(queue)).moved == 1
    with pytest.raises(StoreFull):
        ps.store.run(staging.move_tasks(queue))
    with ps.worker() as worker:
        worker.start_work("mail")
        for process in worker.start_tasks("mail", 2):
            process.finish()
    assert ps.store.run(staging.move_tasks(queue)).moved == 1


def sends(ps: penstock.Penstock) -> dict[str, list[Callable[[], object]]]:
    """Kind -> every way to put something into a queue."""
    queue, mail = ps.queue(QUEUE), ps.jobs(QUEUE)
    return {
        "tasks": [lambda: queue.enqueue(b"b"), lambda: queue.enqueue_unique(b"b")],
        "jobs": [lambda: mail.add("email", {})],
        "logs": [lambda: ps.log(QUEUE).append(b"b")],
    }


@each_kind
def test_what_comes_first_leaves_no_trace_of_the_queue(
    ps: penstock.Penstock, small_server: RedisServer, stored: Stored, kind: str
) -> None:
    fill(small_server)

    for send in sends(ps)[kind]:
        with pytest.raises(StoreFull):
            send()

    assert stored.everything() == {}


def test_a_first_schedule_leaves_no_trace_of_the_queue(
    ps: penstock.Penstock, small_server: RedisServer, stored: Stored
) -> None:
    fill(small_server)

    with pytest.raises(StoreFull):
        ps.schedules(QUEUE).add("nightly", "email", cron="0 3 * * *")

    assert stored.everything() == {}


@each_queue_kind
def test_a_full_queue_in_a_full_store_says_that_the_queue_is_full(
    ps: penstock.Penstock, small_server: RedisServer, kind: str
) -> None:
    ps.queue(QUEUE).configure(max_length=1)
    sends(ps)[kind][0]()
    fill(small_server)

    for send in sends(ps)[kind]:
        with pytest.raises(penstock.QueueFull):
            send()


def test_deleting_an_absent_queue_of_a_full_store_is_no_error(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    fill(small_server)

    assert ps.queue("mail").delete() == (0, 0)


def test_asking_an_empty_queue_of_a_full_store_is_no_error(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    with ps.worker(lease_ms=60_000) as worker:
        worker.start_work("mail")
        fill(small_server)

        assert worker.start_task("mail") is None


@pytest.mark.parametrize("act", ["finish", "stop", "fail"])
def test_a_zombie_of_a_full_store_still_learns_that_it_is_one(
    ps: penstock.Penstock, small_server: RedisServer, act: str
) -> None:
    ps.queue("mail").enqueue(b"a")
    with ps.worker(lease_ms=60_000) as worker:
        worker.start_work("mail")
        [process] = worker.start_tasks("mail")
        ps.fail_worker(worker.id)
        fill(small_server)

        with pytest.raises(penstock.LeaseLost):
            getattr(process, act)()


def test_a_new_worker_can_empty_a_full_store(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    queue = ps.queue("mail")
    queue.enqueue_many([b"a", b"b", b"c"])
    fill(small_server)

    with ps.worker() as worker:
        worker.start_work("mail")
        for process in worker.start_tasks("mail", 2):
            process.finish()
        [last] = worker.start_tasks("mail")
        last.stop()

    assert queue.page().tasks == [b"c"]


def test_an_idle_worker_of_a_full_store_is_still_woken(
    ps: penstock.Penstock, small_server: RedisServer, names: NamespaceKeys
) -> None:
    sample_world(ps.store, names)
    queue = ps.queue("mail")
    queue.pause()
    command = sample_commands(names, 0)["start_tasks"]
    fill(small_server)

    claim = ps.store.run(command)

    assert claim.word == "paused"
    assert b"w1" in Stored(small_server, names.namespace)[names.queue("mail").idle]


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


def test_a_new_worker_can_work_off_jobs_of_a_full_store(
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
            for job, outcome in zip(claim.found, outcomes, strict=True)
        ]
        again = run_once(lambda operation: jobs.report_jobs(keys, operation, "ant", reports, 1))
        assert len(again.found) == 1
        left = run_once(lambda operation: jobs.leave_jobs(keys, operation, "ant", is_lost=True))

    assert left == (1, 0)
    assert mail.counts()["ready"] == 2
    assert mail.counts()["done"] == 1


def test_a_zombie_with_jobs_of_a_full_store_still_learns_that_it_is_one(
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


@each_queue_kind
def test_a_worker_joins_a_queue_that_a_full_store_does_not_have_yet(
    ps: penstock.Penstock, small_server: RedisServer, kind: KindName
) -> None:
    """Or it could not work off the other queues that it serves."""
    fill(small_server)

    with ps.worker() as worker:
        {"tasks": worker.start_work, "jobs": worker.start_job_work}[kind]("new")

        assert [queue.name for queue in ps.inspect()] == ["new"]
