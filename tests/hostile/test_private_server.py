"""The private server, killed under those who use it."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from penstock.server.embedded import EmbeddedServer
from tests.hostile.shell import Shell
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def private(tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "data")
    yield server
    server.stop()


@pytest.fixture
def private_shell(private: EmbeddedServer, tmp_path: Path) -> Iterator[Shell]:
    """Without a URL, so that everything is on the private server."""
    folder = tmp_path / "shop"
    folder.mkdir()
    shell = Shell(folder, PENSTOCK_DATA=str(private.data), PENSTOCK_URL="")
    shell.environment.pop("PENSTOCK_NAMESPACE", None)
    yield shell
    shell.close()


def test_a_running_worker_starts_a_killed_private_redis_again(
    private_shell: Shell, private: EmbeddedServer
) -> None:
    shell = private_shell
    shell.write(
        "app",
        """
        import penstock


        @penstock.job(queue="mail")
        def send(number: int) -> int:
            return number
        """,
    )
    later = shell.json("job", "send", "mail", "send", '{"number": 1}', "--delay", "2")["id"]
    worker = shell.start("worker", "run", "app", "-q", "mail")
    wait_for(lambda: "worker started" in shell.output(worker))
    killed = private.status().pid
    assert killed is not None

    os.kill(killed, signal.SIGKILL)

    wait_for(lambda: private.status().pid not in (None, killed))
    now = shell.json("job", "send", "mail", "send", '{"number": 2}')["id"]
    wait_for(lambda: shell.json("job", "show", later, "-q", "mail")["state"] == "done")
    wait_for(lambda: shell.json("job", "show", now, "-q", "mail")["state"] == "done")
    assert worker.poll() is None
