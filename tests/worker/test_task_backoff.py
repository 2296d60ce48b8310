"""A failed task is held for a while by its worker, which goes on with others meanwhile."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import penstock
from penstock.worker.handlers import collect_handlers
from tests.invariants import assert_invariants
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker

HOUR = 3600


@penstock.handler("mail", backoff=HOUR)
def refuse_bad(task: bytes, context: penstock.Context) -> None:
    if task == b"bad":
        raise ValueError("no good")


def hold_one(queue: penstock.Queue, start_worker: Callable[..., RunningWorker]) -> RunningWorker:
    """A worker that holds a task that has failed, and has nothing else to do."""
    queue.enqueue_many([b"bad", b"good", b"good"])
    worker = start_worker({"mail": refuse_bad})
    wait_for(lambda: queue.inspect().counters.finished == 2)
    wait_for(lambda: worker.feed.load == 1 and worker.feed.is_between_requests)
    return worker


def test_a_task_that_fails_is_not_tried_again_at_once(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    tried_at: list[float] = []

    def handle(task: bytes, context: penstock.Context) -> None:
        tried_at.append(monotonic())
        raise ValueError("no good")

    queue.configure(max_failures=2)
    queue.enqueue(b"bad")

    start_worker({"mail": handle})

    wait_for(lambda: queue.inspect().dead == 1)
    first, second = tried_at
    assert second - first >= 0.5


def test_a_held_task_keeps_no_slot(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    worker = hold_one(queue, start_worker)

    state = queue.inspect()
    assert (state.ready, state.held) == (0, {worker.id: 1})
    assert state.counters.failed == 0


def test_a_worker_that_stops_gives_back_what_it_holds_and_counts_the_failure_once(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    worker = hold_one(queue, start_worker)
    queue.pause()
    queue.enqueue(b"behind")

    worker.stop()
    worker.join()

    assert queue.page().tasks == [b"behind", b"bad"]
    state = queue.inspect()
    assert (state.counters.failed, state.counters.stopped, state.failures) == (1, 0, 1)


def test_a_held_task_of_a_lost_worker_goes_back_and_counts_one_failure(
    ps: penstock.Penstock, queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    worker = hold_one(queue, start_worker)
    queue.pause()

    assert ps.fail_worker(worker.id).returned == 1

    assert queue.page().tasks == [b"bad"]
    assert queue.inspect().failures == 1
    assert_invariants(ps)


def test_a_held_task_that_is_cancelled_is_gone(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    hold_one(queue, start_worker)

    queue.cancel(b"bad")

    wait_for(lambda: queue.inspect().running == 0)
    assert queue.count() == 0


def test_a_worker_that_is_to_end_when_all_is_empty_waits_for_what_it_holds(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    tries: list[bytes] = []

    @penstock.handler("mail", backoff="named:patient")
    def handle(task: bytes, context: penstock.Context) -> None:
        tries.append(task)
        if len(tries) == 1:
            raise ValueError("not yet")

    @penstock.backoff("patient")
    def patient(failures: int) -> float:
        return 1.5  # two looks at the queue fit into it

    queue.enqueue(b"a")

    start_worker(collect_handlers([handle, patient]), until_empty=True).join()

    assert tries == [b"a", b"a"]
    assert queue.inspect().counters.finished == 1
