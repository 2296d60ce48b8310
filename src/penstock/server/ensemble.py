"""Three real servers of ZooKeeper on this machine that belong together: for tests and the demo.

They live as long as the program that started them ends them, and any user of the machine can reach
them. Nothing that matters belongs there.
"""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from penstock.errors import ServerFailed
from penstock.server.zookeeper_program import (
    CONFIG,
    ask,
    free_ports,
    write_config,
    zookeeper_command,
)

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 3
_LOG = "log"
_POLL_S = 0.02
_END_S = 10.0
_LOG_LINES = 10


class Ensemble:
    """Each server has a number, a folder of its own, and ports that stay the same."""

    def __init__(self, folder: Path) -> None:
        self._folders = {number: folder / str(number) for number in range(1, SIZE + 1)}
        ports = free_ports(3 * SIZE)
        self._ports = dict(zip(self._folders, ports, strict=False))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        peers = [
            f"server.{number}=127.0.0.1:{ports[SIZE + number - 1]}:{ports[2 * SIZE + number - 1]}"
            for number in self._folders
        ]
        for number, home in self._folders.items():
            (home / "data").mkdir(parents=True)
            (home / "data" / "myid").write_text(str(number))
            write_config(home, self._ports[number], "initLimit=10", "syncLimit=5", *peers)

    @property
    def address(self) -> str:
        """For `connect(zookeeper=…)`."""
        return ",".join(f"127.0.0.1:{port}" for port in self._ports.values())

    @property
    def data_folders(self) -> list[Path]:
        """Of all servers, also of those that do not run."""
        return [home / "data" for home in self._folders.values()]

    def launch(self, *numbers: int) -> None:
        """Start these servers, or all, and do not wait until they answer.

        Raises ServerNotFound or JavaNotFound when there is nothing to start.
        """
        program = [str(part) for part in zookeeper_command()]
        for number in numbers or self._folders:
            home = self._folders[number]
            with (home / _LOG).open("ab") as output:
                self._processes[number] = subprocess.Popen(
                    [*program, home / CONFIG],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=home,
                    # Ctrl-C is for the program, which then ends its servers itself.
                    start_new_session=True,
                )

    def start(self, *numbers: int, timeout_s: float = 60.0) -> None:
        """Launch these servers, or all, and wait until all that run answer. Raises ServerFailed."""
        self.launch(*numbers)
        self.wait(timeout_s)

    def wait(self, timeout_s: float = 60.0) -> None:
        """Return when all that run answer. Raises ServerFailed."""
        deadline = time.monotonic() + timeout_s
        while not self.is_serving:
            if time.monotonic() > deadline:
                raise ServerFailed(
                    f"the servers of ZooKeeper ({self.modes}) do not all answer within "
                    f"{timeout_s:g} s; run `penstock doctor`"
                )
            time.sleep(_POLL_S)

    @property
    def is_serving(self) -> bool:
        """All servers that run have found each other. Raises ServerFailed if one has ended."""
        for number, process in self._processes.items():
            if process.poll() is not None:
                log = (self._folders[number] / _LOG).read_text(errors="replace")
                end = "\n".join(log.splitlines()[-_LOG_LINES:])
                raise ServerFailed(
                    f"server {number} of ZooKeeper ended by itself; its log ends with:\n{end}"
                )
        return all(self.modes.values())

    def kill(self, *numbers: int) -> None:
        """kill -9 these servers, or all, as when their machines are gone."""
        for number in numbers or list(self._processes):
            process = self._processes.pop(number)
            process.kill()
            process.wait(_END_S)

    @property
    def modes(self) -> dict[int, str]:
        """Of each that runs: leader or follower; empty while it serves nobody."""
        return {number: self._mode(number) for number in self._processes}

    @property
    def leader(self) -> int | None:
        """None while the servers choose one."""
        return next((number for number, mode in self.modes.items() if mode == "leader"), None)

    def _mode(self, number: int) -> str:
        told = ask(f"127.0.0.1:{self._ports[number]}", b"srvr").decode()
        return next((line[6:] for line in told.splitlines() if line.startswith("Mode: ")), "")
