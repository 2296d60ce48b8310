"""`penstock.serve` is a guest in its process: it ends, and leaves everything as it was."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import InvalidArgument, WorkerBroken
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LEASE_MS = 60_000


class Gate:
    """Lets go, at the end of a test, of what was kept there."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self.arrivals: list[str] = []

    def wait(self) -> None:
        self.arrivals.append("waits")
        self._opened.wait(60)

    def open(self) -> None:
        self._opened.set()


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open()


def serve_in_thread(
    ps: penstock.Penstock, *functions: Any, **options: Any
) -> tuple[Future[list[str]], threading.Event]:
    """A worker in a thread of the test, and how to stop it."""
    served: Future[list[str]] = Future()
    stop = threading.Event()

    def serve() -> None:
        try:
            served.set_result(penstock.serve(ps, functions, stop=stop, **options))
        except BaseException as error:
            served.set_exception(error)

    threading.Thread(target=serve, daemon=True).start()
    return served, stop


def test_it_works_in_a_thread_until_its_event_is_set(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    @penstock.job(queue="mail")
    def add(a: int, b: int) -> int:
        return a + b

    served, stop = serve_in_thread(ps, add)
    assert mail.add(add.type, [[1, 2], {}]).result(20) == 3
    assert not served.done()
    stop.set()

    assert served.result(20) == []
    assert ps.workers() == []


def test_it_says_what_still_runs_and_gives_it_back(
    ps: penstock.Penstock, mail: penstock.Jobs, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    @penstock.job(queue="mail", type="in_thread")
    def in_thread() -> None:
        gate.wait()

    @penstock.job(queue="mail", type="beside_loop")
    async def beside_loop() -> None:
        await asyncio.to_thread(gate.wait)

    @penstock.job(queue="mail", type="deaf")
    async def deaf() -> None:
        gate.arrivals.append("deaf")
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)

    functions = (in_thread, beside_loop, deaf)
    jobs = {function.type: mail.add(function.type, [[], {}]) for function in functions}
    served, stop = serve_in_thread(ps, *functions, concurrency=3, grace_s=0.1, lease_ms=LEASE_MS)
    wait_for(lambda: len(gate.arrivals) == 3)
    stop.set()

    unended = served.result(20)

    assert [job.info().state for job in jobs.values()] == ["ready"] * 3
    assert [job.info().crashes for job in jobs.values()] == [0] * 3
    assert set(unended) >= {
        f"job {jobs['in_thread'].id} (in_thread) of queue 'mail'",
        f"job {jobs['deaf'].id} (deaf) of queue 'mail'",
        "1 of the threads of asyncio.to_thread",
    }
    assert "the worker has ended, but this still runs" in caplog.text
    assert ps.workers() == []


def stop_loop() -> None:
    asyncio.get_running_loop().stop()


def exit_later() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 3)


def cancel_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


@pytest.mark.parametrize("end", [stop_loop, exit_later, cancel_all])
def test_a_job_that_ends_the_loop_is_an_error_and_a_crash(
    ps: penstock.Penstock, mail: penstock.Jobs, end: Callable[[], None]
) -> None:
    @penstock.job(queue="mail", type="end")
    async def end_loop() -> None:
        end()
        await asyncio.sleep(60)

    job = mail.add("end", [[], {}])
    served, _ = serve_in_thread(ps, end_loop, lease_ms=LEASE_MS)

    with pytest.raises(WorkerBroken, match="let a job end by returning or raising"):
        served.result(20)

    assert (job.info().state, job.info().crashes) == ("ready", 1)
    assert ps.workers() == []


def test_signals_are_afterwards_what_they_were(ps: penstock.Penstock) -> None:
    @penstock.job(queue="mail")
    def nothing() -> None: ...

    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
    before = [signal.getsignal(signum) for signum in signals]

    assert penstock.serve(ps, [nothing], until_empty=True) == []

    assert [signal.getsignal(signum) for signum in signals] == before


def test_beside_a_running_loop_it_says_what_to_do(ps: penstock.Penstock) -> None:
    async def main() -> None:
        penstock.serve(ps, {"mail": lambda task, context: None})

    with pytest.raises(InvalidArgument, match=r"call it in another thread .*stop=event"):
        asyncio.run(main())
