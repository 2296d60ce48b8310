"""A worker in its normal life: claims, runs, reports."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.client.connect import find_settings
from penstock.errors import InvalidArgument
from penstock.worker.worker import Worker
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker
    from tests.servers import RedisServer
    from tests.worker.conftest import Recorder


def test_a_plain_function_gets_every_task_in_order(
    queue: penstock.Queue, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    tasks = [b"%d" % n for n in range(2000)]
    queue.enqueue_many(tasks)

    start_worker({"mail": recorder})

    wait_for(lambda: queue.inspect().counters.finished == 2000)
    assert recorder.tasks == tasks


def test_a_coroutine_gets_every_task(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    seen: list[bytes] = []

    async def handle(task: bytes, context: penstock.Context) -> None:
        await asyncio.sleep(0)
        seen.append(task)

    tasks = [b"%d" % n for n in range(500)]
    queue.enqueue_many(tasks)

    start_worker({"mail": handle}, concurrency=10)

    wait_for(lambda: queue.inspect().counters.finished == 500)
    assert sorted(seen) == sorted(tasks)


def test_an_idle_worker_is_woken_by_a_new_task(
    queue: penstock.Queue, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    start_worker({"mail": recorder})
    wait_for(lambda: queue.inspect().idle == 1)

    queue.enqueue(b"wake up")

    wait_for(lambda: recorder.tasks == [b"wake up"], timeout_s=2)
    wait_for(lambda: queue.inspect().idle == 1)


def test_one_worker_serves_several_queues_with_both_kinds_of_handlers(
    ps: penstock.Penstock, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    seen: list[bytes] = []

    async def handle(task: bytes, context: penstock.Context) -> None:
        seen.append(task)

    start_worker({"plain": recorder, "coroutine": handle})
    ps.queue("plain").enqueue(b"p")
    ps.queue("coroutine").enqueue(b"c")

    wait_for(lambda: recorder.tasks == [b"p"] and seen == [b"c"])


def test_as_many_tasks_run_at_once_as_the_concurrency_says(
    queue: penstock.Queue, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    recorder.may_go_on.clear()
    queue.enqueue_many([b"%d" % n for n in range(10)])

    start_worker({"mail": recorder}, concurrency=3)

    wait_for(lambda: len(recorder.tasks) == 3)
    assert queue.inspect().running == 3
    recorder.may_go_on.set()
    wait_for(lambda: queue.inspect().counters.finished == 10)
    assert len(recorder.tasks) == 10


def test_the_result_of_a_handler_goes_out_with_the_done_event(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    def handle(task: bytes, context: penstock.Context) -> bytes:
        return task.upper()

    events = queue.events("done", timeout_s=10)
    received: list[penstock.Event] = []
    listener = threading.Thread(target=lambda: received.append(next(events)))
    listener.start()
    worker = start_worker({"mail": handle})
    while not received:
        queue.enqueue(b"greet")
        listener.join(0.05)
    events.close()

    assert received[0].task == b"greet"
    assert received[0].result == b"GREET"
    assert received[0].worker == worker.id


def test_a_failing_task_goes_to_the_back_and_is_dead_in_the_end(
    queue: penstock.Queue,
    start_worker: Callable[..., RunningWorker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[bytes] = []

    @penstock.handler("mail", backoff=0)
    def handle(task: bytes, context: penstock.Context) -> None:
        tries.append(task)
        if task == b"bad":
            raise ValueError("no good")

    queue.configure(max_failures=3)
    queue.enqueue_many([b"bad", b"good"])

    start_worker({"mail": handle})

    wait_for(lambda: queue.inspect().dead == 1)
    assert queue.dead().tasks == [b"bad"]
    assert tries.count(b"bad") == 3
    wait_for(lambda: queue.inspect().counters.finished == 1)
    assert tries.index(b"good") < len(tries) - 1
    assert "no good" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_handler_that_tries_to_end_the_process_only_fails(
    error: BaseException, queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    async def handle(task: bytes, context: penstock.Context) -> None:
        raise error

    def handle_plainly(task: bytes, context: penstock.Context) -> None:
        raise error

    queue.configure(max_failures=1)
    queue.enqueue_many([b"a", b"b"])
    first = start_worker({"mail": handle})
    wait_for(lambda: queue.inspect().dead == 2)
    first.stop()
    first.join()
    queue.retry_dead()

    start_worker({"mail": handle_plainly})

    wait_for(lambda: queue.inspect().dead == 2)


def test_a_handler_that_returns_something_else_than_bytes_fails(
    queue: penstock.Queue,
    start_worker: Callable[..., RunningWorker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue(b"x")

    start_worker({"mail": lambda task, context: 42})

    wait_for(lambda: queue.inspect().dead == 1)
    assert "a result is bytes, not int" in caplog.text


def test_a_handler_can_give_its_task_back(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    seen: list[bytes] = []

    def handle(task: bytes, context: penstock.Context) -> None:
        seen.append(task)
        if len(seen) == 1:
            context.stop("back")

    queue.enqueue_many([b"first", b"second"])
    start_worker({"mail": handle})

    wait_for(lambda: queue.inspect().counters.finished == 2)
    assert seen == [b"first", b"second", b"first"]
    assert queue.inspect().counters.stopped == 1


def test_a_cancelled_task_is_told_to_its_handler(
    queue: penstock.Queue, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    recorder.may_go_on.clear()
    start_worker({"mail": recorder})
    wait_for(lambda: queue.inspect().idle == 1)
    queue.enqueue(b"endless")
    wait_for(lambda: recorder.contexts)

    queue.cancel(b"endless")

    wait_for(lambda: recorder.contexts[0].cancelled)
    recorder.may_go_on.set()
    wait_for(lambda: queue.inspect().counters.finished == 1)


def test_long_tasks_are_not_held_back_from_an_idle_peer(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    slow = threading.Event()
    seen: list[tuple[bytes, str]] = []

    def handle(task: bytes, context: penstock.Context) -> None:
        seen.append((task, context.worker))
        if task == b"slow":
            assert slow.wait(30)

    # The quick ones teach the worker to hold many tasks ahead; then one is slow.
    queue.enqueue_many([*[b"quick"] * 5000, b"slow", *[b"quick"] * 50])
    first = start_worker({"mail": handle})
    wait_for(lambda: (b"slow", first.id) in seen)

    second = start_worker({"mail": handle})

    wait_for(lambda: queue.inspect().counters.finished == 5050, timeout_s=5)
    assert sum(worker == second.id for _, worker in seen) > 0
    slow.set()


def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(
    queue: penstock.Queue, recorder: Recorder, start_worker: Callable[..., RunningWorker]
) -> None:
    queue.pause()
    queue.enqueue(b"later")
    start_worker({"mail": recorder})
    wait_for(lambda: queue.inspect().idle == 1)
    assert recorder.tasks == []

    queue.resume()

    wait_for(lambda: recorder.tasks == [b"later"], timeout_s=2)


def test_a_worker_with_no_room_passes_its_wake_up_on(
    ps: penstock.Penstock,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
) -> None:
    busy, calm = ps.queue("busy"), ps.queue("calm")
    recorder.may_go_on.clear()
    first = start_worker({"busy": recorder, "calm": recorder})
    wait_for(lambda: calm.inspect().idle == 1)
    busy.enqueue(b"b")
    wait_for(lambda: recorder.tasks == [b"b"])
    seen: list[str] = []

    def handle(task: bytes, context: penstock.Context) -> None:
        seen.append(context.worker)

    second = start_worker({"calm": handle})
    wait_for(lambda: calm.inspect().idle == 2)
    for n in range(20):
        calm.enqueue(b"%d" % n)
        wait_for(lambda n=n: len(seen) == n + 1, timeout_s=2)  # type: ignore[misc]

    assert set(seen) == {second.id}
    assert first.is_running


def test_an_idle_worker_sends_its_heartbeat_and_little_else(
    queue: penstock.Queue,
    recorder: Recorder,
    start_worker: Callable[..., RunningWorker],
    ps: penstock.Penstock,
) -> None:
    start_worker({"mail": recorder}, heartbeat_ms=100, lease_ms=3000)
    wait_for(lambda: queue.inspect().idle == 1)

    def calls() -> int:
        stats = ps.store.call("{}", "INFO", "commandstats").decode()
        return sum(
            int(line.split("calls=")[1].split(",")[0])
            for line in stats.splitlines()
            if line.startswith(("cmdstat_evalsha", "cmdstat_ping"))
        )

    began = calls()
    finished = threading.Event()
    finished.wait(3)

    # 30 beats; one look and one ping may fall into the time.
    assert calls() - began <= 33


def test_nonsense_settings_are_refused(server: RedisServer) -> None:
    settings = find_settings(server.url)
    with pytest.raises(InvalidArgument, match="at least 1 task"):
        Worker(settings, {}, concurrency=0)
    with pytest.raises(InvalidArgument, match="must come more often"):
        Worker(settings, {}, heartbeat_ms=3000)


def test_no_wake_up_is_lost_between_a_claim_and_its_reply(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    handled = threading.Semaphore(0)

    def handle(task: bytes, context: penstock.Context) -> None:
        handled.release()

    start_worker({"mail": handle})
    # Each task arrives while the worker asks for the next one and finds nothing yet.
    for _ in range(1500):
        queue.enqueue(b"next")
        assert handled.acquire(timeout=4), "the worker sleeps beside a waiting task"
