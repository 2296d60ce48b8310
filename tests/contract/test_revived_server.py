"""A private server that dies is started again by those who use it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import redis

import penstock
from penstock.client.connect import private_settings
from penstock.server.embedded import EmbeddedServer
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def private(tmp_path: Path) -> Iterator[EmbeddedServer]:
    server = EmbeddedServer(tmp_path / "data")
    yield server
    server.stop()


def test_a_client_goes_on_when_the_private_server_was_killed(private: EmbeddedServer) -> None:
    with penstock.connect(data=private.data, namespace="shop") as ps:
        mail = ps.queue("mail")
        mail.enqueue(b"first")
        first = kill(private)

        mail.enqueue(b"second")

        assert mail.page().tasks == [b"first", b"second"]
    assert private.status().pid != first


def test_so_does_an_async_client(private: EmbeddedServer) -> None:
    async def send() -> list[bytes]:
        async with await penstock.aconnect(data=private.data, namespace="shop") as ps:
            await ps.queue("mail").enqueue(b"first")
            kill(private)
            await ps.queue("mail").enqueue(b"second")
            return (await ps.queue("mail").page()).tasks

    assert asyncio.run(send()) == [b"first", b"second"]


def test_a_heartbeat_alone_brings_it_back(private: EmbeddedServer) -> None:
    with (
        penstock.connect(data=private.data, namespace="shop") as ps,
        ps.worker("ant", lease_ms=20_000, heartbeat_ms=50),
    ):
        first = kill(private)

        wait_for(lambda: private.status().pid not in (None, first))


def test_a_server_that_was_stopped_stays_stopped_and_the_error_says_how_to_start_it(
    private: EmbeddedServer,
) -> None:
    with impatient_client(private) as ps:
        ps.queue("mail").enqueue(b"first")
        private.stop()

        with pytest.raises(
            penstock.StoreUnavailable,
            match=rf"start the private server with `penstock server start --data {private.data}`",
        ):
            ps.queue("mail").count()
        assert not private.status().is_running

        private.start()
        assert ps.queue("mail").count() == 1


def test_the_default_folder_need_not_be_named_to_start_its_server(
    private: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", str(private.data))

    assert private.start_command == "penstock server start"


def test_the_error_says_why_it_could_not_be_started_again(
    private: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with impatient_client(private) as ps:
        kill(private)
        monkeypatch.setenv("PENSTOCK_REDIS_SERVER", "/no/such/server")

        with pytest.raises(
            penstock.StoreUnavailable, match=r"could not be started again: PENSTOCK_REDIS_SERVER n"
        ):
            ps.queue("mail").count()


def test_a_server_whose_folder_is_gone_is_not_made_anew(private: EmbeddedServer) -> None:
    with impatient_client(private) as ps:
        kill(private)
        shutil.rmtree(private.data)

        with pytest.raises(penstock.StoreUnavailable, match="could not be reached"):
            ps.queue("mail").count()

    assert not private.data.exists()


def impatient_client(server: EmbeddedServer) -> penstock.Penstock:
    return penstock.Penstock(private_settings("shop", server.data, retry_for_s=0.1)).open()


def kill(server: EmbeddedServer) -> int:
    """kill -9 of a server that has written everything to its file, as it does within two seconds
    on the busiest disk; returns the pid that it had.
    """
    pid = server.status().pid
    assert pid is not None
    client = redis.Redis(unix_socket_path=str(server.socket))
    with closing(client):
        wait_for(lambda: client.info("persistence")["aof_buffer_length"] == 0)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not server.status().is_running)
    return pid
