"""A store that is out of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.servers import wait_for

if TYPE_CHECKING:
    from tests.hostile.shell import Shell
    from tests.servers import RedisServer


def test_a_worker_drains_a_full_store_though_a_queue_of_it_does_not_exist_yet(
    own_shell: Shell, own_server: RedisServer
) -> None:
    own_shell.write(
        "app",
        """
        import penstock


        @penstock.job(queue="mail")
        def send() -> str:
            return "sent"


        @penstock.job(queue="reports")
        def report() -> None: ...


        @penstock.handler("plain")
        def on_plain(task: bytes, context: penstock.Context) -> None: ...
        """,
    )
    job = own_shell.json("job", "send", "mail", "send")["id"]
    own_server.command("CONFIG", "SET", "maxmemory", 1)

    worker = own_shell.start("worker", "run", "app")

    wait_for(lambda: worker.poll() is not None or "worker started" in own_shell.output(worker))
    assert worker.poll() is None, own_shell.output(worker)
    wait_for(lambda: own_shell.json("job", "show", job, "-q", "mail")["state"] == "done")
