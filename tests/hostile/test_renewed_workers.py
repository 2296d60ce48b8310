"""Workers that go on in a new process after so many jobs, or when they have become too large."""

from __future__ import annotations

import signal
from collections import Counter
from typing import TYPE_CHECKING

from tests.servers import wait_for

if TYPE_CHECKING:
    from tests.hostile.shell import Shell

APP = """
import os

import penstock

kept = []


@penstock.job(queue="mail")
def work(leaks=False):
    if leaks:
        kept.append(bytearray(os.urandom(1) * (300 << 20)))
    note()


@penstock.handler("plain")
def on_plain(task, context):
    note()


def note():
    with open("pids", "a") as pids:
        pids.write(f"{os.getpid()}\\n")
"""


def pids(shell: Shell) -> list[str]:
    path = shell.folder / "pids"
    return path.read_text().split() if path.exists() else []


def test_a_worker_goes_on_in_a_new_process_after_so_many_jobs(shell: Shell) -> None:
    shell.write("app", APP)
    shell.run("enqueue", "plain", *"abcde")

    run = shell.run("worker", "run", "app", "-q", "plain", "--max-jobs", "2", "--until-empty")

    assert run.returncode == 0, run.stderr.decode()
    assert sorted(Counter(pids(shell)).values()) == [1, 2, 2]


def test_a_worker_that_leaks_goes_on_in_a_new_process_and_can_be_stopped(shell: Shell) -> None:
    shell.write("app", APP)
    shell.run("job", "send", "mail", "work", '{"leaks": true}')

    worker = shell.start("worker", "run", "app", "--max-memory", "250M")
    wait_for(lambda: shell.output(worker).count("worker started") == 2)
    shell.run("job", "send", "mail", "work")
    wait_for(lambda: len(pids(shell)) == 2)
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(20) == 0, shell.output(worker)
    first, second = pids(shell)
    assert first != second
    assert "the worker is too large" in shell.output(worker)
