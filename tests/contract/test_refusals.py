"""What a client says of a store that answers, but does not do what it is asked."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
import redis

import penstock
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers import RedisServer


def enqueue(url: str, namespace: str) -> penstock.StoreUnavailable:
    with (
        penstock.connect(url, namespace=namespace, retry_for_s=0.0) as ps,
        pytest.raises(penstock.StoreUnavailable) as caught,
    ):
        ps.queue("mail").enqueue(b"task")
    return caught.value


def enqueue_on_a_loop(url: str, namespace: str) -> penstock.StoreUnavailable:
    async def enqueue() -> penstock.StoreUnavailable:
        async with await penstock.aconnect(url, namespace=namespace, retry_for_s=0.0) as ps:
            with pytest.raises(penstock.StoreUnavailable) as caught:
                await ps.queue("mail").enqueue(b"task")
            return caught.value

    return asyncio.run(enqueue())


@pytest.mark.parametrize("send", [enqueue, enqueue_on_a_loop])
def test_a_replica_says_that_it_is_one(
    own_server: RedisServer,
    namespace: str,
    send: Callable[[str, str], penstock.StoreUnavailable],
) -> None:
    own_server.command("REPLICAOF", "127.0.0.1", 1)

    error = send(own_server.url, namespace)

    assert "answered \"READONLY You can't write against a read only" in str(error)
    assert "nothing was changed; it is a replica; give the URL of the primary" in str(error)
    assert not error.may_have_taken_effect


def test_a_busy_server_says_that_a_script_runs(own_server: RedisServer, namespace: str) -> None:
    own_server.command("CONFIG", "SET", "lua-time-limit", 1)

    def run_for_ever() -> None:
        with pytest.raises(redis.ResponseError, match="killed"):
            own_server.new_client().eval("while true do end", 0)

    with penstock.connect(own_server.url, namespace=namespace, retry_for_s=0.0) as ps:
        other = threading.Thread(target=run_for_ever)
        other.start()
        wait_for(lambda: is_busy(own_server))
        try:
            with pytest.raises(penstock.StoreUnavailable) as caught:
                ps.queue("mail").enqueue(b"task")
        finally:
            own_server.command("SCRIPT", "KILL")
            other.join()

        assert "nothing was changed; a script runs there for too long" in str(caught.value)
        ps.queue("mail").enqueue(b"task")


def is_busy(server: RedisServer) -> bool:
    try:
        server.new_client().get("key")
    except redis.ResponseError as error:
        return "BUSY" in str(error)
    return False


@pytest.mark.parametrize("send", [enqueue, enqueue_on_a_loop])
def test_what_is_never_sent_has_no_effect(
    own_server: RedisServer,
    namespace: str,
    send: Callable[[str, str], penstock.StoreUnavailable],
) -> None:
    own_server.kill()

    with pytest.raises(penstock.StoreUnavailable, match="the request was not sent") as caught:
        send(own_server.url, namespace)

    assert not caught.value.may_have_taken_effect
