"""Jobs in threads and coroutines that run for too long, or are cancelled while they run."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from penstock.errors import JobCancelled, JobTimeout
from penstock.executors.coroutines import CoroutineExecutor
from penstock.executors.threads import ThreadExecutor
from tests.servers import wait_for
from tests.worker.job_contexts import JobContext, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.executors.context import Context


# Threads.


class Gate:
    """A handler that holds up the tasks that are told to wait."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.threads: list[threading.Thread] = []

    def __call__(self, task: bytes, context: Context) -> bytes:
        self.threads.append(threading.current_thread())
        if task == b'"wait"':
            assert self.may_go_on.wait(30)
        if task == b'"burn"':
            while time.thread_time() < 0.1:
                pass
        if task == b'"until cancelled"':
            wait_for(lambda: context.cancelled)
        return b"done"


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.may_go_on.set()


@pytest.fixture
def threads() -> Iterator[ThreadExecutor]:
    executor = ThreadExecutor(2)
    executor.start()
    yield executor
    executor.close()


def test_a_job_in_a_thread_is_reported_at_its_deadline_and_its_slot_goes_on(
    threads: ThreadExecutor, gate: Gate
) -> None:
    origin = Origin(gate)
    slow = [JobContext(origin, argument="wait", timeout_s=0.1) for _ in range(2)]
    began_at = time.perf_counter()
    threads.submit(slow)

    error = slow[0].wait().error

    assert isinstance(error, JobTimeout)
    assert str(error) == (
        "the job ran longer than its timeout of 0.1 s and was given up, but a thread cannot be "
        "ended; give it more time, let it look at `penstock.current().cancelled`, or run "
        "it in a process"
    )
    assert 0.1 <= slow[0].took_s < 2.0
    assert time.perf_counter() - began_at < 2.0
    slow[1].wait()
    quick = JobContext(origin)
    threads.submit([quick])
    assert quick.wait().result == b"done"
    assert threads.load == 0


def test_what_comes_after_the_deadline_is_dropped_and_its_thread_ends(
    threads: ThreadExecutor, gate: Gate
) -> None:
    slow = JobContext(Origin(gate), argument="wait", timeout_s=0.05)
    threads.submit([slow])
    slow.wait()

    gate.may_go_on.set()

    wait_for(lambda: not gate.threads[0].is_alive())
    assert isinstance(slow.error, JobTimeout)
    assert slow.result == b""


def test_a_job_past_its_timeout_can_see_that_it_is_of_no_use_any_more(
    threads: ThreadExecutor, gate: Gate
) -> None:
    obedient = JobContext(Origin(gate), argument="until cancelled", timeout_s=0.05)
    threads.submit([obedient])

    assert isinstance(obedient.wait().error, JobTimeout)

    wait_for(lambda: not gate.threads[0].is_alive())


def test_threads_that_never_end_do_not_pile_up(
    threads: ThreadExecutor, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    origin = Origin(gate)
    slow = [JobContext(origin, argument="wait", timeout_s=0.05) for _ in range(4)]
    threads.submit(slow)
    for context in slow:
        assert isinstance(context.wait().error, JobTimeout)
    waiting = JobContext(origin)
    threads.submit([waiting])

    wait_for(lambda: len(gate.threads) == 4)
    assert threads.load == 3, "two slots are occupied, and one job waits"
    assert "keeps its slot" in caplog.text
    wait_for(lambda: "all slots are kept by jobs past their timeout" in caplog.text)
    assert threads.stuck == 2

    gate.may_go_on.set()
    assert waiting.wait().result == b"done"
    wait_for(lambda: threads.stuck == 0)
    wait_for(lambda: sum(thread.is_alive() for thread in set(gate.threads)) == 2)
    wait_for(lambda: threads.load == 0)


def test_deadlines_are_kept_in_any_order(threads: ThreadExecutor, gate: Gate) -> None:
    origin = Origin(gate)
    late = JobContext(origin, argument="wait", timeout_s=30)
    soon = JobContext(origin, argument="wait", timeout_s=0.05)
    threads.submit([late])
    wait_for(lambda: gate.threads)

    threads.submit([soon])

    assert isinstance(soon.wait(2).error, JobTimeout)
    gate.may_go_on.set()
    assert late.wait().result == b"done"


def test_the_cpu_time_of_a_job_in_a_thread_is_counted(threads: ThreadExecutor, gate: Gate) -> None:
    origin = Origin(gate)
    burns = JobContext(origin, argument="burn")
    waits = JobContext(origin, argument="wait", timeout_s=0.1)
    threads.submit([burns, waits])

    assert burns.wait().cpu_s > 0.09
    assert 0 < waits.wait().cpu_s < 0.05


def test_a_cancelled_job_in_a_thread_is_only_told(threads: ThreadExecutor, gate: Gate) -> None:
    context = JobContext(Origin(gate), argument="wait")
    threads.submit([context])
    wait_for(lambda: gate.threads)

    threads.cancel(context)

    assert context.cancelled
    assert not context.is_done.is_set()
    gate.may_go_on.set()
    assert context.wait().result == b"done"


# Coroutines.


def run_coroutines(
    contexts: list[JobContext], act: Callable[[CoroutineExecutor], object] = lambda executor: None
) -> None:
    """Run jobs in one slot; `act` comes as soon as the first one has begun."""

    async def main() -> None:
        executor = CoroutineExecutor(1)
        executor.start()
        executor.submit(contexts)
        await asyncio.sleep(0.01)
        act(executor)
        async with asyncio.timeout(10):
            while not all(context.is_done.is_set() for context in contexts):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        assert executor.load == 0
        executor.close()

    asyncio.run(main())


def test_a_coroutine_past_its_timeout_is_cancelled_and_its_slot_goes_on() -> None:
    thrown: list[BaseException] = []

    async def handle(task: bytes, context: Context) -> bytes:
        try:
            await asyncio.sleep(30 if task == b'"wait"' else 0)
        except asyncio.CancelledError as error:
            thrown.append(error)
            raise
        return b"done"

    origin = Origin(handle)
    slow = JobContext(origin, argument="wait", timeout_s=0.05)
    quick = JobContext(origin, timeout_s=5)

    run_coroutines([slow, quick])

    assert len(thrown) == 1
    assert isinstance(slow.error, JobTimeout)
    assert str(slow.error) == (
        "the job ran longer than its timeout of 0.05 s and was cancelled; "
        "give it more time, or less to do"
    )
    assert quick.result == b"done"


def test_a_coroutine_that_cannot_be_cancelled_does_not_keep_its_slot(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("penstock.executors.coroutines._END_S", 0.05)

    async def handle(task: bytes, context: Context) -> bytes:
        while task == b'"wait"' and not quick.is_done.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return b"done"

    origin = Origin(handle)
    slow = JobContext(origin, argument="wait", timeout_s=0.05)
    quick = JobContext(origin)

    run_coroutines([slow, quick])

    assert isinstance(slow.error, JobTimeout)
    assert quick.result == b"done"
    assert "cannot be cancelled" in caplog.text


@pytest.mark.parametrize("timeout_s", [0.0, 5.0])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), asyncio.CancelledError()])
def test_what_a_coroutine_raises_by_itself_is_told_as_it_is(
    error: BaseException, timeout_s: float
) -> None:
    async def handle(task: bytes, context: Context) -> None:
        raise error

    contexts = [JobContext(Origin(handle), timeout_s=timeout_s) for _ in range(2)]

    run_coroutines(contexts)

    assert [context.error for context in contexts] == [error, error]


@pytest.mark.parametrize("timeout_s", [0.0, 5.0])
def test_a_cancelled_coroutine_is_ended_and_its_slot_goes_on(timeout_s: float) -> None:
    async def handle(task: bytes, context: Context) -> bytes:
        await asyncio.sleep(30 if task == b'"wait"' else 0)
        return b"done"

    origin = Origin(handle)
    running = JobContext(origin, argument="wait", timeout_s=timeout_s)
    waiting = JobContext(origin, argument="wait", timeout_s=timeout_s)
    quick = JobContext(origin, timeout_s=timeout_s)

    def cancel(executor: CoroutineExecutor) -> None:
        for context in (running, running, waiting):
            executor.cancel(context)

    run_coroutines([running, waiting, quick], cancel)

    assert isinstance(running.error, JobCancelled)
    assert str(running.error) == (
        "the job was cancelled while it ran; send it again if that was not meant"
    )
    assert waiting.is_skipped
    assert quick.result == b"done"
