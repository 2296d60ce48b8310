"""What worqr's own tests promise, one test each, in their order (seed-systems 3.1). Where worqr did
otherwise than it said, the test has what it said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.codec.events import decode_event
from penstock.errors import NotWorking
from penstock.model.events import Event
from penstock.store.commands import workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.contract.conftest import Ear
    from tests.servers import RedisCluster, RedisServer
    from tests.stored import Stored


def test_01_a_client_is_built_from_an_address_and_a_namespace(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    with penstock.connect(any_store.url, namespace=namespace) as ps:
        ps.queue("mail").enqueue(b"a")

        assert ps.keys.namespace == namespace
        assert ps.queues() == ["mail"]


def test_02_reaping_with_nothing_to_reap_succeeds(
    ps: penstock.Penstock, worker: penstock.WorkerSession, names: NamespaceKeys
) -> None:
    assert ps.store.run(workers.keep_worker_alive(names, worker.id, 60_000, 10)) == []


def test_03_deleting_absent_queues_succeeds(queue: penstock.Queue) -> None:
    assert queue.delete() == (0, 0)


def test_04_one_call_enqueues_several_tasks(queue: penstock.Queue) -> None:
    assert queue.enqueue_many([b"a", b"b", b"c"]) == 3

    assert queue.page().tasks == [b"a", b"b", b"c"]


def test_05_queues_with_work_are_listed(ps: penstock.Penstock) -> None:
    ps.queue("mail").enqueue(b"a")
    ps.queue("cards").enqueue(b"a")

    assert ps.queues() == ["cards", "mail"]


def test_06_starting_work_before_the_worker_is_registered_is_rejected(
    ps: penstock.Penstock, keys: QueueKeys, stored: Stored
) -> None:
    with pytest.raises(penstock.LeaseLost, match="no longer holds its lease"):
        ps.worker().start_work("mail")

    assert keys.members not in stored


def test_07_a_started_worker_is_in_the_list_under_its_own_id(
    ps: penstock.Penstock, worker: penstock.WorkerSession
) -> None:
    assert [info.id for info in ps.workers()] == [worker.id]


def test_08_taking_from_a_queue_not_joined_is_rejected(
    ps: penstock.Penstock, worker: penstock.WorkerSession
) -> None:
    ps.queue("cards").enqueue(b"a")

    with pytest.raises(NotWorking, match="has not started work on queue 'cards'"):
        worker.start_task("cards")

    assert ps.queue("cards").count() == 1


def test_09_the_count_is_the_number_enqueued(queue: penstock.Queue) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])

    assert queue.count() == 3


def test_10_peek_shows_the_oldest_and_removes_nothing(queue: penstock.Queue) -> None:
    queue.enqueue_many([b"a", b"b"])

    assert queue.peek() == b"a"
    assert queue.count() == 2


def test_11_all_waiting_tasks_can_be_listed(queue: penstock.Queue) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])

    assert queue.page() == ([b"a", b"b", b"c"], 3)


def test_12_a_take_returns_an_id_and_the_oldest_payload_unchanged(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"\x00\xff", b"b"])

    [process] = worker.start_tasks("mail")

    assert process.id > 0
    assert process.task == b"\x00\xff"


def test_13_a_finish_succeeds(queue: penstock.Queue, worker: penstock.WorkerSession) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")

    process.finish()

    assert queue.inspect().counters.finished == 1


def test_14_the_next_take_returns_the_second_payload(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b"])
    [first] = worker.start_tasks("mail")
    first.finish()

    [second] = worker.start_tasks("mail")

    assert second.task == b"b"


def test_15_a_stop_gives_the_task_back(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b"])
    [process] = worker.start_tasks("mail")
    assert queue.count() == 1

    process.stop()

    assert queue.count() == 2


def test_16_a_subscriber_hears_of_work_on_enqueue(
    queue: penstock.Queue, keys: QueueKeys, listen: Callable[[str], Ear]
) -> None:
    ear = listen(keys.work)

    queue.enqueue_many([b"a", b"b"])

    [message] = ear.hear_the_rest()
    assert decode_event("work", "mail", message) == Event("work", "mail", count=2)


def test_17_after_all_are_finished_peek_is_empty(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b"])

    for process in worker.start_tasks("mail", 2):
        process.finish()

    assert queue.peek() is None


def test_18_a_cancel_removes_waiting_copies_and_subscribers_get_the_payload(
    queue: penstock.Queue, keys: QueueKeys, listen: Callable[[str], Ear]
) -> None:
    queue.enqueue_many([b"a", b"b", b"a"])
    ear = listen(keys.cancel)

    queue.cancel(b"a")

    assert queue.page().tasks == [b"b"]
    [message] = ear.hear_the_rest()
    assert decode_event("cancel", "mail", message).task == b"a"


def test_19_running_copies_can_be_found_and_stopped(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b"])
    [process] = worker.start_tasks("mail")

    assert queue.find(b"a") == [(worker.id, process.id)]
    process.stop()

    assert queue.find(b"a") == []
    assert queue.page().tasks == [b"a", b"b"]


def test_20_deleting_a_queue_is_announced_and_the_worker_can_stop_work_on_it(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
) -> None:
    queue.enqueue(b"a")
    ear = listen(keys.delete)

    queue.delete()
    worker.stop_work("mail")

    [message] = ear.hear_the_rest()
    assert decode_event("delete", "mail", message).count == 1
    assert ps.work_of(worker.id) == []


def test_21_an_enqueue_creates_a_deleted_queue_again(
    ps: penstock.Penstock, queue: penstock.Queue
) -> None:
    queue.enqueue(b"a")
    queue.delete()
    assert ps.queues() == []

    queue.enqueue(b"b")

    assert ps.queues() == ["mail"]
    assert queue.page().tasks == [b"b"]


def test_22_a_second_unique_enqueue_is_rejected_while_the_first_is_not_finished(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_unique(b"a")
    assert not queue.enqueue_unique(b"a").is_new

    worker.start_task("mail")

    assert not queue.enqueue_unique(b"a").is_new
    assert queue.count() == 0


def test_23_after_the_finish_the_same_unique_payload_is_accepted(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_unique(b"a")
    [process] = worker.start_tasks("mail")
    process.finish()

    assert queue.enqueue_unique(b"a").is_new


def test_24_an_equal_task_that_is_not_unique_is_accepted(queue: penstock.Queue) -> None:
    queue.enqueue_unique(b"a")

    queue.enqueue(b"a")

    assert queue.count() == 2


def test_25_taking_from_an_empty_queue_yields_nothing(worker: penstock.WorkerSession) -> None:
    assert worker.start_task("mail") is None


def test_26_failing_the_own_worker_returns_its_work(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b"])
    worker.start_task("mail")

    assert ps.fail_worker(worker.id) == (1, 0)

    assert queue.page().tasks == [b"a", b"b"]
    assert ps.workers() == []


def test_27_an_empty_payload_survives_the_round_trip(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"")

    [process] = worker.start_tasks("mail")

    assert process.task == b""


def test_28_done_carries_worker_payload_and_result(
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    ear = listen(keys.done)

    process.finish(b"42")

    [message] = ear.hear_the_rest()
    event = decode_event("done", "mail", message)
    assert (event.worker, event.task, event.result) == (worker.id, b"a", b"42")
