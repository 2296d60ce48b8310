"""Jobs that end the event loop of their worker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import penstock
    from tests.hostile.shell import Shell

APP = """
    import asyncio
    import json
    import pathlib
    import sys

    import penstock


    @penstock.job(queue="mail")
    async def end() -> None:
        loop = asyncio.get_running_loop()
        match json.loads(pathlib.Path("how").read_text()):
            case "exit":
                loop.call_soon(sys.exit, 3)
            case "stop":
                loop.stop()
            case "cancel":
                for task in asyncio.all_tasks():
                    task.cancel()
        await asyncio.sleep(60)


    @penstock.job(queue="mail")
    async def send() -> str:
        return "sent"
"""


def test_a_job_that_ends_the_loop_of_its_worker_three_times_is_dead(
    shell: Shell, ps: penstock.Penstock
) -> None:
    shell.write("app", APP)
    poison, behind = ps.jobs("mail").add("end", [[], {}]), ps.jobs("mail").add("send", [[], {}])

    for crashes, (how, status) in enumerate([("exit", 3), ("stop", 1), ("cancel", 1)], start=1):
        (shell.folder / "how").write_text(json.dumps(how))
        ended = shell.run("worker", "run", "app", "--lease-ms", "60000")
        assert ended.returncode == status, ended.stderr.decode()
        assert b"a job has ended the event loop of its worker" in ended.stderr
        assert poison.info().crashes == crashes
    shell.run("worker", "run", "app", "--until-empty")

    info = poison.info()
    assert (info.state, info.reason) == ("dead", "poison")
    assert behind.result(0) == "sent"


def test_without_a_parent_the_worker_tells_of_it_itself(
    shell: Shell, ps: penstock.Penstock
) -> None:
    shell.write("app", APP)
    job = ps.jobs("mail").add("end", [[], {}])
    (shell.folder / "how").write_text(json.dumps("exit"))

    ended = shell.run("worker", "run", "app", "--lease-ms", "60000", "--alone")

    assert ended.returncode == 3, ended.stderr.decode()
    [attempt] = job.attempts()
    assert attempt.error is not None
    assert attempt.error.message == "the worker ended by SystemExit(3) on its event loop"
    assert job.info().crashes == 1
