"""How a command is told the URL of its store, which can have a password."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.program import program
from penstock.errors import InvalidUrl
from tests.cli.conftest import CommandLine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers import RedisServer

WARNING = (
    "penstock: every user of this machine can see the password in --url (`ps`); give the URL in a "
    "file (--url-file) or in PENSTOCK_URL\n"
)
NOWHERE = "redis://127.0.0.1:1"


@pytest.fixture
def url_file(server: RedisServer, tmp_path: Path) -> Path:
    file = tmp_path / "store.url"
    file.write_text(f"{server.url}\n")
    return file


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:hunter2@127.0.0.1:1",
        "redis+sentinel://127.0.0.1:1/main?sentinel_password=hunter2",
    ],
)
def test_a_password_among_the_arguments_is_told(cli: CommandLine, url: str) -> None:
    result = cli("doctor", "--url", url, "--json")

    assert result.stderr == WARNING
    assert json.loads(result.stdout)["is_healthy"] is False


def test_a_password_in_the_environment_is_not(namespace: str) -> None:
    result = CommandLine("redis://user:hunter2@127.0.0.1:1", namespace)("doctor", "--json")

    assert result.stderr == ""


def test_a_url_without_a_password_is_not(cli: CommandLine) -> None:
    assert cli("doctor", "--url", NOWHERE, "--json").stderr == ""


def test_the_url_can_be_in_a_file(url_file: Path, namespace: str, ps: penstock.Penstock) -> None:
    ps.queue("mail").enqueue(b"hello")

    listed = CommandLine(NOWHERE, namespace).json("queue", "list", "--url-file", str(url_file))

    assert [queue["name"] for queue in listed] == ["mail"]


def test_the_environment_can_name_the_file(
    url_file: Path, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    monkeypatch.setenv("PENSTOCK_URL_FILE", str(url_file))

    with penstock.connect(namespace=namespace) as ps:
        ps.queue("mail").enqueue(b"hello")
    listed = CliRunner(env={"PENSTOCK_NAMESPACE": namespace}).invoke(program, ["queue", "list"])

    assert "mail" in listed.stdout


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, r"cannot be read \(No such file"), (b"\xff", "it is not text"), (b"\n", "is empty")],
)
def test_a_file_without_a_url_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, reason: str
) -> None:
    file = tmp_path / "store.url"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    monkeypatch.setenv("PENSTOCK_URL_FILE", str(file))

    with pytest.raises(InvalidUrl, match=rf"'{file}' that PENSTOCK_URL_FILE names .*{reason}"):
        penstock.connect()


def test_two_stores_are_a_mistake(cli: CommandLine, url_file: Path) -> None:
    result = cli("queue", "list", "--url", NOWHERE, "--url-file", str(url_file))

    assert result.exit_code == 2
    assert "--url and --url-file name two different stores" in result.stderr


def test_a_benchmark_says_so_too() -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "penstock",
            "bench",
            "--quick",
            "--url",
            "redis://:hunter2@127.0.0.1:1",
        ],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert ended.stderr.startswith(WARNING)
