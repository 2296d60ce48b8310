"""Plain tasks and jobs that are taken for each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.servers import wait_for

if TYPE_CHECKING:
    from tests.hostile.shell import Shell

APP = """
    import penstock


    @penstock.handler("plain")
    def on_plain(task: bytes, context: penstock.Context) -> None: ...


    @penstock.job(queue="mail")
    def send() -> None: ...
    """


def test_a_worker_whose_handler_is_not_for_what_the_queue_holds_says_so_and_ends(
    shell: Shell,
) -> None:
    shell.write("app", APP)
    shell.json("job", "send", "plain", "send")
    shell.json("enqueue", "mail", "task")

    plain = shell.run("worker", "run", "app", "-q", "plain")
    jobs = shell.run("worker", "run", "app", "-q", "mail")

    assert plain.returncode == 2
    assert b"queue 'plain' holds jobs, so a handler of plain tasks would never be" in plain.stderr
    assert jobs.returncode == 2
    assert b"queue 'mail' holds plain tasks, so it cannot hold jobs" in jobs.stderr


def test_a_stray_job_does_not_take_an_unused_queue_away_from_its_plain_worker(
    shell: Shell,
) -> None:
    shell.write("app", APP)
    worker = shell.start("worker", "run", "app", "-q", "plain")
    wait_for(lambda: "worker started" in shell.output(worker))

    stray = shell.run("job", "send", "plain", "send")

    assert stray.returncode == 1
    assert b"queue 'plain' holds plain tasks, so it cannot hold jobs" in stray.stderr
    shell.json("enqueue", "plain", "task")
    wait_for(lambda: shell.json("queue", "show", "plain")["counters"]["finished"] == 1)
