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
    shell = project(tmp_path / "shop", private)
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


APP = """
import sys

import penstock


@penstock.job(queue="default")
def send() -> str:
    return "{project}"


if __name__ == "__main__":
    sys.stdout.write(send.send().id)
"""


def test_two_projects_with_the_same_names_run_their_own_jobs(
    private: EmbeddedServer, tmp_path: Path
) -> None:
    shells = {name: project(tmp_path / name / "shop", private) for name in ("a", "b")}
    try:
        for name, shell in shells.items():
            shell.write("app", APP.format(project=name))
        sent = shells["a"].python("app.py")
        assert "sent to a queue that no worker serves" in sent.stderr.decode()
        job = sent.stdout.decode()
        other = shells["b"].start("worker", "run", "app")
        wait_for(lambda: "worker started" in shells["b"].output(other))
        assert shells["b"].json("queue", "list")[0]["ready"] == 0
        assert shells["a"].json("job", "show", job, "-q", "default")["state"] == "ready"

        worker = shells["a"].start("worker", "run", "app")
        wait_for(lambda: shells["a"].json("job", "show", job, "-q", "default")["state"] == "done")

        assert shells["a"].json("job", "show", job, "-q", "default")["result"] == "a"
        assert "namespace=shop-" in shells["a"].output(worker)
    finally:
        for shell in shells.values():
            shell.close()


def project(folder: Path, server: EmbeddedServer) -> Shell:
    """A project that uses the private server, as one does who has set nothing."""
    folder.mkdir(parents=True)
    shell = Shell(folder, PENSTOCK_DATA=str(server.data))
    for name in ("PENSTOCK_URL", "PENSTOCK_NAMESPACE", "PENSTOCK_PROJECT"):
        shell.environment.pop(name, None)
    return shell
