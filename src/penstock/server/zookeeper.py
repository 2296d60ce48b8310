"""The private ZooKeeper: a real one, from the jars that the pyspark package carries.

One server per data folder, shared by all processes of one user, started by the first that needs it
and outliving it. As with the private Redis, a lock that the server holds while it lives says
whether there is one.

ZooKeeper listens on a port of this machine, which every user of the machine can reach. So the
folder has a password of its own, and the root of the tree belongs to it alone.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.coordination.root import own_root
from penstock.errors import ServerFailed
from penstock.server.folder import data_folder, make_private
from penstock.server.process import (
    forget,
    last_log_lines,
    launch_detached,
    life_lock,
    recorded_pid,
    was_ever_started,
)
from penstock.server.zookeeper_program import (
    ask,
    configured_port,
    free_ports,
    is_free,
    write_config,
    zookeeper_command,
)

if TYPE_CHECKING:
    from pathlib import Path

_ADDRESS = "address"
_PASSWORD = "password"
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class ZooKeeperStatus:
    """What is known of the private ZooKeeper."""

    is_running: bool
    data: Path
    address: str = ""
    """for `connect(zookeeper=…)`; it has the password in it"""
    pid: int | None = None
    version: str | None = None

    @property
    def server(self) -> str:
        """Host and port, to be shown."""
        return urlsplit(self.address).netloc.rpartition("@")[2]


class EmbeddedZooKeeper:
    """The ZooKeeper of one data folder. Holds nothing open."""

    def __init__(self, data: Path | None = None) -> None:
        """It lies below the folder of the private Redis: `data`, `PENSTOCK_DATA` or the user's."""
        self.data = data_folder(data) / "zookeeper"

    def start(self, timeout_s: float = 60.0) -> ZooKeeperStatus:
        """Make sure that it runs and answers; one that runs already is kept.

        Raises ServerNotFound or JavaNotFound when there is nothing to start, ServerFailed when it
        does not come up.
        """
        make_private(self.data)
        deadline = time.monotonic() + timeout_s
        launches = 0
        while not (status := self.status()).is_running:
            launches += self._launch_unless_alive(launches)
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"the private ZooKeeper does not answer within {timeout_s:g} s; "
                    f"see {self._log_quote()}"
                )
            time.sleep(_POLL_S)
        own_root(status.address)
        return status

    def status(self) -> ZooKeeperStatus:
        """How it is; starts nothing."""
        try:
            address = (self.data / _ADDRESS).read_text()
        except FileNotFoundError:
            return ZooKeeperStatus(False, self.data)
        told = ask(urlsplit(address).netloc.rpartition("@")[2], b"srvr")
        version = re.match(rb"Zookeeper version: ([\d.]+)", told)
        if version is None:
            return ZooKeeperStatus(False, self.data)
        return ZooKeeperStatus(
            True, self.data, address, recorded_pid(self.data), version[1].decode()
        )

    def stop(self, timeout_s: float = 10.0) -> bool:
        """End it; True if it ran. Everything acknowledged is on disk already."""
        if not was_ever_started(self.data):
            return False
        deadline = time.monotonic() + timeout_s
        was_running = False
        while not self._tidy_unless_alive():
            pid = recorded_pid(self.data)
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"the private ZooKeeper (pid {pid}) is still there after {timeout_s:g} s; "
                    f"end it with `kill -9 {pid}`"
                )
            if pid is not None and not was_running:
                was_running = True
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            time.sleep(_POLL_S)
        return was_running

    def _launch_unless_alive(self, launches: int) -> bool:
        """True when none lived and one was launched."""
        with life_lock(self.data) as lock:
            if lock is None:
                return False
            log = last_log_lines(self.data)
            if launches and not (launches < 5 and "Address already in use" in log):
                raise ServerFailed(
                    f"the private ZooKeeper ended while starting; see {self._log_quote()}"
                )
            port = self._port_of_before(launches) or free_ports(1)[0]
            config = write_config(self.data, port)
            address = f"zookeeper://penstock:{self._password()}@127.0.0.1:{port}"
            _write_privately(self.data / _ADDRESS, address)
            launch_detached([*zookeeper_command(), config], self.data, lock)
            return True

    def _port_of_before(self, launches: int) -> int:
        """Where those who know its address find it again; 0 if that is taken by now."""
        port = configured_port(self.data)
        return port if launches == 0 and port and is_free(port) else 0

    def _password(self) -> str:
        path = self.data / _PASSWORD
        with suppress(FileNotFoundError):
            return path.read_text()
        _write_privately(path, secrets.token_urlsafe(24))
        return path.read_text()

    def _tidy_unless_alive(self) -> bool:
        with life_lock(self.data) as lock:
            if lock is None:
                return False
            (self.data / _ADDRESS).unlink(missing_ok=True)
            forget(self.data)
            return True

    def _log_quote(self) -> str:
        return f"its log in '{self.data}', which ends with:\n{last_log_lines(self.data)}"


def _write_privately(path: Path, text: str) -> None:
    """Readers find the whole text or none, and other users never."""
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    part.replace(path)
