"""Workers that are killed."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.servers import wait_for

if TYPE_CHECKING:
    from tests.hostile.shell import Shell


def test_a_job_of_a_killed_worker_and_parent_is_run_by_the_next_worker(shell: Shell) -> None:
    shell.write(
        "app",
        """
        import os
        import pathlib
        import time

        import penstock


        @penstock.job(queue="mail")
        def send() -> str:
            if not pathlib.Path("first").exists():
                pathlib.Path("first").touch()
                time.sleep(60)
            return "sent"
        """,
    )
    worker = shell.start("worker", "run", "app", "-q", "mail")
    job = shell.json("job", "send", "mail", "send")["id"]
    wait_for((shell.folder / "first").exists)

    os.killpg(worker.pid, signal.SIGKILL)
    shell.start("worker", "run", "app", "-q", "mail")

    wait_for(lambda: shell.json("job", "show", job, "-q", "mail")["state"] == "done")
