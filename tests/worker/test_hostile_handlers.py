"""Handlers that misbehave, and moments that are badly chosen."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.store.commands import workers
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connection.store import Store
    from tests.running_worker import RunningWorker
    from tests.worker.conftest import Recorder


def _finish_with_nothing(context: penstock.Context) -> None:
    context.finish(None)  # type: ignore[arg-type]


def _finish_with_a_mapping(context: penstock.Context) -> None:
    context.finish({"no": "bytes"})  # type: ignore[arg-type]


def _stop_to_the_left(context: penstock.Context) -> None:
    context.stop("left")  # type: ignore[arg-type]


@pytest.mark.parametrize("act", [_finish_with_nothing, _finish_with_a_mapping, _stop_to_the_left])
def test_nonsense_said_to_the_context_fails_the_task_and_not_the_worker(
    act: Callable[[penstock.Context], None],
    queue: penstock.Queue,
    start_worker: Callable[..., RunningWorker],
) -> None:
    @penstock.handler("mail", backoff=0)
    def handle(task: bytes, context: penstock.Context) -> None:
        if task == b"bad":
            act(context)

    queue.configure(max_failures=2)
    queue.enqueue_many([b"bad", b"good"])

    worker = start_worker({"mail": handle})

    wait_for(lambda: queue.inspect().dead == 1 and queue.inspect().counters.finished == 1)
    assert worker.is_running


def test_a_coroutine_that_cancels_itself_does_not_cost_its_slot(
    queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    seen: list[bytes] = []

    async def handle(task: bytes, context: penstock.Context) -> None:
        seen.append(task)
        if task == b"bad":
            current = asyncio.current_task()
            assert current is not None
            current.cancel()

    queue.enqueue_many([b"bad"] * 3)
    worker = start_worker({"mail": handle})
    wait_for(lambda: queue.inspect().counters.finished == 3)

    queue.enqueue(b"good")

    wait_for(lambda: queue.inspect().counters.finished == 4)
    assert worker.is_running


def test_a_process_forked_by_a_handler_does_not_take_signals_to_the_worker(
    queue: penstock.Queue, tmp_path: Any
) -> None:
    # In a process of its own, because only `serve` sets signals up.
    context = multiprocessing.get_context("spawn")
    mark = tmp_path / "handled"
    worker = context.Process(
        target=_serve_and_fork,
        args=(queue._store.address.endpoints[0].path, queue._keys.namespace, str(mark)),
    )
    worker.start()
    try:
        queue.enqueue(b"fork")
        wait_for(mark.exists, timeout_s=30)
        wait_for(lambda: queue.inspect().counters.finished == 1)
        queue.enqueue(b"again")
        wait_for(lambda: queue.inspect().counters.finished == 2)
        assert mark.read_text() == str(-signal.SIGTERM)
    finally:
        worker.terminate()
        worker.join(20)
    assert worker.exitcode == 0


def _serve_and_fork(socket: str, namespace: str, mark: str) -> None:
    from pathlib import Path  # noqa: PLC0415

    import penstock  # noqa: PLC0415 - in the spawned process

    def handle(task: bytes, context: penstock.Context) -> None:
        if task != b"fork":
            return
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        os.kill(pid, signal.SIGTERM)
        status = os.waitpid(pid, 0)[1]
        Path(mark).write_text(str(os.waitstatus_to_exitcode(status)))

    with penstock.connect(f"unix://{socket}", namespace=namespace) as ps:
        penstock.serve(ps, {"mail": handle})


def test_a_worker_that_was_condemned_and_not_yet_recovered_finishes_nothing_unrun(
    ps: penstock.Penstock, queue: penstock.Queue, start_worker: Callable[..., RunningWorker]
) -> None:
    ran: set[bytes] = set()

    def handle(task: bytes, context: penstock.Context) -> None:
        ran.add(task)

    tasks = [b"%d" % n for n in range(3000)]
    worker = start_worker({"mail": handle}, heartbeat_ms=20)
    for _ in range(5):
        queue.enqueue_many(tasks)
        # Only the first step of failing it, as by a peer that dies in between.
        ps.store.run(workers.fail_worker(ps.keys, worker.id, 60_000))
        wait_for(lambda: is_drained(queue.inspect()))
        assert ran == set(tasks)
        ran.clear()


def is_drained(state: penstock.QueueState) -> bool:
    return state.ready == state.running == 0


def test_a_cancel_that_arrives_late_does_not_hit_an_equal_task_started_after_it(
    queue: penstock.Queue, recorder: Recorder, start_worker: Callable[..., RunningWorker], ps: Any
) -> None:
    recorder.may_go_on.clear()
    start_worker({"mail": recorder}, concurrency=2)
    queue.enqueue(b"report")
    wait_for(lambda: len(recorder.contexts) == 1)
    early = recorder.contexts[0]
    queue.enqueue(b"report")
    wait_for(lambda: len(recorder.contexts) == 2)

    # The event as it would arrive if it had been sent between the two.
    store: Store = ps.store
    channel = ps.keys.queue("mail").cancel
    store.call(channel, "PUBLISH", channel, b"%d report" % early.token)

    wait_for(lambda: early.cancelled)
    assert not recorder.contexts[1].cancelled


def test_a_slot_freed_by_one_queue_is_offered_to_the_others_in_turn(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker]
) -> None:
    order: list[str] = []
    gate = threading.Semaphore(0)

    def handle(task: bytes, context: penstock.Context) -> None:
        order.append(context.queue)
        assert gate.acquire(timeout=30)

    ps.queue("a").enqueue_many([b"x"] * 20)
    start_worker({"a": handle, "b": handle})
    wait_for(lambda: order == ["a"])
    ps.queue("b").enqueue_many([b"y"] * 3)

    for n in range(22):
        gate.release()
        wait_for(lambda n=n: len(order) == n + 2, timeout_s=4)  # type: ignore[misc]

    gate.release()
    assert order.count("b") == 3
    assert order[-1] == "a", "queue b had to wait until queue a was empty"


def test_large_tasks_are_claimed_a_few_at_a_time(
    queue: penstock.Queue, ps: penstock.Penstock
) -> None:
    queue.enqueue_many([b"x" * 1_000_000] * 60)
    with ps.worker() as worker:
        worker.start_work("mail")

        started = worker.start_tasks("mail", 60)

        assert 4 <= len(started) <= 20
