"""Idle workers are woken by name, and no wake-up is the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.store.command import Operation, QueueAbsent
from penstock.store.commands import processes, queues, tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.model.claims import Claim
    from penstock.store.keys import QueueKeys
    from tests.contract.conftest import Ear
    from tests.stored import Stored


@pytest.fixture
def join(ps: penstock.Penstock, keys: QueueKeys) -> Callable[[str], None]:
    """Makes a worker a member of the queue."""

    def join_queue(worker: str) -> None:
        try:
            ps.store.run(queues.join_queue(keys, Operation(worker, 1), worker))
        except QueueAbsent:
            ps.store.run(queues.join_queue(keys, Operation(worker, 2), worker, "i1"))

    return join_queue


@pytest.fixture
def start(
    ps: penstock.Penstock, keys: QueueKeys, operations: Iterator[Operation]
) -> Callable[[str], Claim[bytes]]:
    """Asks for one task, and for a wake-up if there is none."""
    return lambda worker: ps.store.run(
        processes.start_tasks(keys, next(operations), worker, 1, wait=True)
    )


@pytest.fixture
def idle(
    join: Callable[[str], None],
    start: Callable[[str], Claim[bytes]],
    listen: Callable[[str], Ear],
    keys: QueueKeys,
) -> Callable[[str], Ear]:
    """Makes a worker wait, and returns what it hears."""

    def wait(worker: str) -> Ear:
        join(worker)
        assert start(worker).word == "empty"
        return listen(keys.wake + worker)

    return wait


def test_a_worker_that_waits_is_woken_once(
    queue: penstock.Queue, keys: QueueKeys, stored: Stored, idle: Callable[[str], Ear]
) -> None:
    ear = idle("w1")
    assert stored[keys.idle] == {b"w1"}

    queue.enqueue_many([b"a", b"b", b"c"])

    assert ear.hear_the_rest() == [b""]
    assert keys.idle not in stored


def test_one_task_wakes_one_worker_and_a_spare(
    queue: penstock.Queue, keys: QueueKeys, stored: Stored, idle: Callable[[str], Ear]
) -> None:
    ears = [idle(f"w{number}") for number in range(4)]

    queue.enqueue(b"a")

    assert sum(len(ear.hear_the_rest()) for ear in ears) == 2
    assert len(stored[keys.idle]) == 2


def test_a_worker_that_is_gone_does_not_use_up_a_wake_up(
    queue: penstock.Queue,
    keys: QueueKeys,
    stored: Stored,
    join: Callable[[str], None],
    start: Callable[[str], Claim[bytes]],
    idle: Callable[[str], Ear],
) -> None:
    for number in range(10):
        join(f"gone{number}")
        start(f"gone{number}")
    ear = idle("w1")

    queue.enqueue(b"a")

    assert ear.hear_the_rest() == [b""]
    assert keys.idle not in stored


def test_a_unique_task_wakes_a_worker_too(
    queue: penstock.Queue, idle: Callable[[str], Ear]
) -> None:
    ear = idle("w1")

    queue.enqueue_unique(b"a")

    assert ear.hear_the_rest() == [b""]


def test_a_start_that_leaves_tasks_behind_wakes_the_next(
    queue: penstock.Queue,
    keys: QueueKeys,
    stored: Stored,
    idle: Callable[[str], Ear],
    join: Callable[[str], None],
    start: Callable[[str], Claim[bytes]],
) -> None:
    ears = [idle(f"w{number}") for number in range(5)]
    queue.enqueue_many([b"a", b"b"])
    assert len(stored[keys.idle]) == 2
    join("busy")

    start("busy")

    assert keys.idle not in stored
    assert [ear.hear_the_rest() for ear in ears] == [[b""]] * 5


@pytest.mark.parametrize(("limit", "idle"), [(1, False), (2, True)])
def test_a_worker_that_got_less_than_it_asked_for_waits(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    stored: Stored,
    limit: int,
    idle: bool,
) -> None:
    queue.enqueue(b"a")

    ps.store.run(processes.start_tasks(keys, next(operations), worker.id, limit, wait=True))

    assert (keys.idle in stored) is idle


def test_a_worker_that_was_handed_one_suspect_alone_is_woken_for_the_rest(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    listen: Callable[[str], Ear],
) -> None:
    queue.configure(max_failures=3)
    queue.enqueue(b"suspect")
    for _ in range(2):
        [process] = worker.start_tasks("mail")
        process.fail()
    queue.enqueue(b"a")
    ear = listen(keys.wake + worker.id)

    claim = ps.store.run(processes.start_tasks(keys, next(operations), worker.id, 5, wait=True))

    assert claim.found == [b"suspect"]
    assert ear.hear_the_rest() == [b""]


def test_a_worker_that_did_not_ask_to_be_woken_does_not_wait(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue(b"a")

    worker.start_tasks("mail", 2)
    worker.start_tasks("mail", 2)

    assert keys.idle not in stored


@pytest.mark.parametrize("act", ["stop", "fail"])
def test_a_task_given_back_wakes_a_worker(
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    idle: Callable[[str], Ear],
    act: str,
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    ear = idle("w1")

    getattr(process, act)()

    assert ear.hear_the_rest() == [b""]


def test_tasks_of_a_lost_worker_wake_the_others(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    idle: Callable[[str], Ear],
) -> None:
    queue.enqueue(b"a")
    worker.start_task("mail")
    ear = idle("w1")

    ps.fail_worker(worker.id)

    assert ear.hear_the_rest() == [b""]


def test_a_worker_that_leaves_passes_its_wake_up_on(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    keys: QueueKeys,
    operations: Iterator[Operation],
    idle: Callable[[str], Ear],
) -> None:
    ears = [idle(f"w{number}") for number in range(3)]
    queue.enqueue(b"a")

    ps.store.run(queues.leave_queue(keys, next(operations), "woken", is_lost=False))

    assert [ear.hear_the_rest() for ear in ears] == [[b""]] * 3


def test_a_worker_without_room_passes_its_wake_up_on(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    keys: QueueKeys,
    stored: Stored,
    idle: Callable[[str], Ear],
) -> None:
    ears = [idle(f"w{number}") for number in range(3)]
    queue.enqueue(b"a")
    assert len(stored[keys.idle]) == 1

    ps.store.run(queues.pass_work(keys, "woken"))

    assert [ear.hear_the_rest() for ear in ears] == [[b""]] * 3
    assert keys.idle not in stored


def test_passing_work_of_an_empty_queue_only_stops_the_waiting(
    ps: penstock.Penstock,
    keys: QueueKeys,
    stored: Stored,
    idle: Callable[[str], Ear],
) -> None:
    first, second = idle("w1"), idle("w2")

    ps.store.run(queues.pass_work(keys, "w1"))

    assert stored[keys.idle] == {b"w2"}
    assert first.hear_the_rest() == second.hear_the_rest() == []


def test_passing_work_of_a_paused_queue_wakes_nobody(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    keys: QueueKeys,
    join: Callable[[str], None],
    start: Callable[[str], Claim[bytes]],
    listen: Callable[[str], Ear],
) -> None:
    queue.enqueue(b"a")
    queue.pause()
    join("w1")
    assert start("w1").word == "paused"
    ear = listen(keys.wake + "w1")

    ps.store.run(queues.pass_work(keys, "w2"))

    assert ear.hear_the_rest() == []


def test_dead_tasks_put_back_wake_a_worker(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    idle: Callable[[str], Ear],
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    process.fail()
    ear = idle("w1")

    ps.store.run(tasks.retry_dead_tasks(keys, next(operations), 10))

    assert ear.hear_the_rest() == [b""]


def test_a_finish_that_finds_nothing_more_makes_the_worker_wait(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    stored: Stored,
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")

    claim = ps.store.run(
        processes.finish_tasks(keys, next(operations), worker.id, [process.id], limit=1, wait=True)
    )

    assert claim.word == "empty"
    assert stored[keys.idle] == {worker.id.encode()}
