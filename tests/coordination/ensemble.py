"""Three real servers of ZooKeeper that belong together."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from penstock.server.zookeeper import _ask, _free_port, write_config, zookeeper_command
from tests.servers import wait_for

if TYPE_CHECKING:
    from pathlib import Path

_SIZE = 3


class Ensemble:
    """Each server in a folder of its own, on ports of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folders = [folder / str(number) for number in range(1, _SIZE + 1)]
        self._ports = [_free_port() for _ in self._folders]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        peers = [
            f"server.{number}=127.0.0.1:{_free_port()}:{_free_port()}"
            for number in range(1, _SIZE + 1)
        ]
        for number, (home, port) in enumerate(zip(self._folders, self._ports, strict=True), 1):
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(str(number))
            write_config(home, port, "initLimit=10", "syncLimit=5", *peers)

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._ports)

    def start(self, *numbers: int) -> None:
        """Start these servers, or all, and wait until they answer."""
        for number in numbers or range(_SIZE):
            home = self._folders[number]
            with (home / "log").open("ab") as output:
                self._processes[number] = subprocess.Popen(
                    [str(part) for part in zookeeper_command(home / "zoo.cfg")],
                    stdout=output,
                    stderr=output,
                    cwd=home,
                )
        wait_for(lambda: all(self._mode(number) for number in self._processes), 60.0)

    def kill(self, *numbers: int) -> None:
        """kill -9, as when the machines are gone."""
        for number in numbers or list(self._processes):
            process = self._processes.pop(number)
            process.kill()
            process.wait(10)

    @property
    def leader(self) -> int:
        [leader] = [n for n in self._processes if self._mode(n) == "leader"]
        return leader

    def _mode(self, number: int) -> str:
        """leader or follower; empty while it serves nobody."""
        told = _ask(f"127.0.0.1:{self._ports[number]}", b"srvr").decode()
        return next((line[6:] for line in told.splitlines() if line.startswith("Mode: ")), "")
