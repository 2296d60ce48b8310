"""What a program that listens to a queue is told."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING

import pytest

from penstock.codec.events import decode_event
from penstock.model.events import Event
from penstock.store.script import CLUSTER
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.store.keys import QueueKeys
    from tests.contract.conftest import Ear


def test_a_work_event_says_how_many_tasks_were_added(
    queue: penstock.Queue, keys: QueueKeys, listen: Callable[[str], Ear]
) -> None:
    ear = listen(keys.work)

    queue.enqueue(b"a")
    queue.enqueue_many([b"b", b"c"])
    queue.enqueue_unique(b"d")

    assert ear.hear_the_rest() == [b"1", b"2", b"1"]


def test_a_done_event_carries_worker_task_and_result(
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
) -> None:
    queue.enqueue_unique(b"\x00task")
    [process] = worker.start_tasks("mail")
    ear = listen(keys.done)

    process.finish(b"\xffresult")

    [message] = ear.hear_the_rest()
    assert decode_event("done", "mail", message) == Event(
        "done", "mail", task=b"\x00task", worker=worker.id, result=b"\xffresult"
    )


def test_a_refused_finish_is_not_announced(
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
) -> None:
    queue.enqueue_many([b"a", b"b"])
    first, second = worker.start_tasks("mail", 2)
    first.stop()
    ear = listen(keys.done)

    worker.finish_tasks("mail", [first.id, second.id])

    [message] = ear.hear_the_rest()
    assert decode_event("done", "mail", message).task == b"b"


def test_a_cancel_event_carries_the_task(
    queue: penstock.Queue, keys: QueueKeys, listen: Callable[[str], Ear]
) -> None:
    ear = listen(keys.cancel)

    queue.cancel(b"a")

    [message] = ear.hear_the_rest()
    assert decode_event("cancel", "mail", message) == Event("cancel", "mail", task=b"a")


def test_a_delete_event_says_how_many_tasks_were_removed(
    queue: penstock.Queue, keys: QueueKeys, listen: Callable[[str], Ear]
) -> None:
    queue.enqueue_many([b"a", b"b"])
    ear = listen(keys.delete)

    queue.delete()

    [message] = ear.hear_the_rest()
    assert decode_event("delete", "mail", message) == Event("delete", "mail", count=2)


@pytest.mark.parametrize("act", ["stop", "fail"])
def test_a_task_given_back_is_announced_as_work(
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
    act: str,
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    ear = listen(keys.work)

    getattr(process, act)()

    assert ear.hear_the_rest() == [b"1"]


def test_tasks_of_a_lost_worker_are_announced_as_work(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
) -> None:
    queue.enqueue_many([b"a", b"b"])
    worker.start_tasks("mail", 2)
    ear = listen(keys.work)

    ps.fail_worker(worker.id)

    assert ear.hear_the_rest() == [b"2"]


def test_a_queue_tells_its_listener_about_all_kinds_in_order(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys
) -> None:
    question = "SHARDNUMSUB" if ps.store.dialect == CLUSTER else "NUMSUB"
    with ThreadPoolExecutor(1) as listener:
        heard = listener.submit(lambda: list(islice(queue.events(), 4)))
        wait_for(lambda: ps.store.call(keys.meta, "PUBSUB", question, keys.delete)[1])

        queue.enqueue(b"a")
        [process] = worker.start_tasks("mail")
        process.finish(b"r")
        queue.cancel(b"b")
        queue.delete()

        assert heard.result(20) == [
            Event("work", "mail", count=1),
            Event("done", "mail", task=b"a", worker=worker.id, result=b"r"),
            Event("cancel", "mail", task=b"b"),
            Event("delete", "mail", count=0),
        ]


def test_a_listener_hears_what_happens_from_the_call_on(queue: penstock.Queue) -> None:
    events = queue.events(timeout_s=5)

    queue.enqueue(b"a")

    assert next(events) == Event("work", "mail", count=1)


def test_listening_ends_when_nothing_comes_in_time(queue: penstock.Queue) -> None:
    assert list(queue.events("work", timeout_s=0.01)) == []
