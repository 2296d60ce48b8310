"""Adding tasks, and looking at those that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument, PayloadTooLarge, QueueFull
from penstock.store.command import QueueAbsent
from penstock.store.commands import tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    import penstock
    from penstock.store.command import Operation
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.stored import Stored

LIKE_A_UNIQUE_ONE = b"\x00\xffpenstock\xff and then some"
PAYLOADS = [b"", b"\x00", b"\xff\r\n", "käse".encode(), b"x" * 1_000_000, LIKE_A_UNIQUE_ONE]


def test_the_bytes_put_in_are_the_bytes_in_the_list(
    queue: penstock.Queue, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue(b"first")
    queue.enqueue_many([b"", b"\x00\xff\r\n"])

    assert stored[keys.ready] == [b"\x00\xff\r\n", b"", b"first"]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: repr(payload[:12]))
def test_any_bytes_survive_the_round_trip(
    queue: penstock.Queue, worker: penstock.WorkerSession, payload: bytes
) -> None:
    queue.enqueue(payload)

    assert queue.peek() == payload
    [process] = worker.start_tasks("mail")
    assert process.task == payload


def test_an_unknown_queue_must_be_registered_first(
    ps: penstock.Penstock, keys: QueueKeys, operations: Iterator[Operation], stored: Stored
) -> None:
    with pytest.raises(QueueAbsent):
        ps.store.run(tasks.enqueue_tasks(keys, next(operations), [b"a"]))

    assert keys.ready not in stored and keys.meta not in stored


def test_enqueueing_answers_how_many_are_ready(
    ps: penstock.Penstock, keys: QueueKeys, operations: Iterator[Operation], stored: Stored
) -> None:
    ps.store.run(tasks.enqueue_tasks(keys, next(operations), [b"a"], "i1"))

    answer = ps.store.run(tasks.enqueue_tasks(keys, next(operations), [b"b", b"c"]))

    assert answer == 3
    assert stored.hash(keys.meta)[b"enqueued"] == b"3"
    assert stored.hash(keys.meta)[b"incarnation"] == b"i1"


def test_the_first_task_puts_the_queue_on_the_list(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, stored: Stored
) -> None:
    ps.queue("mail").enqueue(b"a")

    incarnation = stored.hash(keys.meta)[b"incarnation"]
    [(registered, entry)] = stored.hash(names.queues).items()
    assert (registered, entry.partition(b" ")[2]) == (incarnation, b"mail")


def test_a_full_queue_refuses_the_whole_bulk(
    queue: penstock.Queue, keys: QueueKeys, stored: Stored
) -> None:
    queue.configure(max_length=3)
    queue.enqueue_many([b"a", b"b"])

    with pytest.raises(QueueFull, match="holds 2 of at most 3 tasks and has no room for 2 more"):
        queue.enqueue_many([b"c", b"d"])

    assert stored[keys.ready] == [b"b", b"a"]
    assert queue.inspect().counters.enqueued == 2


def test_a_queue_at_its_maximum_accepts_again_when_a_task_has_started(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.configure(max_length=1)
    queue.enqueue(b"a")
    worker.start_task("mail")

    queue.enqueue(b"b")

    assert queue.page().tasks == [b"b"]


def test_a_refused_batch_says_how_many_tasks_went_in_before_it(queue: penstock.Queue) -> None:
    queue.configure(max_length=5_000)

    with pytest.raises(QueueFull) as refusal:
        queue.enqueue_many(b"%d" % number for number in range(5_001))

    assert refusal.value.accepted == 5_000  # type: ignore[attr-defined]
    assert queue.count() == 5_000


@pytest.mark.parametrize("most", ["many", ""])
def test_a_maximum_length_that_is_no_number_is_none(
    ps: penstock.Penstock, queue: penstock.Queue, most: str
) -> None:
    queue.enqueue(b"a")
    meta = ps.keys.queue("mail").meta
    ps.store.call(meta, "HSET", meta, "max_length", most)

    queue.enqueue_many([b"b", b"c"])
    queue.enqueue_unique(b"d")

    assert queue.count() == 4


def test_large_bulks_keep_their_order(queue: penstock.Queue) -> None:
    payloads = [b"%d" % number for number in range(12_345)]

    assert queue.enqueue_many(payloads) == 12_345

    assert queue.count() == 12_345
    assert queue.page(12_000, 1000).tasks == payloads[12_000:]


def test_enqueueing_nothing_is_nothing(queue: penstock.Queue, stored: Stored) -> None:
    assert queue.enqueue_many([]) == 0

    assert stored.everything() == {}


@pytest.mark.parametrize("task", ["text", 7, None, bytearray(b"a")])
def test_what_is_not_bytes_is_refused_before_anything_is_sent(
    queue: penstock.Queue, stored: Stored, task: bytes
) -> None:
    with pytest.raises(InvalidArgument, match=r"a task is bytes, not .*; encode it first"):
        queue.enqueue(task)

    assert stored.everything() == {}


def test_a_task_too_large_is_refused_before_anything_is_sent(
    queue: penstock.Queue, stored: Stored
) -> None:
    with pytest.raises(PayloadTooLarge, match="1048577 bytes long and 1048576 is the limit"):
        queue.enqueue(b"x" * 1_048_577)

    assert stored.everything() == {}


def test_pages_show_the_oldest_first_and_take_nothing(queue: penstock.Queue) -> None:
    queue.enqueue_many([b"a", b"b", b"c", b"d"])

    assert queue.page(1, 2) == ([b"b", b"c"], 4)
    assert queue.page(3, 10) == ([b"d"], 4)
    assert queue.page(4, 10) == ([], 4)
    assert queue.count() == 4


def test_a_page_of_an_absent_queue_is_empty(queue: penstock.Queue) -> None:
    assert queue.page() == ([], 0)
    assert queue.peek() is None


@pytest.mark.parametrize(("offset", "limit"), [(-1, 10), (0, 0), (0, 1001)])
def test_a_page_out_of_range_is_refused(queue: penstock.Queue, offset: int, limit: int) -> None:
    with pytest.raises(InvalidArgument, match="has 1 to 1000 tasks"):
        queue.page(offset, limit)
