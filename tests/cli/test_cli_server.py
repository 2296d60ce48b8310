"""`penstock server`, and `--data` everywhere else."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from penstock.server.embedded import EmbeddedServer
from tests.cli.conftest import CommandLine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "data"
    yield folder
    EmbeddedServer(folder).stop()


@pytest.fixture
def cli(namespace: str) -> CommandLine:
    """Its PENSTOCK_URL leads nowhere, so whatever works has found the private server."""
    return CommandLine("redis://127.0.0.1:1", namespace)


def test_the_private_server_is_started_looked_at_and_stopped(cli: CommandLine, data: Path) -> None:
    absent = cli("server", "status", "--data", str(data), "--json")
    assert absent.exit_code == 1
    assert json.loads(absent.stdout)["is_running"] is False

    started = cli.json("server", "start", "--data", str(data))
    status = cli.json("server", "status", "--data", str(data))

    assert started["is_running"] is status["is_running"] is True
    assert started["pid"] == status["pid"]
    assert started["data"] == str(data)
    assert started["aof_enabled"] is True
    assert started["url"].startswith("unix://")

    stopped = cli.json("server", "stop", "--data", str(data))
    again = cli("server", "stop", "--data", str(data))

    assert stopped == {"data": str(data), "was_running": True}
    assert again.exit_code == 0
    assert again.stdout == f"no private Redis was running in '{data}'\n"


def test_people_get_facts_about_the_server(cli: CommandLine, data: Path) -> None:
    started = cli("server", "start", "--data", str(data))
    lines = [line.split() for line in started.stdout.splitlines()]

    assert started.exit_code == 0
    assert ["state", "running"] in lines
    assert ["AOF", "on"] in lines
    assert cli("server", "stop", "--data", str(data)).stdout == (
        f"stopped the private Redis in '{data}'\n"
    )
    status = cli("server", "status", "--data", str(data))
    assert status.exit_code == 1
    assert ["state", "stopped"] in [line.split() for line in status.stdout.splitlines()]


def test_a_folder_given_by_name_goes_before_the_url_of_the_environment(
    cli: CommandLine, data: Path
) -> None:
    assert cli("enqueue", "mail", "hello", "--data", str(data)).exit_code == 0

    assert cli.json("queue", "tasks", "mail", "--data", str(data))["tasks"] == ["hello"]


def test_the_private_server_shows_the_project_that_is_looked_at(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_PROJECT", str(tmp_path / "shop"))
    cli = CommandLine("", None, columns=400)

    listed = cli("queue", "list", "--data", str(data))
    findings = cli.json("doctor", "--data", str(data))["findings"]

    assert listed.stdout.startswith("namespace 'shop-")
    (told,) = (finding["message"] for finding in findings if finding["check"] == "namespace")
    assert told.startswith("'shop-")
    assert told.endswith(f"of the project in '{tmp_path / 'shop'}'")


def test_a_folder_that_cannot_be_used_is_an_error(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = cli("server", "start", "--data", str(tmp_path / "file" / "below"))

    assert result.exit_code == 1
    assert result.stderr.startswith("penstock: cannot use the folder")
