"""Each defect of worqr (seed-systems 2.1, W1 to W13), shown to be gone."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.store.commands import processes, queues, workers
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.store.command import Operation
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.contract.conftest import Ear
    from tests.servers import RedisCluster, RedisServer
    from tests.stored import Stored

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def other(ps: penstock.Penstock) -> Iterator[penstock.WorkerSession]:
    """A second worker on the queue."""
    with ps.worker("other", lease_ms=60_000) as session:
        session.start_work("mail")
        yield session


@pytest.fixture
def server_time_ms(ps: penstock.Penstock, names: NamespaceKeys) -> Callable[[], int]:
    """The clock by which leases end."""

    def read() -> int:
        seconds, microseconds = ps.store.call(names.workers, "TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    return read


def test_w01_returned_work_goes_to_the_front_in_its_old_order(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"t1", b"t2", b"t3", b"t4"])
    first, _, _ = worker.start_tasks("mail", 3)

    first.stop()
    assert queue.peek() == b"t1"
    ps.fail_worker(worker.id)

    assert queue.page().tasks == [b"t2", b"t3", b"t1", b"t4"]


def test_w02_failing_one_worker_leaves_the_tasks_of_the_others_alone(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    other: penstock.WorkerSession,
) -> None:
    queue.enqueue_many([b"mine", b"theirs"])
    worker.start_task("mail")
    [theirs] = other.start_tasks("mail")

    ps.fail_worker(worker.id)

    assert queue.page().tasks == [b"mine"]
    theirs.finish()


def test_w03_a_task_taken_while_its_worker_is_failed_is_not_lost(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"%d" % number for number in range(1000)])

    def start_until_lost() -> None:
        with pytest.raises(penstock.LeaseLost):
            while True:
                worker.start_tasks("mail", 3)

    with ThreadPoolExecutor(1) as thread:
        taking = thread.submit(start_until_lost)
        wait_for(lambda: queue.count() < 1000)
        ps.fail_worker(worker.id)
        taking.result(20)

    assert queue.page(0, 1000).tasks == [b"%d" % number for number in range(1000)]
    assert queue.inspect().running == 0


def test_w04_a_recovery_that_broke_off_is_done_again_by_a_peer(
    ps: penstock.Penstock,
    worker: penstock.WorkerSession,
    other: penstock.WorkerSession,
    names: NamespaceKeys,
    operations: Iterator[Operation],
) -> None:
    for name in ("mail", "cards"):
        ps.queue(name).enqueue(b"a")
        worker.start_work(name)
        worker.start_task(name)
    ps.store.run(workers.fail_worker(names, worker.id, retry_ms=0))
    ps.store.run(queues.leave_queue(names.queue("mail"), next(operations), worker.id, True))

    handed_over = ps.store.run(workers.keep_worker_alive(names, other.id, 60_000, 10))
    assert handed_over == [worker.id]
    assert ps.fail_worker(worker.id) == (1, 0)

    assert ps.queue("mail").page().tasks == ps.queue("cards").page().tasks == [b"a"]
    assert [info.id for info in ps.workers()] == [other.id]


@pytest.mark.parametrize("name", ["finish_tasks", "stop_tasks", "fail_tasks"])
def test_w05_who_does_not_hold_a_task_cannot_touch_it(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    other: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    listen: Callable[[str], Ear],
    name: str,
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    ear = listen(keys.done)

    ps.store.run(getattr(processes, name)(keys, next(operations), other.id, [process.id]))

    assert ear.hear_the_rest() == []
    assert queue.inspect().counters.refused == 1
    process.finish()


def test_w06_a_lost_lease_is_reported_and_the_heartbeat_stops(
    ps: penstock.Penstock, queue: penstock.Queue
) -> None:
    told = threading.Event()
    queue.enqueue(b"a")
    with ps.worker("late", heartbeat_ms=20) as worker:
        worker.heartbeat.on_lost = told.set
        worker.start_work("mail")
        [process] = worker.start_tasks("mail")

        ps.fail_worker(worker.id)

        assert told.wait(20)
        assert worker.lease.is_lost and not worker.lease.is_valid
        with pytest.raises(penstock.LeaseLost):
            process.finish()
        wait_for(lambda: not [t for t in threading.enumerate() if t.name.startswith("penstock_")])
    assert ps.workers() == []


def test_w07_of_concurrent_unique_enqueues_exactly_one_succeeds(queue: penstock.Queue) -> None:
    with ThreadPoolExecutor(8) as producers:
        answers = list(producers.map(queue.enqueue_unique, [b"a"] * 20))

    assert sorted(answer.is_new for answer in answers) == [False] * 19 + [True]
    assert queue.page().tasks == [b"a"]


END: dict[str, Callable[[penstock.Queue, penstock.WorkerSession], object]] = {
    "finish": lambda _, worker: worker.start_tasks("mail")[0].finish(),
    "cancel": lambda queue, _: queue.cancel(b"a"),
    "delete": lambda queue, _: queue.delete(),
    "die": lambda _, worker: worker.start_tasks("mail")[0].fail(),
}


@pytest.mark.parametrize("end", END)
def test_w08_a_unique_key_is_free_however_its_task_ended_and_belongs_to_one_queue(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession, end: str
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue_unique(b"a")
    assert ps.queue("cards").enqueue_unique(b"a").is_new

    END[end](queue, worker)

    assert queue.enqueue_unique(b"a").is_new
    assert not ps.queue("cards").enqueue_unique(b"a").is_new


def test_w09_idle_workers_are_woken_by_name_and_each_start_wakes_the_next(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    listen: Callable[[str], Ear],
    stored: Stored,
) -> None:
    crowd = [f"w{number}" for number in range(5)]
    ears = [listen(keys.wake + name) for name in crowd]
    for name in crowd:
        ps.store.run(queues.join_queue(keys, next(operations), name))
        ps.store.run(processes.start_tasks(keys, next(operations), name, 1, wait=True))

    queue.enqueue_many([b"a", b"b"])
    assert len(stored[keys.idle]) == 2  # no herd: two tasks wake two workers and a spare
    worker.start_task("mail")

    assert [ear.hear_the_rest() for ear in ears] == [[b""]] * 5


def test_w10_any_name_is_listed_whole_and_has_events(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    with penstock.connect(any_store.url, namespace=f"{namespace}_a:b") as ps:
        queue = ps.queue("mail:urgent_now")
        queue.enqueue(b"a")

        assert ps.queues() == ["mail:urgent_now"]
        assert [state.ready for state in ps.inspect()] == [1]
        with ThreadPoolExecutor(1) as listener:
            heard = listener.submit(next, queue.events("work"))
            wait_for(lambda: queue.enqueue_many([b"b"]) and heard.done())
            assert heard.result().count == 1


def test_w11_a_blocked_event_loop_does_not_cost_the_lease(
    any_store: RedisServer | RedisCluster,
    namespace: str,
    ps: penstock.Penstock,
    server_time_ms: Callable[[], int],
) -> None:
    async def block_the_loop_longer_than_the_lease() -> list[bytes]:
        async with (
            await penstock.aconnect(any_store.url, namespace=namespace) as client,
            client.worker(lease_ms=1_000, heartbeat_ms=50) as worker,
        ):
            await client.queue("mail").enqueue(b"a")
            await worker.start_work("mail")
            started = await worker.start_tasks("mail")
            blocked_at = server_time_ms()
            wait_for(lambda: server_time_ms() > blocked_at + 1_500)

            [info] = ps.workers()
            assert info.is_alive and worker.lease.is_valid
            for process in started:
                await process.finish()
            return [process.task for process in started]

    assert asyncio.run(block_the_loop_longer_than_the_lease()) == [b"a"]


@pytest.mark.parametrize("cause", ["fail", "lose"])
def test_w12_a_poison_task_ends_on_the_dead_list(
    ps: penstock.Penstock, queue: penstock.Queue, cause: str
) -> None:
    queue.configure(max_failures=3)
    queue.enqueue_many([b"poison"])

    for _ in range(3):
        with ps.worker(lease_ms=60_000) as worker:
            worker.start_work("mail")
            [process] = worker.start_tasks("mail")
            process.fail() if cause == "fail" else ps.fail_worker(worker.id)

    assert queue.dead() == ([b"poison"], 1)
    assert queue.count() == 0


def test_w13_nothing_claims_that_user_code_runs_exactly_once() -> None:
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py")]
    claims = [
        f"{document.name}: {sentence}"
        for document in documents
        for sentence in re.split(r"(?<=[.;:!?])\s|\n\n", document.read_text())
        if re.search(r"exactly[\s-]+once", sentence, re.IGNORECASE)
        and not re.search(r"\b(no|not|never|nobody|cannot)\b|n't", sentence, re.IGNORECASE)
    ]

    assert ROOT / "README.md" in documents
    assert claims == []
