"""A worker that ends because it has done enough, or has become too large."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import InvalidArgument
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker

RAN: list[str] = []


@penstock.job(queue="mail")
def quick() -> None:
    RAN.append("quick")


@penstock.job(queue="mail")
async def aquick() -> None:
    RAN.append("aquick")


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_worker_starts_no_more_jobs_than_it_may(
    concurrency: int, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    RAN.clear()
    mail.add_many("quick", [{}] * 20)
    mail.add_many("aquick", [{}] * 20)

    worker = serve(quick, aquick, max_jobs=7, concurrency=concurrency)
    worker.join()

    assert len(RAN) == 7
    assert worker.worker is not None
    assert worker.worker.is_renewed
    assert mail.counts()["done"] == 7
    assert mail.counts()["ready"] == 33


def test_the_queues_of_a_worker_share_what_it_may_do(
    ps: penstock.Penstock, start_worker: Callable[..., RunningWorker]
) -> None:
    for name in ("a", "b"):
        ps.queue(name).enqueue_many([b"x"] * 20)
    seen: list[str] = []

    worker = start_worker(
        {"a": lambda t, c: seen.append("a"), "b": lambda t, c: seen.append("b")},
        max_jobs=5,
        concurrency=4,
    )
    worker.join()

    assert len(seen) == 5
    assert ps.queue("a").count() + ps.queue("b").count() == 35


def test_what_still_runs_is_waited_for_however_short_the_grace(
    mail: penstock.Jobs, serve: Callable[..., RunningWorker], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock.worker")
    may_end = threading.Event()

    @penstock.job(queue="mail")
    def slow() -> str:
        assert may_end.wait(20)
        return "done in time"

    job = mail.add("slow")
    worker = serve(slow, max_jobs=1, grace_s=0)
    wait_for(lambda: "makes room for another" in caplog.text)
    may_end.set()
    worker.join()

    assert job.result(5) == "done in time"


def test_a_worker_that_is_asked_to_stop_meanwhile_is_not_followed_by_another(
    mail: penstock.Jobs, serve: Callable[..., RunningWorker], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "penstock.worker")
    may_end = threading.Event()

    @penstock.job(queue="mail")
    def slow() -> None:
        assert may_end.wait(20)

    mail.add("slow")
    worker = serve(slow, max_jobs=1)
    wait_for(lambda: "makes room for another" in caplog.text)
    worker.stop()
    may_end.set()
    worker.join()

    assert worker.worker is not None
    assert not worker.worker.is_renewed
    assert mail.counts()["done"] == 1


def test_a_worker_that_has_become_too_large_ends(
    mail: penstock.Jobs,
    serve: Callable[..., RunningWorker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {"now": 100}
    monkeypatch.setattr("penstock.worker.renewal.present_rss", lambda: sizes["now"])
    monkeypatch.setattr("penstock.worker.renewal._LOOK_EVERY_S", 0.01)

    @penstock.job(queue="mail")
    def leak() -> None:
        sizes["now"] = 1000

    worker = serve(leak, max_memory=500)
    mail.add("leak")
    worker.join()

    assert worker.worker is not None
    assert worker.worker.is_renewed


def test_a_limit_that_is_reached_from_the_start_is_refused(
    serve: Callable[..., RunningWorker],
) -> None:
    worker = serve(quick, max_memory=1 << 20)

    with pytest.raises(InvalidArgument, match=r"max_memory is 1.0M, and the worker has [\d.]+M"):
        worker.join()
    worker.error = None


def test_a_worker_may_run_one_job_at_least(ps: penstock.Penstock) -> None:
    with pytest.raises(InvalidArgument, match="max_jobs is 0"):
        penstock.Worker(ps.settings, [quick], max_jobs=0)
