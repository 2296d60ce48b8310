"""Jobs that run longer than they may."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

import penstock
from tests.servers import wait_for
from tests.worker.job_kinds import deaf_in_process, in_thread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.running_worker import RunningWorker

    Serve = Callable[..., RunningWorker]


def test_a_job_in_a_thread_that_runs_too_long_fails_at_its_deadline(
    ps: penstock.Penstock, serve: Serve
) -> None:
    may_go_on = threading.Event()
    cancelled: list[bool] = []

    @penstock.job(queue="mail", timeout=0.1)
    def dawdle() -> str:
        job = penstock.current()
        assert may_go_on.wait(20)
        cancelled.append(job.cancelled)
        job.log("nobody hears this any more")
        return "too late"

    serve(dawdle, in_thread)
    job = dawdle.on(ps).send()

    with pytest.raises(penstock.JobFailed, match=r"is dead \(timeout\).*its timeout of 0.1 s"):
        job.result(20)
    assert in_thread.on(ps).send("describe itself").result(20), "the slot is free again"
    may_go_on.set()
    wait_for(lambda: cancelled == [True])
    assert in_thread.on(ps).send("describe itself").result(20)
    assert (job.state, job.log()) == ("dead", [])


def test_a_worker_whose_slots_are_all_stuck_says_so(ps: penstock.Penstock, serve: Serve) -> None:
    may_go_on = threading.Event()

    @penstock.job(queue="mail", timeout=0.05)
    def hang() -> None:
        assert may_go_on.wait(20)

    serve(hang, in_thread, concurrency=2, heartbeat_ms=50)
    hang.on(ps).send_many([()] * 4)
    wait_for(lambda: [info.stuck_slots for info in ps.workers()] == [2])
    job = in_thread.on(ps).send("describe itself")

    [info] = ps.workers()
    [reason] = job.explain().reasons

    assert info.is_stuck
    assert (info.about["queues"], info.about["concurrency"]) == (["mail"], 2)
    assert reason.code == "workers_stuck"
    assert "are kept by jobs past their timeout, whose threads cannot be ended" in reason.text
    may_go_on.set()
    assert job.result(20)
    wait_for(lambda: [info.stuck_slots for info in ps.workers()] == [0])


def test_a_coroutine_that_runs_too_long_is_cancelled(ps: penstock.Penstock, serve: Serve) -> None:
    ended: list[str] = []

    @penstock.job(queue="mail", timeout=0.1, attempts=2, backoff="none")
    async def dawdle() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("in good order")

    serve(dawdle)
    job = dawdle.on(ps).send()

    with pytest.raises(penstock.JobFailed, match=r"is dead \(timeout\).*its timeout of 0.1 s"):
        job.result(20)
    assert ended == ["in good order"] * 2
    assert job.info().failures == 2


def test_a_process_that_runs_too_long_is_ended(
    ps: penstock.Penstock, serve: Serve, tmp_path: Path
) -> None:
    serve(deaf_in_process)
    began_at = time.monotonic()
    job = deaf_in_process.on(ps).options(timeout=0.2).send(str(tmp_path / "flag"))

    with pytest.raises(penstock.JobFailed, match=r"is dead \(timeout\).*its process was ended"):
        job.result(20)
    assert time.monotonic() - began_at < 10
