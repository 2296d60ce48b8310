"""Workers that are asked to stop, in ways and at moments that do not suit them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]
import pytest

from tests.servers import wait_for

if TYPE_CHECKING:
    import subprocess

    import penstock
    from tests.hostile.shell import Shell

APP = """
    import asyncio
    import os
    import pathlib
    import threading
    import time

    import penstock
    import psutil


    @penstock.job(queue="mail")
    async def wait() -> str:
        pathlib.Path("begun").touch()
        while not pathlib.Path("end").exists():
            await asyncio.sleep(0.01)
        return "waited"


    @penstock.job(queue="mail")
    async def block() -> None:
        pathlib.Path("begun").touch()
        time.sleep(60)


    @penstock.job(queue="mail")
    async def swallow() -> None:
        pathlib.Path("begun").touch()
        await ignore_cancel()


    @penstock.job(queue="mail")
    async def swallow_once() -> str:
        first = pathlib.Path("first")
        if first.exists():
            return "beside" if psutil.pid_exists(int(first.read_text())) else "after"
        first.write_text(str(os.getpid()))
        pathlib.Path("begun").touch()
        await ignore_cancel()


    @penstock.job(queue="mail")
    async def swallow_late() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            pathlib.Path("begun").touch()
            await ignore_cancel()


    @penstock.job(queue="mail")
    async def leave_behind() -> None:
        task = asyncio.create_task(ignore_cancel())
        pathlib.Path("begun").touch()
        await asyncio.sleep(60)
        await task


    @penstock.job(queue="mail")
    async def use_thread() -> None:
        pathlib.Path("begun").touch()
        await asyncio.to_thread(time.sleep, 60)


    @penstock.job(queue="mail")
    def start_thread() -> None:
        threading.Thread(target=time.sleep, args=(60,)).start()
        pathlib.Path("begun").touch()
        time.sleep(60)


    async def ignore_cancel() -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
"""


@pytest.fixture
def app(shell: Shell) -> Shell:
    shell.write("app", APP)
    return shell


@pytest.fixture
def mail(ps: penstock.Penstock) -> penstock.Jobs:
    return ps.jobs("mail")


Run = Callable[..., tuple["subprocess.Popen[bytes]", "penstock.Job[Any]"]]


@pytest.fixture
def run(app: Shell, mail: penstock.Jobs) -> Run:
    """Start a worker, and a job of a type that it has begun."""

    def run(
        type: str, *options: str, **job_options: Any
    ) -> tuple[subprocess.Popen[bytes], penstock.Job[Any]]:
        begun = app.folder / "begun"
        begun.unlink(missing_ok=True)
        job = mail.add(type, [[], {}], **job_options)
        # The lease is so long that nobody but the worker and its parent gives anything back.
        worker = app.start("worker", "run", "app", "--lease-ms", "60000", *options)
        wait_for(lambda: worker.poll() is not None or begun.exists())
        return worker, job

    return run


def child_of(worker: subprocess.Popen[bytes]) -> Any:
    [child] = psutil.Process(worker.pid).children()
    return child


def seen(job: penstock.Job[Any]) -> tuple[str, int]:
    """The state of a job, and how often it is said to have taken its worker down."""
    info = job.info()
    return info.state, info.crashes


@pytest.mark.parametrize("options", [(), ("--alone",)])
def test_a_worker_that_is_asked_to_stop_again_and_again_ends_with_0(
    app: Shell, options: tuple[str, ...]
) -> None:
    worker = app.start("worker", "run", "app", *options)
    wait_for(lambda: "worker started" in app.output(worker))

    while worker.poll() is None:
        worker.send_signal(signal.SIGTERM)

    assert worker.returncode == 0, app.output(worker)


def test_a_hang_up_lets_what_runs_come_to_its_end(app: Shell, run: Run) -> None:
    worker, job = run("wait")

    worker.send_signal(signal.SIGHUP)
    wait_for(lambda: "worker stopping" in app.output(worker))
    (app.folder / "end").touch()

    assert worker.wait(20) == 0, app.output(worker)
    assert seen(job) == ("done", 0)


def test_a_worker_says_where_it_is_and_goes_on(app: Shell, run: Run) -> None:
    worker, job = run("wait")

    worker.send_signal(signal.SIGUSR1)
    wait_for(lambda: "tasks of the event loop:" in app.output(worker))
    (app.folder / "end").touch()

    assert job.result(20) == "waited"
    said = app.output(worker)
    assert "Current thread" in said
    assert "in wait\n" in said
    assert worker.poll() is None


def test_workers_that_are_kept_from_stopping_are_ended_after_their_grace_time(
    app: Shell, run: Run
) -> None:
    blocked, blocks = run("block", "--grace", "0.5")
    by_itself, blocks_too = run("block", "--grace", "0.5")
    frozen, waits = run("wait", "--grace", "0.5")
    child_of(frozen).suspend()

    blocked.send_signal(signal.SIGTERM)
    child_of(by_itself).send_signal(signal.SIGTERM)
    frozen.send_signal(signal.SIGTERM)

    for worker, job in ((blocked, blocks), (by_itself, blocks_too), (frozen, waits)):
        assert worker.wait(20) == 0, app.output(worker)
        assert "so it is killed" in app.output(worker)
        assert seen(job) == ("ready", 0)


def test_a_worker_ends_whatever_its_jobs_do_and_they_go_back_when_it_is_gone(
    app: Shell, run: Run
) -> None:
    kinds = ("swallow", "leave_behind", "use_thread", "start_thread")
    started = [run(kind, "--grace", "0.5") for kind in kinds]

    for worker, job in started:
        assert seen(job) == ("running", 0)
        worker.send_signal(signal.SIGTERM)

    for worker, job in started:
        assert worker.wait(20) == 0, app.output(worker)
        said = app.output(worker)
        assert "what still ran is given back when the process is gone" in said
        assert "returned=1" in said
        assert seen(job) == ("ready", 0)


def test_a_job_that_does_not_end_is_run_by_another_worker_when_the_process_of_the_first_is_dead(
    app: Shell, run: Run
) -> None:
    worker, job = run("swallow_once", "--grace", "0.5")
    app.start("worker", "run", "app")

    worker.send_signal(signal.SIGTERM)

    assert job.result(20) == "after"
    assert seen(job) == ("done", 0)


def test_a_worker_ends_though_a_job_goes_on_after_its_timeout(app: Shell, run: Run) -> None:
    worker, job = run("swallow_late", "--grace", "0.5", timeout=0.1, attempts=1)
    wait_for(lambda: seen(job) == ("dead", 0))

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(20) == 0, app.output(worker)
    assert "worker stopped" in app.output(worker)


def test_a_worker_without_a_parent_ends_whatever_its_jobs_do(app: Shell, run: Run) -> None:
    options = ("--alone", "--grace", "0.5")
    started = [run(kind, *options) for kind in ("swallow", "start_thread", "block")]

    for worker, _ in started:
        worker.send_signal(signal.SIGTERM)

    for worker, job in started:
        assert worker.wait(20) == 0, app.output(worker)
        assert seen(job) == ("ready", 0)
