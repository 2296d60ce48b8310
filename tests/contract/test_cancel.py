"""Cancelling waiting tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.store.keys import QueueKeys
    from tests.contract.conftest import Ear
    from tests.stored import Stored


def test_every_waiting_copy_goes_and_the_others_keep_their_order(
    queue: penstock.Queue, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue_many([b"a", b"b", b"a", b"c", b"a"])

    assert queue.cancel(b"a") == 3

    assert stored[keys.ready] == [b"c", b"b"]
    assert queue.inspect().counters.cancelled == 3


def test_cancelling_what_does_not_wait_removes_nothing(
    queue: penstock.Queue, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue(b"a")

    assert queue.cancel(b"b") == 0

    assert stored[keys.ready] == [b"a"]


def test_cancelling_in_an_absent_queue_does_not_create_it(
    ps: penstock.Penstock, queue: penstock.Queue, keys: QueueKeys, stored: Stored
) -> None:
    assert queue.cancel(b"a") == 0

    assert keys.meta not in stored
    assert ps.queues() == []


def test_a_running_copy_goes_on_and_its_worker_is_told(
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
) -> None:
    queue.enqueue_many([b"a", b"a"])
    [process] = worker.start_tasks("mail")
    ear = listen(keys.cancel)

    assert queue.cancel(b"a") == 1

    [message] = ear.hear_the_rest()
    # Later starts of an equal task are not meant, so the event says which was the last one.
    assert message == b"%d a" % process.id
    process.finish()


def test_a_cancelled_task_takes_its_failures_with_it(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    process.fail()
    assert keys.failures in stored

    queue.cancel(b"a")

    assert keys.failures not in stored


def test_a_task_that_begins_like_a_unique_one_can_be_cancelled(queue: penstock.Queue) -> None:
    task = b"\x00\xffpenstock\xff\x00\x05"
    queue.enqueue_many([task, b"a"])

    assert queue.cancel(task) == 1

    assert queue.page().tasks == [b"a"]
