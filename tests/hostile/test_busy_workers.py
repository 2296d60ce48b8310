"""Workers that are too busy to answer, and those that are frozen."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]

from tests.servers import wait_for

if TYPE_CHECKING:
    import subprocess

    from tests.hostile.shell import Shell

LEASE = ("--lease-ms", "3000", "--heartbeat-ms", "300")
APP = """
    import ctypes
    import os
    import pathlib
    import time

    import penstock

    LIBC = ctypes.PyDLL(None)  # what is called in it keeps the GIL, as much C code does


    @penstock.job(queue="mail")
    def hold(seconds):
        with pathlib.Path("runs").open("a") as runs:
            runs.write(f"{os.getpid()}\\n")
        LIBC.usleep(int(seconds * 1e6))
        pathlib.Path("end").touch()
        return "held"


    @penstock.job(queue="mail")
    def wait():
        with pathlib.Path("runs").open("a") as runs:
            runs.write(f"{os.getpid()}\\n")
        while not pathlib.Path("end").exists():
            time.sleep(0.01)
"""


def runs(shell: Shell) -> list[int]:
    """The processes that have run a job."""
    path = shell.folder / "runs"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def show(shell: Shell, job: str) -> Any:
    return shell.json("job", "show", job, "-q", "mail")


def child_of(process: subprocess.Popen[bytes]) -> Any:
    [child] = psutil.Process(process.pid).children()
    return child


def test_a_healthy_job_that_holds_the_gil_for_longer_than_the_lease_runs_once(
    shell: Shell,
) -> None:
    shell.write("app", APP)
    workers = [shell.start("worker", "run", "app", "-q", "mail", *LEASE) for _ in range(2)]
    job = shell.json("job", "send", "mail", "hold", "[[5], {}]")["id"]
    wait_for((shell.folder / "end").exists)

    wait_for(lambda: show(shell, job)["state"] in ("done", "dead"))

    info = show(shell, job)
    assert (info["state"], info["result"]) == ("done", "held")
    assert (info["crashes"], info["lapses"], info["failed_attempts"]) == (0, 0, [])
    assert len(runs(shell)) == 1
    shown = " ".join(shell.run("job", "show", job, "-q", "mail").stdout.decode().split())
    assert "s, but lives: its parent process renews its lease" in shown
    wait_for(lambda: any("s, but lived" in shell.output(worker) for worker in workers))


def test_the_job_of_a_frozen_worker_is_run_by_another_and_counts_no_crash(shell: Shell) -> None:
    shell.write("app", APP)
    frozen = shell.start("worker", "run", "app", "-q", "mail", *LEASE)
    job = shell.json("job", "send", "mail", "wait")["id"]
    wait_for(lambda: len(runs(shell)) == 1)

    child_of(frozen).send_signal(signal.SIGSTOP)
    shell.start("worker", "run", "app", "-q", "mail", *LEASE)
    wait_for(lambda: len(runs(shell)) == 2)
    (shell.folder / "end").touch()
    wait_for(lambda: show(shell, job)["state"] == "done")

    info = show(shell, job)
    assert (info["crashes"], info["lapses"]) == (0, 1)
    [attempt] = info["failed_attempts"]
    assert attempt["outcome"] == "lapsed"
    assert "lease had lapsed, and nobody has reported its death" in attempt["error"]["message"]

    child_of(frozen).send_signal(signal.SIGCONT)

    wait_for(lambda: "lease had lapsed, but lived" in lapse(shell, job))


def lapse(shell: Shell, job: str) -> str:
    [attempt] = show(shell, job)["failed_attempts"]
    return str(attempt["error"]["message"])
