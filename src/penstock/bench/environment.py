"""What is measured on: one server, a namespace of its own, and the clocks."""

from __future__ import annotations

import secrets
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.bench.raw_connection import Connection, open_connection
from penstock.bench.sizes import TASK_BYTES
from penstock.client.connect import connect
from penstock.connection.wire import parse_info
from penstock.server.embedded import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.client.client import Penstock
    from penstock.client.queue import Queue

# What clients send. Everything else in the statistics is done by scripts.
_SENT_BY_CLIENTS = (
    *("evalsha", "eval", "script", "ping", "subscribe", "unsubscribe", "ssubscribe"),
    *("info", "hello", "auth", "select", "client", "blpop", "brpop", "blmove", "xread"),
)


class Cost(NamedTuple):
    """Of one task."""

    per_s: float
    client_us: float
    server_us: float


@dataclass(frozen=True, slots=True)
class Environment:
    """One server."""

    url: str
    namespace: str
    folder: Path
    """for records and logs; gone at the end"""
    client: Penstock
    connection: Connection
    is_private: bool

    def info(self) -> dict[str, str]:
        return parse_info(self.connection.request("INFO", "all"))

    def server_cpu_s(self) -> float:
        info = self.info()
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def data_bytes(self) -> int:
        """Memory of all keys of the namespace, as the server itself adds it up.

        Not the memory in use: buffers that come and go are larger than what is to be measured.
        """
        cursor, keys = b"", set[bytes]()
        while cursor != b"0":
            question = ("SCAN", cursor or b"0", "MATCH", f"{{{self.namespace}*", "COUNT", 1000)
            cursor, page = self.connection.request(*question)
            keys.update(page)
        sizes = (self.connection.request("MEMORY", "USAGE", key, "SAMPLES", 0) for key in keys)
        return sum(size or 0 for size in sizes)

    def commands_sent(self) -> int:
        """By all clients since the server started, this question included."""
        info = self.info()
        stats = [info.get(f"cmdstat_{name}", "") for name in _SENT_BY_CLIENTS]
        return sum(int(s.removeprefix("calls=").split(",")[0]) for s in stats if s)

    def measure(self, tasks: int, act: Callable[[], Any]) -> Cost:
        """What it costs to do something with so many tasks, each."""
        server_s, client_s = self.server_cpu_s(), time.process_time()
        began_at = time.perf_counter()
        act()
        seconds = time.perf_counter() - began_at
        client_s, server_s = time.process_time() - client_s, self.server_cpu_s() - server_s
        return Cost(tasks / seconds, client_s * 1e6 / tasks, server_s * 1e6 / tasks)

    @contextmanager
    def queue(self) -> Iterator[Queue]:
        """A new queue that is gone afterwards."""
        queue = self.client.queue(f"q-{secrets.token_hex(4)}")
        try:
            yield queue
        finally:
            queue.delete()

    def raw_key(self, name: str) -> str:
        return f"{{{self.namespace}}}:raw:{name}"


def make_tasks(count: int, size: int = TASK_BYTES) -> list[bytes]:
    """All different, so that nothing is gained by their being equal."""
    return [str(number).encode().ljust(size, b"x") for number in range(count)]


@contextmanager
def prepared_environment(url: str | None) -> Iterator[Environment]:
    """The server at `url`, else a private one with AOF `everysec` that is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        server = EmbeddedServer(folder / "redis")
        try:
            found = url or server.start().url
            with _connected(found, folder, is_private=url is None) as environment:
                yield environment
        finally:
            server.stop()


@contextmanager
def _connected(url: str, folder: Path, is_private: bool) -> Iterator[Environment]:
    namespace = f"bench-{secrets.token_hex(4)}"
    connection = open_connection(url)
    if is_private:
        # Rewriting the file forks the server, which would be counted as part of a measurement.
        connection.request("CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
    try:
        with connect(url, namespace=namespace) as client:
            if is_private:
                # A rewrite in the middle of a measurement would slow that one down alone.
                connection.request("CONFIG", "SET", "auto-aof-rewrite-percentage", 0)
            try:
                yield Environment(url, namespace, folder, client, connection, is_private)
            finally:
                for queue in client.queues():
                    client.queue(queue).delete()
    finally:
        connection.close()
