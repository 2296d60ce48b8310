"""Hooks of a worker in real processes."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.servers import wait_for

if TYPE_CHECKING:
    from tests.hostile.shell import Shell


def test_a_lifespan_ends_after_the_last_job_when_its_worker_is_stopped(shell: Shell) -> None:
    shell.write(
        "app",
        """
        import pathlib
        import time

        import penstock


        def note(line):
            with open("notes", "a") as notes:
                notes.write(line + "\\n")


        @penstock.lifespan
        async def lifespan():
            note("start")
            yield "pool"
            note("end")


        @penstock.middleware
        def around(context):
            note("before")
            yield
            note("after")


        @penstock.job(queue="mail")
        def send():
            note("job with " + penstock.current().resources)
            while not pathlib.Path("stopping").exists():
                time.sleep(0.01)
        """,
    )
    notes = shell.folder / "notes"
    worker = shell.start("worker", "run", "app")
    shell.run("job", "send", "mail", "send")
    wait_for(lambda: notes.exists() and "job" in notes.read_text())

    worker.send_signal(signal.SIGTERM)
    wait_for(lambda: "worker stopping" in shell.output(worker))
    (shell.folder / "stopping").touch()

    assert worker.wait(20) == 0, shell.output(worker)
    assert notes.read_text().splitlines() == ["start", "before", "job with pool", "after", "end"]


def test_a_worker_whose_lifespan_fails_at_the_start_says_why_and_ends(shell: Shell) -> None:
    shell.write(
        "app",
        """
        import penstock


        @penstock.lifespan
        def lifespan():
            raise ConnectionError("the database does not answer")
            yield


        @penstock.job(queue="mail")
        def send(): ...
        """,
    )

    run = shell.run("worker", "run", "app")

    assert run.returncode == 1
    assert b"the lifespan hook 'lifespan' failed at the start of the worker" in run.stderr
    assert b"Traceback" in run.stderr


def test_schedules_may_have_seconds_and_macros(shell: Shell) -> None:
    shell.write(
        "app",
        """
        import penstock


        @penstock.job(queue="mail")
        def send(): ...
        """,
    )
    shell.json("schedule", "add", "daily", "send", "-q", "mail", "--cron", "@daily")
    shell.json("schedule", "add", "often", "send", "-q", "mail", "--cron", "* * * * * *")

    shell.start("worker", "run", "app")

    wait_for(lambda: shell.json("queue", "show", "mail")["counters"]["finished"] > 1)
