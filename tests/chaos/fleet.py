"""Worker processes: real ones, as `penstock worker run` starts them, that a test may maltreat."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.handlers import GATE, JOURNAL, QUEUE
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping

LEASE_MS = 1500
HEARTBEAT_MS = 300
_ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """One `penstock worker run`."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        self.is_frozen = False
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # A group of its own, so that it can be maltreated together with its supervisor.
                start_new_session=True,
            )

    @property
    def ids(self) -> list[str]:
        """Every id under which it has served queues."""
        return re.findall(r"worker started id=(\S+)", self.log)

    @property
    def status(self) -> int | None:
        """How it ended; None if it runs."""
        return self._process.poll()

    @property
    def is_running(self) -> bool:
        return self.status is None

    @property
    def has_started(self) -> bool:
        return "worker started" in self.log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def kill(self) -> None:
        """kill -9, as when the machine is gone; returns when it is."""
        self._signal_all(signal.SIGKILL)
        self._process.wait(10)

    def freeze(self) -> None:
        self.is_frozen = True
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)
        self.is_frozen = False

    def terminate(self) -> None:
        """Ask it to stop; the second time, at once."""
        self._process.send_signal(signal.SIGTERM)

    def wait(self, timeout_s: float) -> float:
        """Wait for its end; returns how long that took."""
        began_at = time.monotonic()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"worker {self.ids} did not end within {timeout_s} s:\n{self.log[-2000:]}"
            ) from None
        return time.monotonic() - began_at

    def _signal_all(self, number: signal.Signals) -> None:
        # Until it has been waited for, no other process can have got its id.
        if self.is_running:
            os.killpg(self._process.pid, number)


class Fleet:
    """All worker processes of a test. None outlives it."""

    def __init__(
        self, url: str, namespace: str, folder: Path, journal: Path, gate: Path, module: str
    ) -> None:
        self._url = url
        self._module = module
        self._namespace = namespace
        self._folder = folder
        self._environment = {**os.environ, JOURNAL: str(journal), GATE: str(gate)}
        self.started: list[WorkerProcess] = []

    def start(
        self,
        concurrency: int = 4,
        lease_ms: int = LEASE_MS,
        heartbeat_ms: int = HEARTBEAT_MS,
        grace_s: float = 20.0,
    ) -> WorkerProcess:
        command = [sys.executable, "-m", "penstock", "worker", "run", self._module]
        command += ["-q", QUEUE, "-c", str(concurrency), "--grace", str(grace_s)]
        command += ["--lease-ms", str(lease_ms), "--heartbeat-ms", str(heartbeat_ms)]
        command += ["--url", self._url, "--namespace", self._namespace]
        log = self._folder / f"worker-{len(self.started)}.log"
        worker = WorkerProcess(command, self._environment, log)
        self.started.append(worker)
        return worker

    @property
    def running(self) -> list[WorkerProcess]:
        return [worker for worker in self.started if worker.is_running]

    def stop(self) -> None:
        """Let everybody go home; each must end well, but for those that a task has just killed."""
        wait_for(lambda: not any("worker died" in worker.log for worker in self.running))
        going = self.running
        for worker in going:
            # A signal that comes before Python can handle it just ends the process.
            wait_for(lambda worker=worker: worker.has_started or not worker.is_running)  # type: ignore[misc]
            worker.terminate()
        for worker in going:
            worker.wait(30)
            assert worker.status == 0, worker.log[-3000:]

    def close(self) -> None:
        """Whatever happened, no process is left."""
        for worker in self.running:
            worker.kill()
