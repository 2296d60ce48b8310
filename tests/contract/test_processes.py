"""Tasks in the hands of workers: start, finish, stop, find. What fails is in test_dead.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument, LeaseLost, NotWorking, TooManyProcesses
from penstock.model.queues import MAX_HELD
from penstock.store.commands import processes, queues

if TYPE_CHECKING:
    from collections.abc import Iterator

    import penstock
    from penstock.model.queues import Side
    from penstock.store.command import Operation
    from penstock.store.keys import QueueKeys
    from tests.stored import Stored


def test_started_tasks_move_from_ready_to_running_with_rising_ids(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])

    first, second = worker.start_tasks("mail", 2)

    assert (first.task, second.task) == (b"a", b"b")
    assert second.id == first.id + 1
    assert first.token == first.id
    assert stored[keys.ready] == [b"c"]
    assert stored[keys.running(worker.id)] == {
        b"%d" % first.id: b"a",
        b"%d" % second.id: b"b",
    }


def test_an_empty_queue_hands_out_nothing(
    worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    assert worker.start_task("mail") is None

    assert keys.running(worker.id) not in stored
    assert keys.idle not in stored


def test_a_worker_that_has_not_joined_starts_nothing(
    ps: penstock.Penstock, queue: penstock.Queue, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue(b"a")
    with (
        ps.worker("bee") as worker,
        pytest.raises(NotWorking, match=r"call start_work\('mail'\) first"),
    ):
        worker.start_task("mail")

    assert stored[keys.ready] == [b"a"]


def test_a_worker_that_was_failed_starts_nothing(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    stored: Stored,
) -> None:
    queue.enqueue(b"a")
    ps.fail_worker(worker.id)

    with pytest.raises(LeaseLost, match="start the worker again under a new name"):
        worker.start_task("mail")

    assert stored[keys.ready] == [b"a"]
    assert worker.lease.is_lost


def test_a_worker_holds_no_more_than_it_may(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a"] * (MAX_HELD + 1))
    worker.start_tasks("mail", MAX_HELD - 1)

    assert len(worker.start_tasks("mail", 10)) == 1

    with pytest.raises(TooManyProcesses, match="finish some first"):
        worker.start_task("mail")
    assert queue.count() == 1


@pytest.mark.parametrize("limit", [0, -1, MAX_HELD + 1, 1.5])
def test_a_limit_out_of_range_is_refused(
    queue: penstock.Queue, worker: penstock.WorkerSession, limit: int
) -> None:
    queue.enqueue(b"a")

    with pytest.raises(InvalidArgument, match=r"limit is .*; a worker can ask for 1 to 10000"):
        worker.start_tasks("mail", limit)

    assert queue.count() == 1


def test_a_finished_task_leaves_nothing_behind(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")

    process.finish()

    assert keys.ready not in stored
    assert keys.running(worker.id) not in stored
    assert queue.inspect().counters.finished == 1


def test_a_task_is_finished_once(queue: penstock.Queue, worker: penstock.WorkerSession) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    process.finish()

    with pytest.raises(LeaseLost, match="no longer holds process"):
        process.finish()

    counters = queue.inspect().counters
    assert (counters.finished, counters.refused) == (1, 1)


def test_finishing_many_answers_which_were_refused(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b"])
    first, second = worker.start_tasks("mail", 2)
    first.stop()

    started, refused = worker.finish_tasks("mail", [first.id, second.id])

    assert (started, refused) == ([], [first.id])
    assert queue.page().tasks == [b"a"]


def test_a_process_named_twice_is_finished_once(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")

    _, refused = worker.finish_tasks("mail", [process.id, process.id])

    assert refused == []
    assert queue.inspect().counters.finished == 1


@pytest.mark.parametrize("name", ["stop_tasks", "fail_tasks"])
def test_a_process_named_twice_is_given_back_once(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    name: str,
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")

    ps.store.run(getattr(processes, name)(keys, next(operations), worker.id, [process.id] * 2))

    assert queue.page().tasks == [b"a"]


def test_finishing_can_start_the_next_in_the_same_step(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b", b"c", b"d"])
    [first] = worker.start_tasks("mail")

    started, refused = worker.finish_tasks("mail", [first.id], limit=2)

    assert [process.task for process in started] == [b"b", b"c"]
    assert refused == []
    assert queue.inspect().running == 2


def test_finishing_says_why_nothing_was_started(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
) -> None:
    def finish(limit: int) -> str:
        return ps.store.run(
            processes.finish_tasks(keys, next(operations), worker.id, [], limit=limit)
        ).word

    assert finish(limit=0) == "idle"
    assert finish(limit=1) == "empty"
    queue.pause()
    assert finish(limit=1) == "paused"
    queue.resume()
    queue.enqueue_many([b"a"] * (MAX_HELD + 1))
    assert finish(limit=MAX_HELD) == "ok"
    assert finish(limit=1) == "too_many"
    ps.fail_worker(worker.id)
    assert finish(limit=1) == "not_working"


def test_a_finish_of_a_failed_worker_is_refused_and_the_task_stays(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    ps.fail_worker(worker.id)

    with pytest.raises(LeaseLost, match="discard the result"):
        process.finish()

    assert queue.page().tasks == [b"a"]


def test_a_stopped_task_goes_to_the_front(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])
    [process] = worker.start_tasks("mail")

    process.stop()

    assert queue.page().tasks == [b"a", b"b", b"c"]
    assert queue.inspect().counters.stopped == 1


def test_a_task_can_be_stopped_to_the_back(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])
    [process] = worker.start_tasks("mail")

    process.stop("back")

    assert queue.page().tasks == [b"b", b"c", b"a"]


@pytest.mark.parametrize(
    ("side", "after"), [("front", [b"a", b"c", b"b"]), ("back", [b"b", b"a", b"c"])]
)
def test_tasks_stopped_together_keep_their_order(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    side: Side,
    after: list[bytes],
) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])
    first, second, third = worker.start_tasks("mail", 3)
    second.stop()

    refused = ps.store.run(
        processes.stop_tasks(
            keys, next(operations), worker.id, [third.id, first.id, second.id], side
        )
    )

    assert refused == [second.id]
    assert queue.page().tasks == after


def test_a_stop_is_refused_when_the_task_is_no_longer_held(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    process.stop()

    with pytest.raises(LeaseLost):
        process.stop()

    assert queue.page().tasks == [b"a"]
    assert queue.inspect().counters.refused == 1


@pytest.mark.parametrize("act", ["finish", "stop", "fail"])
def test_a_zombie_does_not_bring_a_deleted_queue_back(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    stored: Stored,
    act: str,
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    ps.fail_worker(worker.id)
    queue.delete()

    with pytest.raises(LeaseLost):
        getattr(process, act)()

    assert keys.meta not in stored


def test_process_ids_keep_growing_over_a_delete(
    queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    [before] = worker.start_tasks("mail")
    before.finish()
    queue.delete()
    queue.enqueue(b"a")

    [after] = worker.start_tasks("mail")

    assert after.token > before.token


def test_large_bulks_are_started_and_finished_in_order(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    payloads = [b"%d" % number for number in range(9_000)]
    queue.enqueue_many(payloads)

    started = worker.start_tasks("mail", 9_000)
    worker.finish_tasks("mail", [process.id for process in started])

    assert [process.task for process in started] == payloads
    assert keys.running(worker.id) not in stored


def test_running_copies_of_a_task_are_found(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b", b"a"])
    first, _, third = worker.start_tasks("mail", 3)

    assert queue.find(b"a") == [(worker.id, first.id), (worker.id, third.id)]
    assert queue.find(b"c") == []
    assert ps.queue("absent").find(b"a") == []


def test_leaving_a_queue_gives_everything_back_to_the_front(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    operations: Iterator[Operation],
    stored: Stored,
) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])
    worker.start_tasks("mail", 2)

    left = ps.store.run(queues.leave_queue(keys, next(operations), worker.id, is_lost=False))

    assert left == (2, 0)
    assert queue.page().tasks == [b"a", b"b", b"c"]
    assert keys.members not in stored and keys.running(worker.id) not in stored
    counters = queue.inspect().counters
    assert (counters.stopped, counters.lost) == (2, 0)
