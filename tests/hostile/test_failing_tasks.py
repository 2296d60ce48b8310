"""Plain tasks whose handler fails."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from tests.servers import wait_for

if TYPE_CHECKING:
    from tests.hostile.shell import Shell


def test_a_failing_task_is_held_and_given_back_when_its_worker_stops(shell: Shell) -> None:
    shell.write(
        "app",
        """
        import penstock


        @penstock.handler("mail", backoff=60)
        def on_mail(task: bytes, context: penstock.Context) -> None:
            if task == b"bad":
                raise ValueError("no good")
        """,
    )
    shell.run("enqueue", "mail", "bad")
    shell.run("enqueue", "mail", "good")

    worker = shell.start("worker", "run", "app")
    wait_for(lambda: shell.json("queue", "show", "mail")["counters"]["finished"] == 1)
    held = shell.json("queue", "show", "mail")
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(20) == 0, shell.output(worker)
    assert (held["running"], held["ready"], held["dead"]) == (1, 0, 0)
    given_back = shell.json("queue", "show", "mail")
    assert (given_back["ready"], given_back["counters"]["failed"]) == (1, 1)
