"""Unique tasks: one at a time for each key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import InvalidArgument, QueueFull
from penstock.store.command import QueueAbsent
from penstock.store.commands import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.store.command import Operation
    from penstock.store.keys import QueueKeys
    from tests.servers import RedisCluster, RedisServer
    from tests.stored import Stored


def test_a_key_in_use_answers_with_the_task_that_holds_it(
    queue: penstock.Queue, stored: Stored, keys: QueueKeys
) -> None:
    first = queue.enqueue_unique(b"first", key="k")

    second = queue.enqueue_unique(b"second", key="k")

    assert first == penstock.Enqueued(True, b"first")
    assert second == penstock.Enqueued(False, b"first")
    assert queue.page().tasks == [b"first"]
    assert stored[keys.unique_tasks] != {}


def test_a_unique_task_for_an_unknown_queue_asks_for_registration(
    ps: penstock.Penstock, keys: QueueKeys, operations: Iterator[Operation], stored: Stored
) -> None:
    command = tasks.enqueue_unique_task(keys, next(operations), b"a", b"=k", b"8 bytes.")

    with pytest.raises(QueueAbsent):
        ps.store.run(command)

    assert keys.ready not in stored and keys.unique not in stored


def test_a_full_queue_refuses_a_unique_task_and_leaves_its_key_free(
    queue: penstock.Queue, keys: QueueKeys, stored: Stored
) -> None:
    queue.configure(max_length=1)
    queue.enqueue(b"a")

    with pytest.raises(QueueFull, match="no room for 1 more task;"):
        queue.enqueue_unique(b"b", key="k")

    assert keys.unique not in stored


def test_of_many_producers_exactly_one_is_told_that_its_task_is_new(
    any_store: RedisServer | RedisCluster, namespace: str, queue: penstock.Queue
) -> None:
    def produce(task: bytes) -> bool:
        with penstock.connect(any_store.url, namespace=namespace) as client:
            return client.queue("mail").enqueue_unique(task, key="k").is_new

    with ThreadPoolExecutor(8) as producers:
        answers = list(producers.map(produce, [b"%d" % number for number in range(8)]))

    assert sorted(answers) == [False] * 7 + [True]
    assert queue.count() == 1


def test_the_key_is_taken_while_the_task_runs(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_unique(b"a", key="k")
    worker.start_task("mail")

    assert not queue.enqueue_unique(b"b", key="k").is_new


def test_a_finish_frees_the_key(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue_unique(b"a", key="k")
    [process] = worker.start_tasks("mail")

    process.finish()

    assert keys.unique not in stored and keys.unique_tasks not in stored
    assert queue.enqueue_unique(b"b", key="k").is_new


def test_a_stopped_task_keeps_its_key(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_unique(b"a", key="k")
    [process] = worker.start_tasks("mail")

    process.stop()

    assert not queue.enqueue_unique(b"b", key="k").is_new
    assert queue.page().tasks == [b"a"]


def test_the_task_of_a_lost_worker_keeps_its_key(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_unique(b"a", key="k")
    worker.start_task("mail")

    ps.fail_worker(worker.id)

    assert not queue.enqueue_unique(b"b", key="k").is_new
    assert queue.page().tasks == [b"a"]


def test_a_dead_task_frees_its_key(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue_unique(b"a", key="k")
    [process] = worker.start_tasks("mail")

    process.fail()

    assert stored[keys.dead] == [b"a"]
    assert keys.unique not in stored and keys.unique_tasks not in stored
    assert queue.enqueue_unique(b"b", key="k").is_new


def test_a_cancel_frees_the_keys_of_every_waiting_copy(
    queue: penstock.Queue, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue_unique(b"a", key="k1")
    queue.enqueue_unique(b"a", key="k2")
    queue.enqueue_unique(b"other", key="k3")

    assert queue.cancel(b"a") == 2

    assert queue.page().tasks == [b"other"]
    assert list(stored.hash(keys.unique)) == [b"=k3"]
    assert queue.enqueue_unique(b"a", key="k1").is_new


def test_a_cancel_leaves_the_key_of_a_running_task_alone(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_unique(b"a", key="k")
    worker.start_task("mail")

    assert queue.cancel(b"a") == 0

    assert not queue.enqueue_unique(b"a", key="k").is_new


def test_a_delete_frees_every_key(queue: penstock.Queue) -> None:
    queue.enqueue_unique(b"a", key="k")

    queue.delete()

    assert queue.enqueue_unique(b"a", key="k").is_new


def test_finishing_a_task_from_before_a_delete_leaves_the_key_with_its_new_holder(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_unique(b"a", key="k")
    [process] = worker.start_tasks("mail")
    queue.delete()
    queue.enqueue_unique(b"a", key="k")

    process.finish()

    assert queue.enqueue_unique(b"b", key="k") == penstock.Enqueued(False, b"a")


def test_an_equal_task_that_is_not_unique_does_not_free_the_key(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    queue.enqueue_unique(b"a")
    [plain] = worker.start_tasks("mail")

    plain.finish()

    assert not queue.enqueue_unique(b"a").is_new


def test_the_task_itself_is_the_key_if_none_is_given(queue: penstock.Queue) -> None:
    queue.enqueue_unique(b"a")

    assert not queue.enqueue_unique(b"a").is_new
    assert queue.enqueue_unique(b"b").is_new
    assert queue.enqueue_unique(b"a", key="a").is_new


def test_a_unique_task_that_begins_like_a_tag_survives(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    task = b"\x00\xffpenstock\xff\x00\x00"
    queue.enqueue_unique(task, key="k")

    [process] = worker.start_tasks("mail")

    assert process.task == task
    assert queue.find(task) == [(worker.id, process.id)]


@pytest.mark.parametrize("key", ["", "x" * 1025])
def test_a_key_of_no_or_too_many_bytes_is_refused(queue: penstock.Queue, key: str) -> None:
    with pytest.raises(InvalidArgument, match="a unique key has 1 to 1024 bytes"):
        queue.enqueue_unique(b"a", key=key)
