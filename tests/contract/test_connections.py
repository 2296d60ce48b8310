"""Every way to reach a store, and what happens to a connection in a long life."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
import redis

import penstock
from penstock.connection.wire import slot_of
from penstock.errors import StoreError, UnsafeStore
from penstock.store.keys import NamespaceKeys
from penstock.store.script import load
from tests.conftest import shared_server
from tests.proxy import Delimiter, Fault, FaultProxy, arguments_of, match_script
from tests.servers import DEBIAN, RedisCluster, RedisServer, free_port, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWORD = "p@ss/w:rd#?%&ü"
MIB = 1024 * 1024

# Servers that take long to start are started once for all the tests that need them.
on_cluster = pytest.mark.xdist_group("cluster")
on_tls = pytest.mark.xdist_group("tls")


@pytest.fixture
def queue(server: RedisServer, namespace: str) -> Iterator[penstock.Queue]:
    with penstock.connect(server.url, namespace=namespace) as ps:
        yield ps.queue("mail")


def url_of(server: RedisServer, login: str = "", options: str = "") -> str:
    return f"unix://{login}{server.socket}{options}"


# Who may enter


def test_a_password_opens_the_store(own_server: RedisServer) -> None:
    own_server.command("CONFIG", "SET", "requirepass", PASSWORD)

    with penstock.connect(url_of(own_server, f":{quote(PASSWORD, safe='')}@")) as ps:
        ps.queue("mail").enqueue(b"task")
        assert ps.queue("mail").peek() == b"task"


def test_a_user_with_the_right_to_run_scripts_can_use_the_store(own_server: RedisServer) -> None:
    own_server.command("ACL", "SETUSER", "b@b", "on", f">{PASSWORD}", "~{penstock*", "&*", "+@all")

    with penstock.connect(url_of(own_server, f"b%40b:{quote(PASSWORD, safe='')}@")) as ps:
        ps.queue("mail").enqueue(b"task")
        assert ps.queue("mail").peek() == b"task"


@pytest.mark.parametrize(
    ("login", "reason"), [(":hunter2@", "WRONGPASS"), ("bob:hunter2@", "WRONGPASS"), ("", "NOAUTH")]
)
def test_a_refused_login_is_told_at_once_and_without_the_password(
    own_server: RedisServer, login: str, reason: str
) -> None:
    own_server.command("CONFIG", "SET", "requirepass", PASSWORD)

    with pytest.raises(StoreError, match=f"refuses the login .{reason}.*check user and") as caught:
        penstock.connect(url_of(own_server, login), retry_for_s=1000)
    with pytest.raises(StoreError, match=reason):
        asyncio.run(penstock.aconnect(url_of(own_server, login), retry_for_s=1000))

    assert "hunter2" not in str(caught.value)


def test_a_user_who_may_not_run_scripts_is_told_so(own_server: RedisServer) -> None:
    own_server.command("ACL", "SETUSER", "bob", "on", ">p", "~*", "&*", "+@all", "-@scripting")

    with pytest.raises(StoreError, match=r"denies a command to this user .NOPERM"):
        penstock.connect(url_of(own_server, "bob:p@"))


def test_the_database_of_the_url_is_the_one_that_is_used(own_server: RedisServer) -> None:
    with penstock.connect(url_of(own_server, options="?db=3")) as ps:
        ps.queue("mail").enqueue(b"task")

    assert set(own_server.client.info("keyspace")) == {"db3"}


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru", "allkeys-random"])
def test_a_store_that_evicts_keys_is_refused(own_server: RedisServer, policy: str) -> None:
    own_server.command("CONFIG", "SET", "maxmemory-policy", policy)

    with pytest.raises(UnsafeStore, match=f"maxmemory-policy is '{policy}'.*set it to 'noevict"):
        penstock.connect(own_server.url)
    with pytest.raises(UnsafeStore, match="lose tasks silently"):
        asyncio.run(penstock.aconnect(own_server.url))


def test_a_store_with_no_room_for_another_client_is_asked_again(own_server: RedisServer) -> None:
    def refused() -> int:
        return int(own_server.client.info("stats")["rejected_connections"])

    url = url_of(own_server, f":{quote(PASSWORD, safe='')}@")
    own_server.command("CONFIG", "SET", "requirepass", PASSWORD)
    own_server.command("CONFIG", "SET", "maxclients", 1)
    with ThreadPoolExecutor() as threads:
        connecting = threads.submit(penstock.connect, url)
        wait_for(lambda: refused() >= 3)
        own_server.command("CONFIG", "SET", "maxclients", 100)
        connecting.result().close()


# TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, a certificate for `localhost` and one for a client, and another CA; as RFC 5280 wants
    them, which Python insists on since 3.13.
    """
    folder = tmp_path_factory.mktemp("certificates")
    new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    (folder / "names").write_text(
        "subjectAltName=DNS:localhost\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n"
    )
    for authority in ("ca", "other"):
        openssl(
            folder,
            f"req -x509 {new_key} -keyout {authority}.key -out {authority}.pem -days 2 "
            f"-subj /CN={authority} -addext keyUsage=critical,keyCertSign,cRLSign",
        )
    for owner in ("server", "client"):
        openssl(folder, f"req {new_key} -keyout {owner}.key -out {owner}.csr -subj /CN={owner}")
        openssl(
            folder,
            f"x509 -req -in {owner}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
            f"-extfile names -out {owner}.pem",
        )
    return folder


def openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)


@contextmanager
def tls_server(folder: Path, certificates: Path, *options: str) -> Iterator[int]:
    port = free_port()
    server = RedisServer(
        folder,
        *("--tls-port", str(port), "--bind", "127.0.0.1"),
        *("--tls-cert-file", str(certificates / "server.pem")),
        *("--tls-key-file", str(certificates / "server.key")),
        *("--tls-ca-cert-file", str(certificates / "ca.pem")),
        *options,
    ).start()
    try:
        yield port
    finally:
        server.kill()


@pytest.fixture(scope="module")
def tls_port(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("tls")
    with tls_server(folder, certificates, "--tls-auth-clients", "no") as port:
        yield port


@on_tls
def test_tls_with_a_known_authority_and_the_right_name_is_accepted(
    tls_port: int, certificates: Path, namespace: str
) -> None:
    url = f"rediss://localhost:{tls_port}?ca={certificates / 'ca.pem'}"

    async def enqueue() -> None:
        async with await penstock.aconnect(url, namespace=namespace) as ps:
            await ps.queue("mail").enqueue(b"x" * MIB)

    with penstock.connect(url, namespace=namespace) as ps:
        ps.queue("mail").enqueue(b"first")
        asyncio.run(enqueue())
        assert ps.queue("mail").page().tasks == [b"first", b"x" * MIB]


@on_tls
@pytest.mark.parametrize(
    ("host", "ca", "reason"),
    [
        ("127.0.0.1", "ca", "certificate is not valid for '127.0.0.1'"),
        ("localhost", "other", "certificate verify failed"),
        ("localhost", "", "certificate verify failed"),
    ],
    ids=["wrong name", "other authority", "unknown authority"],
)
def test_tls_with_a_stranger_is_refused(
    tls_port: int, certificates: Path, host: str, ca: str, reason: str
) -> None:
    option = f"?ca={certificates / ca}.pem" if ca else ""
    url = f"rediss://{host}:{tls_port}{option}"

    with pytest.raises(penstock.StoreUnavailable, match=reason):
        penstock.connect(url, retry_for_s=0.0)
    with pytest.raises(penstock.StoreUnavailable, match=reason):
        asyncio.run(penstock.aconnect(url, retry_for_s=0.0))


def test_a_server_without_tls_is_not_spoken_to_over_a_tls_url(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, port=free_port()).start()
    try:
        with pytest.raises(penstock.StoreUnavailable, match=r"cannot connect to 127\.0\.0\.1"):
            penstock.connect(f"rediss://127.0.0.1:{server.port}", retry_for_s=0.0, timeout_s=0.5)
    finally:
        server.kill()


@on_tls
def test_a_server_that_asks_for_a_certificate_gets_the_one_of_the_url(
    certificates: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("tls")
    with tls_server(folder, certificates) as port:
        base = f"rediss://localhost:{port}?ca={certificates / 'ca.pem'}"
        own = f"&cert={certificates / 'client.pem'}&key={certificates / 'client.key'}"

        with penstock.connect(base + own) as ps:
            assert ps.queue("mail").count() == 0
        with pytest.raises(penstock.StoreUnavailable):
            penstock.connect(base, retry_for_s=0.0)


# Sentinel


class Sentinel:
    """A master, its replica, and one Sentinel that watches them."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        for name in ("first", "second"):
            (folder / name).mkdir()
        self.first = RedisServer(folder / "first", port=free_port())
        self.second = RedisServer(
            folder / "second",
            *("--replicaof", f"127.0.0.1 {self.first.port}", "--repl-diskless-sync-delay", "0"),
            port=free_port(),
        )

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{self.port}/main"

    def __enter__(self) -> Sentinel:
        self.first.start()
        self.second.start()
        wait_for(lambda: self.second.client.info("replication")["master_link_status"] == "up")
        config = self._folder / "sentinel.conf"
        config.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self._folder}\nlogfile sentinel.log\n"
            f"sentinel monitor main 127.0.0.1 {self.first.port} 1\n"
            "sentinel down-after-milliseconds main 300\n"
        )
        self._process = subprocess.Popen(
            [DEBIAN, config, "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._client = redis.Redis(port=self.port)
        wait_for(self._knows_the_replica)
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._process.kill()
        self._process.wait()
        self.second.kill()
        self.first.kill()

    def _knows_the_replica(self) -> bool:
        try:
            replicas = self._client.sentinel_slaves("main")
        except redis.ConnectionError:
            return False
        return [replica["master-link-status"] for replica in replicas] == ["ok"]


@pytest.fixture
def sentinel(tmp_path: Path) -> Iterator[Sentinel]:
    with Sentinel(tmp_path) as sentinel:
        yield sentinel


def test_the_client_follows_the_master_that_sentinel_names(sentinel: Sentinel) -> None:
    async def enqueue() -> None:
        async with await penstock.aconnect(sentinel.url) as ps:
            await ps.queue("mail").enqueue(b"during")

    with penstock.connect(sentinel.url) as ps:
        ps.queue("mail").enqueue(b"before")
        sentinel.first.command("WAIT", 1, 10_000)
        assert sentinel.second.client.role()[0] == b"slave"

        sentinel.first.kill()
        asyncio.run(enqueue())
        ps.queue("mail").enqueue(b"after")

        assert sentinel.second.client.role()[0] == b"master"
        assert ps.queue("mail").page().tasks == [b"before", b"during", b"after"]


def test_a_master_that_sentinel_does_not_know_is_reported(sentinel: Sentinel) -> None:
    url = f"redis+sentinel://127.0.0.1:{sentinel.port}/other"

    with pytest.raises(penstock.StoreUnavailable, match="knows no master named 'other'"):
        penstock.connect(url, retry_for_s=0.0)


# Cluster


@pytest.fixture
def cluster(servers: dict[str, RedisServer | RedisCluster]) -> RedisCluster:
    found = shared_server(servers, "cluster")
    assert isinstance(found, RedisCluster)
    return found


@pytest.fixture
def scattered(cluster: RedisCluster, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(cluster.url, namespace=namespace) as client:
        yield client


@on_cluster
def test_queues_of_one_namespace_live_on_every_node(
    cluster: RedisCluster, scattered: penstock.Penstock, namespace: str
) -> None:
    names = sorted(f"queue-{number}" for number in range(30))
    for name in names:
        scattered.queue(name).enqueue(name.encode())

    assert scattered.queues() == names
    assert [scattered.queue(name).peek() for name in names] == [name.encode() for name in names]
    for node in cluster.nodes:
        assert list(node.client.scan_iter(f"{{{namespace}:*}}:ready", count=1000))


class Move:
    """The slot of one queue on its way from its node to the next."""

    def __init__(self, cluster: RedisCluster, namespace: str, queue: str) -> None:
        self._tag = NamespaceKeys(namespace).queue(queue).tag
        self._slot = slot_of(f"{self._tag}:ready")
        owned = [self._owns(node) for node in cluster.nodes]
        self._nodes = cluster.nodes
        self.source = cluster.nodes[owned.index(True)]
        self.target = cluster.nodes[(owned.index(True) + 1) % 3]

    def begin(self) -> None:
        source, target = (n.command("CLUSTER", "MYID") for n in (self.source, self.target))
        self.target.command("CLUSTER", "SETSLOT", self._slot, "IMPORTING", source)
        self.source.command("CLUSTER", "SETSLOT", self._slot, "MIGRATING", target)

    def move_keys(self) -> None:
        while keys := self.source.command("CLUSTER", "GETKEYSINSLOT", self._slot, 100):
            place = ("127.0.0.1", self.target.port, "", 0, 5000)
            self.source.command("MIGRATE", *place, "KEYS", *keys)

    def end(self) -> None:
        owner = self.target.command("CLUSTER", "MYID")
        for node in (self.target, self.source, *self._nodes):
            node.command("CLUSTER", "SETSLOT", self._slot, "NODE", owner)

    def _owns(self, node: RedisServer) -> bool:
        own = node.command("CLUSTER", "MYID")
        return any(
            range_[2][2] == own and range_[0] <= self._slot <= range_[1]
            for range_ in node.command("CLUSTER", "SLOTS")
        )


def calls(server: RedisServer, command: str) -> int:
    stats: dict[str, Any] = server.client.info("commandstats")
    return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])


@on_cluster
def test_a_queue_is_found_where_its_slot_has_moved(
    cluster: RedisCluster, scattered: penstock.Penstock, namespace: str
) -> None:
    queue = scattered.queue("mail")
    queue.enqueue(b"before")
    move = Move(cluster, namespace, "mail")
    move.begin()
    move.move_keys()
    move.end()

    queue.enqueue(b"after")

    assert queue.page().tasks == [b"before", b"after"]
    ready = NamespaceKeys(namespace).queue("mail").ready
    assert move.target.client.llen(ready) == 2


@on_cluster
def test_a_queue_is_found_while_its_slot_is_moving(
    cluster: RedisCluster, scattered: penstock.Penstock, namespace: str
) -> None:
    queue = scattered.queue("mail")
    queue.enqueue(b"before")
    move = Move(cluster, namespace, "mail")
    move.begin()
    move.move_keys()
    asked = calls(move.target, "asking")

    async def peek() -> bytes | None:
        async with await penstock.aconnect(cluster.url, namespace=namespace) as ps:
            return await ps.queue("mail").peek()

    assert queue.peek() == b"before"
    assert asyncio.run(peek()) == b"before"
    assert calls(move.target, "asking") >= asked + 2
    with ThreadPoolExecutor() as threads:
        # What needs keys of which some are still to come has to wait until all are there.
        asked = calls(move.target, "asking")
        enqueued = threads.submit(queue.enqueue, b"after")
        wait_for(lambda: calls(move.target, "asking") > asked + 2)
        move.end()
        enqueued.result()
    assert queue.page().tasks == [b"before", b"after"]


@on_cluster
def test_one_node_that_evicts_keys_is_enough_to_refuse_a_cluster(cluster: RedisCluster) -> None:
    for node in cluster.nodes:
        node.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        try:
            with pytest.raises(UnsafeStore, match="maxmemory-policy is 'allkeys-lru'"):
                penstock.connect(cluster.url)
        finally:
            node.command("CONFIG", "SET", "maxmemory-policy", "noeviction")


def test_a_server_that_is_no_cluster_is_not_taken_for_one(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, port=free_port()).start()
    try:
        with pytest.raises(StoreError, match="use redis:// for a server of its own"):
            penstock.connect(f"redis+cluster://127.0.0.1:{server.port}")
    finally:
        server.kill()


# Many at once


def test_threads_can_share_a_client(queue: penstock.Queue) -> None:
    def enqueue(thread: int) -> None:
        for number in range(500):
            queue.enqueue(b"%d-%d" % (thread, number))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(enqueue, range(8)))

    expected = {b"%d-%d" % (thread, number) for thread in range(8) for number in range(500)}
    assert_each_once(queue, expected)


def test_any_number_of_requests_can_be_under_way_on_an_event_loop(
    server: RedisServer, queue: penstock.Queue, namespace: str
) -> None:
    tasks = {b"%d" % number for number in range(500)}

    async def enqueue_all() -> None:
        async with await penstock.aconnect(server.url, namespace=namespace) as ps:
            await asyncio.gather(*(ps.queue("mail").enqueue(task) for task in tasks))

    asyncio.run(enqueue_all())

    assert_each_once(queue, tasks)


FORKING = """
import random
import os, sys, threading
import penstock
ps = penstock.connect(sys.argv[1], namespace=sys.argv[2])
queue = ps.queue("mail")

def enqueue(who):
    for number in range(100):
        queue.enqueue(b"%s-%d" % (who, number))

def enqueue_in_threads(who):
    threads = [threading.Thread(target=enqueue, args=(b"%s%d" % (who, n),)) for n in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()

enqueue_in_threads(b"before")
child = os.fork()
if child == 0:
    enqueue_in_threads(b"child")
    ps.close()
    os._exit(0)
enqueue_in_threads(b"parent")
_, status = os.waitpid(child, 0)
ps.close()
sys.exit(status)
"""


def test_parent_and_child_can_go_on_with_one_client_after_a_fork(
    server: RedisServer, queue: penstock.Queue, namespace: str
) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORKING, server.url, namespace],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (run.returncode, run.stderr) == (0, "")
    phases = (b"before", b"child", b"parent")
    assert_each_once(
        queue,
        {b"%s%d-%d" % (phase, t, n) for phase in phases for t in range(4) for n in range(100)},
    )


def assert_each_once(queue: penstock.Queue, expected: set[bytes]) -> None:
    found: list[bytes] = []
    while page := queue.page(len(found), 1000).tasks:
        found += page
    assert len(found) == len(expected)
    assert set(found) == expected
    assert queue.inspect().counters.enqueued == len(expected)


# A connection's life


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_store_that_was_restarted_is_used_again(own_server: RedisServer, how: str) -> None:
    async def enqueue_around_a_restart() -> None:
        async with await penstock.aconnect(own_server.url) as ps:
            await ps.queue("mail").enqueue(b"async before")
            getattr(own_server, how)()
            own_server.start()
            await ps.queue("mail").enqueue(b"async after")

    # With `everysec` Redis holds writes back while an fsync is under way, and kill -9 loses them.
    own_server.command("CONFIG", "SET", "appendfsync", "always")
    with penstock.connect(own_server.url) as ps:
        ps.queue("mail").enqueue(b"before")
        asyncio.run(enqueue_around_a_restart())
        ps.queue("mail").enqueue(b"after")

        assert ps.queue("mail").page().tasks == [
            b"before",
            b"async before",
            b"async after",
            b"after",
        ]


@contextmanager
def connections_cut(server: RedisServer) -> Iterator[Counter[str]]:
    """Every few milliseconds all connections but one are cut; now and then a request has the time
    to get through, also on a busy machine.
    """
    stop, cuts = threading.Event(), Counter[str]()

    def cut() -> None:
        client = server.new_client()
        while not stop.wait(random.uniform(0.001, 0.03)):
            cuts["connections"] += client.client_kill_filter(_type="normal", skipme=True)
        client.close()

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        yield cuts
    finally:
        stop.set()
        thread.join()


def test_connections_cut_all_the_time_cost_no_task_and_double_none(
    own_server: RedisServer,
) -> None:
    enqueued: set[bytes] = set()

    def next_task() -> bytes:
        enqueued.add(task := b"%d" % len(enqueued))
        return task

    async def enqueue_some(cuts: Counter[str]) -> None:
        enough = cuts["connections"] + 20
        async with await penstock.aconnect(own_server.url) as ps:
            while len(enqueued) < 2000 or cuts["connections"] < enough:
                batch = [next_task() for _ in range(10)]
                await asyncio.gather(*(ps.queue("mail").enqueue(task) for task in batch))

    with penstock.connect(own_server.url) as ps:
        with connections_cut(own_server) as cuts:
            while len(enqueued) < 1000 or cuts["connections"] < 20:
                ps.queue("mail").enqueue(next_task())
            asyncio.run(enqueue_some(cuts))

        assert_each_once(ps.queue("mail"), enqueued)


def test_a_connection_that_is_lost_is_no_error_that_nobody_sees(
    server: RedisServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def lose_one(proxy: FaultProxy) -> None:
        async with await penstock.aconnect(f"unix://{proxy.path}", namespace=namespace) as ps:
            await ps.jobs("jobs").add("email")
            rule = proxy.plan(Fault.LOSE_REQUEST, 1, lambda request: request == [b"PING"])
            await ps.jobs("jobs").add("email")
            assert rule.hits == 1
            assert (await ps.jobs("jobs").counts())["ready"] == 2
            gc.collect()

    with FaultProxy(server.folder, server.socket, name=f"{namespace}.sock") as proxy:
        asyncio.run(lose_one(proxy))

    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_a_cancelled_call_leaves_the_connection_in_step(
    server: RedisServer, queue: penstock.Queue, namespace: str
) -> None:
    async def cancel_and_go_on(proxy: FaultProxy) -> list[object]:
        async with await penstock.aconnect(f"unix://{proxy.path}", namespace=namespace) as ps:
            mail = ps.queue("mail")
            await mail.enqueue(b"first")
            opened = server.client.info("stats")["total_connections_received"]
            rule = proxy.plan(Fault.DELAY, 1, match_script(load("tasks/page_tasks").text()))
            peeking = asyncio.create_task(mail.peek())
            await asyncio.to_thread(rule.wait_for_hits, 1)
            # These wait behind the cancelled one, on the same connection.
            counting = asyncio.create_task(mail.count())
            inspecting = asyncio.create_task(mail.inspect())
            peeking.cancel()
            await asyncio.gather(peeking, return_exceptions=True)
            rule.release()
            count, state = await counting, await inspecting
            await mail.enqueue(b"second")
            is_same = server.client.info("stats")["total_connections_received"] == opened
            return [peeking.cancelled(), count, state.ready, is_same, await mail.peek()]

    with FaultProxy(server.folder, server.socket, name=f"{namespace}.sock") as proxy:
        seen = asyncio.run(cancel_and_go_on(proxy))

    assert seen == [True, 1, 1, True, b"first"]
    assert queue.page().tasks == [b"first", b"second"]


def test_a_cancelled_enqueue_does_not_pass_its_number_on(
    server: RedisServer, queue: penstock.Queue, namespace: str
) -> None:
    queue.enqueue(b"first")

    async def cancel_and_go_on(proxy: FaultProxy) -> None:
        async with await penstock.aconnect(f"unix://{proxy.path}", namespace=namespace) as ps:
            rule = proxy.plan(Fault.DELAY, 1, match_script(load("tasks/enqueue_tasks").text()))
            enqueueing = asyncio.create_task(ps.queue("mail").enqueue(b"cancelled"))
            await asyncio.to_thread(rule.wait_for_hits, 1)
            enqueueing.cancel()
            await asyncio.gather(enqueueing, return_exceptions=True)
            rule.release()
            await ps.queue("mail").enqueue(b"second")

    with FaultProxy(server.folder, server.socket, name=f"{namespace}.sock") as proxy:
        asyncio.run(cancel_and_go_on(proxy))

    assert queue.page().tasks == [b"first", b"cancelled", b"second"]


# What comes back


def test_large_tasks_come_back_whole(queue: penstock.Queue) -> None:
    large = [bytes([number]) * MIB for number in range(8)]
    assert queue.enqueue_many(large) == 8

    assert queue.peek() == large[0]
    assert queue.page().tasks == large


def test_large_replies_to_many_requests_at_once_are_told_apart(
    server: RedisServer, namespace: str
) -> None:
    names = [f"queue-{number}" for number in range(40)]
    payloads = [name.encode() * 30_000 for name in names]

    async def there_and_back() -> list[bytes | None]:
        async with await penstock.aconnect(server.url, namespace=namespace) as ps:
            pairs = zip(names, payloads, strict=True)
            await asyncio.gather(*(ps.queue(name).enqueue(payload) for name, payload in pairs))
            return await asyncio.gather(*(ps.queue(name).peek() for name in names))

    assert asyncio.run(there_and_back()) == payloads


class Babbler:
    """A server that answers the first question about tasks with `first`, later ones with 7."""

    def __init__(self, path: Path, first: bytes) -> None:
        self.url = f"unix://{path}"
        self.connections = 0
        self._answers = [first]
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Babbler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with ThreadPoolExecutor() as threads:
            while True:
                try:
                    peer, _ = self._listener.accept()
                except OSError:
                    return
                self.connections += 1
                threads.submit(self._talk, peer)

    def _talk(self, peer: socket.socket) -> None:
        delimiter = Delimiter()
        with peer:
            while data := peer.recv(65536):
                delimiter.feed(data)
                while raw := delimiter.take_value():
                    peer.sendall(self._answer(arguments_of(raw)))

    def _answer(self, request: list[bytes]) -> bytes:
        if request[0] == b"INFO":
            text = b"redis_version:7.0.0\r\nmaxmemory_policy:noeviction"
            return b"$%d\r\n%s\r\n" % (len(text), text)
        if request[0] == b"EVAL" and b"acl_check_cmd" in request[1]:
            return b"*0\r\n"  # nothing is denied
        return self._answers.pop() if self._answers else b"*2\r\n$2\r\nok\r\n:7\r\n"


@pytest.mark.parametrize(
    ("first", "counts"),
    [
        (b"*2\r\n$2\r\nok\r\n:5\r\n*2\r\n$2\r\nok\r\n:6\r\n", [5, 7]),
        (b"?!\r\n", [7, 7]),
        (b"*2\r\n$2\r\nok\r\n!\r\n", [7, 7]),
    ],
    ids=["two replies for one request", "not a reply", "a broken reply"],
)
def test_bytes_that_answer_nothing_are_never_taken_for_a_reply(
    tmp_path: Path, first: bytes, counts: list[int]
) -> None:
    async def count_twice() -> list[int]:
        async with await penstock.aconnect(babbler.url) as ps:
            return [await ps.queue("mail").count(), await ps.queue("mail").count()]

    with Babbler(tmp_path / "sync.sock", first) as babbler, penstock.connect(babbler.url) as ps:
        assert [ps.queue("mail").count(), ps.queue("mail").count()] == counts
        assert babbler.connections == 2
    with Babbler(tmp_path / "async.sock", first) as babbler:
        assert asyncio.run(count_twice()) == counts
        assert babbler.connections == 2
