"""A worker that is stopped, loses its lease, or loses its store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import penstock
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker
    from tests.servers import RedisServer
    from tests.worker.conftest import Recorder


def test_a_stopped_worker_finishes_what_runs_and_gives_the_rest_back(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
) -> None:
    recorder.may_go_on.clear()
    queue.enqueue_many([b"running", b"waiting"])
    worker = start_worker({"mail": recorder})
    wait_for(lambda: recorder.tasks == [b"running"])

    worker.stop()
    wait_for(lambda: queue.inspect().idle == 0)
    recorder.may_go_on.set()
    worker.join()

    state = queue.inspect()
    assert state.counters.finished == 1
    assert queue.page().tasks == [b"waiting"]
    assert state.failures == 0
    assert ps.workers() == []


def test_after_the_grace_time_running_tasks_go_back_to_the_front_at_no_cost(
    queue: penstock.Queue, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    recorder.may_go_on.clear()
    queue.enqueue_many([b"first", b"second"])
    worker = start_worker({"mail": recorder}, grace_s=0.2)
    wait_for(lambda: recorder.tasks == [b"first"])

    worker.stop()
    worker.join()

    assert queue.page().tasks == [b"first", b"second"]
    assert queue.inspect().failures == 0
    recorder.may_go_on.set()


def test_a_second_stop_gives_everything_back_at_once(
    queue: penstock.Queue, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    recorder.may_go_on.clear()
    queue.enqueue(b"endless")
    worker = start_worker({"mail": recorder}, grace_s=600)
    wait_for(lambda: recorder.tasks)

    worker.stop()
    worker.stop()
    worker.join(10)

    assert queue.page().tasks == [b"endless"]
    recorder.may_go_on.set()


def test_a_worker_that_lost_its_lease_starts_again_under_a_new_name(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
) -> None:
    recorder.may_go_on.clear()
    worker = start_worker({"mail": recorder}, heartbeat_ms=50, concurrency=2)
    old_id = worker.id
    queue.enqueue(b"stolen")
    wait_for(lambda: recorder.contexts)

    ps.fail_worker(old_id)

    wait_for(lambda: worker.id != old_id)
    assert recorder.contexts[0].cancelled
    assert recorder.contexts[0].worker == old_id
    recorder.may_go_on.set()
    wait_for(lambda: queue.inspect().counters.finished == 1)
    assert queue.inspect().counters.started == 2
    assert [context.worker for context in recorder.contexts] == [old_id, worker.id]


def test_the_result_of_a_worker_that_lost_its_lease_is_dropped(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
) -> None:
    recorder.may_go_on.clear()
    # Its heart beats too slowly to notice by itself; the store must refuse it.
    worker = start_worker({"mail": recorder}, heartbeat_ms=60_000, lease_ms=120_000)
    queue.enqueue(b"stolen")
    wait_for(lambda: recorder.contexts)
    queue.pause()
    ps.fail_worker(worker.id)

    recorder.may_go_on.set()

    wait_for(lambda: queue.inspect().counters.refused == 1)
    assert queue.inspect().counters.finished == 0
    assert queue.page().tasks == [b"stolen"]


def test_a_dead_workers_tasks_are_recovered_by_a_peer(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
) -> None:
    dead = ps.worker(lease_ms=300, heartbeat_ms=100)
    dead.start()
    dead.start_work("mail")
    dead.heartbeat.stop()
    queue.enqueue_many([b"first", b"second", b"third"])
    assert len(dead.start_tasks("mail", 2)) == 2

    start_worker({"mail": recorder}, heartbeat_ms=100)

    wait_for(lambda: queue.inspect().counters.finished == 3)
    assert sorted(recorder.tasks) == [b"first", b"second", b"third"]
    wait_for(lambda: dead.id not in [worker.id for worker in ps.workers()])


def test_a_worker_survives_a_restart_of_the_store(
    own_server: RedisServer,
    namespace: str,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
) -> None:
    with penstock.connect(own_server.url, namespace=namespace) as ps:
        queue = ps.queue("mail")
        worker = start_worker({"mail": recorder}, url=own_server.url, heartbeat_ms=200)
        queue.enqueue(b"before")
        wait_for(lambda: queue.inspect().counters.finished == 1)

        own_server.kill()
        own_server.start()
        queue.enqueue(b"after")

        wait_for(lambda: queue.inspect().counters.finished == 2)
        assert recorder.tasks == [b"before", b"after"]
        assert worker.is_running
        worker.stop()
        worker.join()


def test_a_worker_starts_over_on_a_store_that_forgot_everything(
    own_server: RedisServer,
    namespace: str,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
) -> None:
    with penstock.connect(own_server.url, namespace=namespace) as ps:
        queue = ps.queue("mail")
        worker = start_worker({"mail": recorder}, url=own_server.url, heartbeat_ms=100)
        old_id = worker.id

        own_server.client.flushall()
        wait_for(lambda: worker.id != old_id)
        queue.enqueue(b"after")

        wait_for(lambda: recorder.tasks == [b"after"])
        worker.stop()
        worker.join()


def test_a_worker_can_be_stopped_while_the_store_is_away(
    own_server: RedisServer, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    worker = start_worker({"mail": recorder}, url=own_server.url, grace_s=0.5)
    own_server.kill()

    worker.stop()

    worker.join(15)
    assert not worker.is_running


def test_the_heartbeat_goes_on_while_a_handler_holds_the_event_loop(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    blocked = threading.Event()
    go_on = threading.Event()

    async def handle(task: bytes, context: penstock.Context) -> None:
        blocked.set()
        go_on.wait(30)

    worker = start_worker({"mail": handle}, lease_ms=400, heartbeat_ms=100)
    queue.enqueue(b"rude")
    assert blocked.wait(10)
    threading.Event().wait(1.2)
    go_on.set()

    wait_for(lambda: queue.inspect().counters.finished == 1)
    assert queue.inspect().counters.refused == 0
    assert worker.is_running
