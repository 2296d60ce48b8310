"""Tasks that fail, and those that failed too often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument, LeaseLost
from penstock.store.commands import processes, tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.store.command import Operation
    from penstock.store.keys import QueueKeys
    from tests.contract.conftest import Ear
    from tests.stored import Stored


def test_a_failed_task_goes_to_the_back(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue_many([b"a", b"b"])
    [process] = worker.start_tasks("mail")

    assert process.fail() is False

    assert queue.page().tasks == [b"b", b"a"]
    assert list(stored.hash(keys.failures).values()) == [b"1"]
    assert queue.inspect().counters.failed == 1


def test_a_task_that_failed_too_often_is_dead(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.configure(max_failures=2)
    queue.enqueue(b"a")
    [first] = worker.start_tasks("mail")
    first.fail()
    [second] = worker.start_tasks("mail")

    assert second.fail() is True

    assert queue.dead() == ([b"a"], 1)
    assert queue.count() == 0
    assert keys.failures not in stored


def test_a_fail_is_refused_when_the_task_is_no_longer_held(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    process.stop()

    with pytest.raises(LeaseLost):
        process.fail()

    assert queue.inspect().failures == 0
    assert queue.inspect().counters.refused == 1


def test_past_failures_are_told_with_the_number_that_is_too_many(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys
) -> None:
    queue.enqueue_many([b"a", b"b"])
    queue.enqueue_unique(b"c", "key")
    [first, second, third] = worker.start_tasks("mail", 3)
    for process in (first, third):
        process.fail()
    held = [second, *worker.start_tasks("mail", 2)]
    processes_ = [*(process.id for process in held), first.id]

    past = ps.store.run(processes.read_failures(keys, worker.id, processes_))
    assert past == (5, [0, 1, 1, 0])
    queue.configure(max_failures=3)
    assert ps.store.run(processes.read_failures(keys, worker.id, [second.id])) == (3, [0])


def test_failing_many_answers_how_many_died_and_which_were_refused(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue_many([b"a", b"b", b"c"])
    first, second, third = worker.start_tasks("mail", 3)
    second.stop()

    failed = ps.store.run(
        processes.fail_tasks(keys, next(operations), worker.id, [third.id, second.id, first.id])
    )

    assert failed == (2, [second.id])
    assert queue.dead().tasks == [b"a", b"c"]


def test_a_finish_forgets_the_failures_of_a_task(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    process.fail()
    [again] = worker.start_tasks("mail")

    again.finish()

    assert keys.failures not in stored


def test_the_tasks_of_a_lost_worker_die_in_their_old_order(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue_many([b"a", b"b", b"c"])
    worker.start_tasks("mail", 3)

    assert ps.fail_worker(worker.id) == (0, 3)

    assert queue.dead().tasks == [b"a", b"b", b"c"]


def test_a_task_that_may_be_poison_is_handed_out_alone(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.configure(max_failures=3)
    queue.enqueue(b"suspect")
    for _ in range(2):
        [process] = worker.start_tasks("mail")
        process.fail()
    queue.enqueue_many([b"a", b"b"])

    batches = [[process.task for process in worker.start_tasks("mail", 10)] for _ in range(2)]

    assert batches == [[b"suspect"], [b"a", b"b"]]


def test_a_batch_ends_before_a_task_that_may_be_poison(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.configure(max_failures=3)
    queue.enqueue(b"suspect")
    for _ in range(2):
        [process] = worker.start_tasks("mail")
        process.fail()
    [suspect] = worker.start_tasks("mail")
    queue.enqueue_many([b"a", b"b"])
    suspect.stop("back")

    batches = [[process.task for process in worker.start_tasks("mail", 10)] for _ in range(2)]

    assert batches == [[b"a", b"b"], [b"suspect"]]


def test_dead_tasks_go_back_oldest_first_with_a_clean_sheet(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue_many([b"a", b"\x00\xffpenstock\xff", b"b"])
    for process in worker.start_tasks("mail", 2):
        process.fail()

    assert queue.retry_dead() == 2

    assert queue.page().tasks == [b"b", b"a", b"\x00\xffpenstock\xff"]
    assert queue.dead().total == 0
    assert keys.failures not in stored


def test_retrying_says_how_many_are_left(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue_many([b"a", b"b", b"c"])
    for process in worker.start_tasks("mail", 3):
        process.fail()

    answer = ps.store.run(tasks.retry_dead_tasks(keys, next(operations), limit=2))

    assert answer == (2, 1)
    assert queue.page().tasks == [b"a", b"b"]
    assert queue.dead().tasks == [b"c"]


def test_retrying_without_dead_tasks_does_nothing(queue: penstock.Queue) -> None:
    assert queue.retry_dead() == 0


def test_a_dead_task_wakes_nobody(
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    ear = listen(keys.work)

    process.fail()

    assert ear.hear_the_rest() == []


def test_dead_tasks_put_back_are_announced(
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    process.fail()
    ear = listen(keys.work)

    queue.retry_dead()

    assert ear.hear_the_rest() == [b"1"]


@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_a_setting_out_of_range_is_refused(queue: penstock.Queue, value: int) -> None:
    with pytest.raises(InvalidArgument, match="give a whole number from 1 up"):
        queue.configure(max_failures=value)
