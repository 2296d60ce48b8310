"""How readers and writers carry the store to executors."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument
from penstock.spark.clients import find_connection, open_client

if TYPE_CHECKING:
    from penstock.spark.store import Connection
    from tests.servers import RedisServer


def test_a_connection_is_pickled_also_after_it_was_used(
    server: RedisServer, namespace: str
) -> None:
    connection = find_connection(server.url, namespace)
    with connection.open() as store:
        assert store.call("x", "PING") == b"PONG"

    carried: Connection = pickle.loads(pickle.dumps(connection))

    assert carried == connection
    with open_client(carried) as client:
        assert client.queues() == []


def test_tls_settings_that_were_used_are_not_pickled() -> None:
    connection = find_connection("rediss://:sesame@127.0.0.1:1", "shop")
    assert connection.reachable().address.tls is not None

    assert pickle.loads(pickle.dumps(connection)) == connection


def test_a_password_is_carried_but_never_shown() -> None:
    connection = find_connection("redis://:sesame@host", None)

    assert connection.settings.address.password == "sesame"
    assert "sesame" not in repr(connection) + str(connection)


def test_a_unix_socket_of_another_machine_is_refused(server: RedisServer, namespace: str) -> None:
    elsewhere = replace(find_connection(server.url, namespace), host="planner")

    with (
        pytest.raises(
            InvalidArgument, match=r"on 'planner', which an executor on '.+' cannot reach"
        ),
        elsewhere.open(),
    ):
        pass


def test_the_environment_names_the_store_where_no_option_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_URL", "redis://elsewhere:7000")
    monkeypatch.setenv("PENSTOCK_NAMESPACE", "shop")

    settings = find_connection(None, None).settings

    assert str(settings.address) == "elsewhere:7000"
    assert settings.namespace == "shop"
