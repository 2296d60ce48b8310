"""Commands with a slip in them."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.server.embedded import EmbeddedServer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.hostile.shell import Shell


@pytest.mark.parametrize(
    ("command", "advice"),
    [
        ("queue pause typo", "there is no queue 'typo'"),
        ("worker run app.py", "run `penstock worker run app`\n"),
        ("doctor --url redis://:hunter2@127.0.0.1:1", "can see the password in --url"),
    ],
)
def test_a_command_with_a_slip_says_what_is_wrong_and_changes_nothing(
    shell: Shell, command: str, advice: str
) -> None:
    shell.write("app", "")

    ended = shell.run(*command.split())

    assert ended.returncode == 1
    assert advice in ended.stderr.decode()
    assert shell.json("queue", "list") == []


@pytest.mark.parametrize("grace", ["nan", "inf"])
def test_a_worker_takes_no_grace_time_that_never_ends(shell: Shell, grace: str) -> None:
    ended = shell.run("worker", "run", "app", "--grace", grace)

    assert ended.returncode == 2
    assert f"{grace} is no number of seconds" in ended.stderr.decode()


def test_commands_work_with_every_stream_closed(shell: Shell) -> None:
    enqueue = "penstock enqueue mail a <&- >&- 2>&-".replace(
        "penstock", f"{sys.executable} -m penstock"
    )

    ended = subprocess.run(
        enqueue, shell=True, env=shell.environment, cwd=shell.folder, check=False
    )

    assert ended.returncode == 0
    [queue] = shell.json("queue", "list")
    assert (queue["name"], queue["ready"]) == ("mail", 1)


def test_a_folder_that_is_closed_for_the_private_server_is_told(
    shell: Shell, tmp_path: Path
) -> None:
    data = tmp_path / "mine"
    data.mkdir()
    data.chmod(0o755)
    try:
        started = shell.run("server", "start", "--data", str(data))

        assert started.returncode == 0
        assert "closed a folder to other users" in started.stderr.decode()
        assert str(data) in started.stderr.decode()
    finally:
        EmbeddedServer(data).stop()
