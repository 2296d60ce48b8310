"""The workers of the demo: real processes, which it treats badly and always ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

State = Literal["starting", "alive", "killed", "frozen", "woken", "recovered", "stopped"]

_END_S = 10.0


class WorkerProcess:
    """`penstock worker run`, as anyone would start it."""

    def __init__(
        self,
        number: int,
        module: str,
        queue: str,
        concurrency: int,
        url: str,
        namespace: str,
        lease_ms: int,
        folder: Path,
    ) -> None:
        self.number = number
        self.state: State = "starting"
        self._prefix = f"worker-{number}."
        self._log = folder / f"worker-{number}.log"
        self._command = [
            *(sys.executable, "-m", "penstock", "worker", "run", module),
            *("--queue", queue, "--concurrency", str(concurrency)),
            *("--lease-ms", str(lease_ms), "--heartbeat-ms", str(lease_ms // 3)),
            *("--url", url, "--namespace", namespace, "--name", self._prefix[:-1]),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._is_asked = False

    def __str__(self) -> str:
        return f"worker {self.number}"

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it, and do not wait until it works."""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for the demo, which then ends its workers itself, the frozen one too.
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def is_called(self, worker: str) -> bool:
        """Whether a worker of this name is this one, under any id that it has had."""
        return worker.startswith(self._prefix)

    def held(self, members: Mapping[str, int]) -> int | None:
        """How many tasks the store says it holds; None if it serves the queue under no name."""
        mine = [held for worker, held in members.items() if self.is_called(worker)]
        return sum(mine) if mine else None

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        if self._process:
            self._process.wait(_END_S)
        self.state = "killed"

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        self.state = "frozen"

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.state = "woken"

    @property
    def last_words(self) -> str | None:
        """The end of its log if it ended without being told to; else None."""
        is_expected = self._is_asked or self.state == "killed"
        if self._process is None or is_expected or self._process.poll() is None:
            return None
        lines = self._log.read_text(errors="replace").splitlines()[-5:]
        return "\n".join(f"  {line}" for line in lines) or "  (it said nothing)"

    def ask_to_stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
        self._is_asked = True

    def wait(self) -> None:
        """Return when it has stopped; one that does not within some seconds is killed."""
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        self.end()

    def end(self) -> None:
        """End its processes, also if they are frozen."""
        if self._process is not None and self._process.poll() is None:
            self._signal(signal.SIGKILL)
            self._process.wait(_END_S)
        if self.state != "killed":
            self.state = "stopped"

    def _signal(self, number: signal.Signals) -> None:
        # To the worker and to its supervisor. Until it was waited for, no other process has its id.
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)
