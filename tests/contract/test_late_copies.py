"""What the simulation found: requests that arrive again, when the world has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.store.command import Operation
from penstock.store.commands import queues, workers

if TYPE_CHECKING:
    import penstock
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.stored import Stored

MINUTE_MS = 60_000


def test_a_late_copy_of_a_join_does_not_bring_a_failed_worker_back(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, stored: Stored
) -> None:
    ps.queue("mail").enqueue(b"task")
    ps.store.run(workers.start_worker(names, Operation("lane", 1), "w1", MINUTE_MS, "{}"))
    ps.store.run(workers.start_work(names, "w1", "mail", "tasks"))
    join = queues.join_queue(keys, Operation("lane", 2), "w1")
    ps.store.run(join)
    ps.fail_worker("w1")

    ps.store.run(join)

    assert keys.members not in stored


def test_a_late_copy_of_stop_work_does_not_hide_a_worker_that_serves_the_queue_again(
    ps: penstock.Penstock, names: NamespaceKeys
) -> None:
    ps.store.run(workers.start_worker(names, Operation("lane", 1), "w1", MINUTE_MS, "{}"))
    ps.store.run(workers.start_work(names, "w1", "mail", "tasks"))
    stop = workers.stop_work(names, Operation("lane", 2), "w1", "mail", "tasks")
    ps.store.run(stop)
    ps.store.run(workers.start_work(names, "w1", "mail", "tasks"))

    ps.store.run(stop)

    assert ps.work_of("w1") == ["mail"]


def test_a_unique_task_given_back_after_a_delete_can_be_cancelled(
    ps: penstock.Penstock, worker: penstock.WorkerSession
) -> None:
    queue = ps.queue("mail")
    queue.enqueue_unique(b"old", key="k")
    process = worker.start_task("mail")
    assert process is not None
    queue.delete()
    queue.enqueue_unique(b"new", key="k")
    process.stop()

    assert queue.cancel(b"old") == 1

    assert queue.page().tasks == [b"new"]
