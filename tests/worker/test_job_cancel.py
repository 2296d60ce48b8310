"""Jobs that are cancelled: while they wait, on their way to the worker, and while they run."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import JobCancelled
from tests.servers import wait_for
from tests.worker.job_kinds import (
    deaf_in_process,
    in_process,
    in_thread,
    long_in_coroutine,
    long_in_process,
    long_in_thread,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.client.functions import JobFunction
    from tests.running_worker import RunningWorker

    Serve = Callable[..., RunningWorker]
    AnyJob = JobFunction[..., Any]


def test_a_job_that_waits_is_cancelled_at_once_and_never_runs(
    ps: penstock.Penstock, serve: Serve
) -> None:
    ran: list[str] = []

    @penstock.job(queue="mail")
    def note(name: str) -> None:
        ran.append(name)

    waiting = note.on(ps).send("waiting")
    delayed = note.on(ps).options(delay=0.05).send("delayed")
    assert (waiting.cancel(), delayed.cancel()) == ("cancelled", "cancelled")
    last = note.on(ps).options(delay=0.1).send("last")
    serve(note)
    last.result(20)

    assert ran == ["last"]
    for job in (waiting, delayed):
        with pytest.raises(JobCancelled):
            job.result(20)


@pytest.mark.parametrize(
    "function", [long_in_thread, long_in_coroutine, long_in_process], ids=lambda f: f.type
)
def test_a_job_that_runs_is_told_and_then_it_is_cancelled(
    ps: penstock.Penstock, serve: Serve, tmp_path: Path, function: AnyJob
) -> None:
    serve(function)
    flag = tmp_path / "begun"
    job = function.on(ps).options(attempts=5).send(str(flag))
    wait_for(flag.exists)

    assert job.cancel() == "running"

    with pytest.raises(JobCancelled, match=f"job {job.id} was cancelled"):
        job.result(20)
    assert job.state == "cancelled"


def test_a_process_that_does_not_look_is_ended(
    ps: penstock.Penstock, serve: Serve, tmp_path: Path
) -> None:
    serve(deaf_in_process, in_process)
    flag = tmp_path / "begun"
    job = deaf_in_process.on(ps).options(attempts=5).send(str(flag))
    wait_for(flag.exists)
    began_at = time.monotonic()

    job.cancel()

    with pytest.raises(JobCancelled):
        job.result(20)
    assert time.monotonic() - began_at < 15
    assert in_process.on(ps).send("describe itself").result(20)


def test_a_job_that_ends_well_although_it_was_to_be_cancelled_is_done(
    ps: penstock.Penstock, serve: Serve
) -> None:
    has_begun, may_go_on = threading.Event(), threading.Event()

    @penstock.job(queue="mail")
    def finish_anyway() -> str:
        has_begun.set()
        assert may_go_on.wait(20)
        return "all the work is done"

    serve(finish_anyway)
    job = finish_anyway.on(ps).send()
    assert has_begun.wait(20)

    job.cancel()
    may_go_on.set()

    assert job.result(20) == "all the work is done"
    assert job.state == "done"


def test_a_job_that_fails_after_it_was_cancelled_is_not_tried_again(
    ps: penstock.Penstock, serve: Serve
) -> None:
    has_begun, may_go_on = threading.Event(), threading.Event()

    @penstock.job(queue="mail", attempts=5, backoff="none")
    def give_up() -> None:
        has_begun.set()
        assert may_go_on.wait(20)
        raise ConnectionError("told to go")

    serve(give_up)
    job = give_up.on(ps).send()
    assert has_begun.wait(20)

    job.cancel()
    may_go_on.set()

    with pytest.raises(JobCancelled):
        job.result(20)
    assert job.info().failures == 1


def test_a_job_cancelled_in_a_worker_that_has_not_begun_it_never_runs(
    ps: penstock.Penstock, serve: Serve
) -> None:
    """Quick jobs are held ahead; the one behind a slow one has been claimed and not begun."""
    may_go_on, is_held_up = threading.Event(), threading.Event()
    ran: list[int] = []

    @penstock.job(queue="mail")
    def note(number: int) -> None:
        ran.append(number)
        if number == 200:
            is_held_up.set()
            assert may_go_on.wait(20)

    jobs = [note.on(ps).send(number) for number in range(400)]
    worker = serve(note).worker
    assert worker is not None
    assert is_held_up.wait(20)
    behind = jobs[201]

    if behind.cancel() == "running":
        # Held ahead by the worker until it hears of it, or finds that it cannot begin it soon.
        held = [context for pump in worker.serving.pumps for context in pump.feed.held.values()]
        mine = [context for context in held if getattr(context, "job", "") == behind.id]
        wait_for(lambda: behind.state == "cancelled" or all(c.cancelled for c in mine))
    may_go_on.set()

    jobs[399].result(20)
    wait_for(lambda: behind.state == "cancelled")
    assert 201 not in ran


def test_a_cancelled_job_can_run_again(ps: penstock.Penstock, serve: Serve, tmp_path: Path) -> None:
    serve(long_in_coroutine, in_thread)
    flag = tmp_path / "begun"
    job = long_in_coroutine.on(ps).send(str(flag))
    wait_for(flag.exists)
    job.cancel()
    wait_for(lambda: job.state == "cancelled")
    flag.unlink()

    job.retry()

    wait_for(flag.exists)
    job.cancel()
    wait_for(lambda: job.state == "cancelled")


def test_a_cancel_is_heard_even_if_the_message_was_missed(
    ps: penstock.Penstock, serve: Serve, server: Any, tmp_path: Path
) -> None:
    worker = serve(long_in_coroutine)
    flag = tmp_path / "begun"
    job = long_in_coroutine.on(ps).send(str(flag))
    wait_for(flag.exists)
    key = ps.keys.queue("mail").cancel_job
    listeners = [client["id"] for client in server.client.client_list() if int(client["sub"]) > 0]
    assert listeners, key

    for id in listeners:
        server.client.client_kill_filter(_id=id)
    job.cancel()

    wait_for(lambda: job.state == "cancelled")
    assert worker.is_running
