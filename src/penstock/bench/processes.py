"""Processes that are measured: started here, ended here, by their id."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.bench import handlers, listener
from penstock.errors import BenchFailed, QueueNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.bench.environment import Environment

_START_S = 30.0
_STOP_S = 10.0
_POLL_S = 0.005


class Running:
    """A process of ours."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, records: Path) -> None:
        self._process = process
        self._log = log
        self.records = records

    def cpu_s(self) -> float | None:
        """CPU time so far of the threads that live; None where the system does not tell.

        From Linux's scheduler, to the nanosecond: the usual count has steps of 10 ms, which is a
        whole percent of a run of a second.
        """
        try:
            threads = list(Path(f"/proc/{self._process.pid}/task").iterdir())
            return sum(int((t / "schedstat").read_bytes().split()[0]) for t in threads) / 1e9
        except (FileNotFoundError, IndexError):
            return None

    def wait_until(self, condition: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Raises BenchFailed if it is not so in time, or if the process has ended."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self._process.poll() is not None or time.monotonic() > deadline:
                lines = self._log.read_text(errors="replace").splitlines()[-5:]
                said = "\n".join(f"  {line}" for line in lines) or "  (it said nothing)"
                raise BenchFailed(f"{what} within {timeout_s:.0f} s; the process said:\n{said}")
            time.sleep(_POLL_S)


@contextmanager
def worker_process(environment: Environment, queue: str, concurrency: int = 1) -> Iterator[Running]:
    """`penstock worker run`, serving one queue, and in one process, whose CPU time is measured."""
    command = [
        *(sys.executable, "-m", "penstock", "worker", "run", handlers.__name__, "--alone"),
        *("--queue", queue, "--log-level", "warning"),
        *("--concurrency", str(concurrency), "--namespace", environment.namespace),
    ]

    def is_serving() -> bool:
        try:
            return bool(environment.client.queue(queue).inspect().held)
        except QueueNotFound:
            return False

    with _running(environment, command) as running:
        running.wait_until(is_serving, "the worker did not start", _START_S)
        yield running


@contextmanager
def listener_process(environment: Environment, channel: str) -> Iterator[Path]:
    """A bare subscriber; gives the file it writes to."""
    records = _new_file(environment)
    command = [sys.executable, "-m", listener.__name__, channel, str(records)]

    def is_listening() -> bool:
        return bool(environment.connection.request("PUBSUB", "NUMSUB", channel)[1])

    with _running(environment, command) as running:
        running.wait_until(is_listening, "the subscriber did not start", _START_S)
        yield records


@contextmanager
def _running(environment: Environment, command: list[str]) -> Iterator[Running]:
    log, records = _new_file(environment), _new_file(environment)
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            # Not among the arguments, as the URL can have a password.
            env=os.environ | {handlers.RECORDS: str(records), "PENSTOCK_URL": environment.url},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for us; then we end it.
            start_new_session=True,
        )
    try:
        yield Running(process, log, records)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _new_file(environment: Environment) -> Path:
    path = environment.folder / secrets.token_hex(8)
    path.touch(mode=0o600)
    return path
