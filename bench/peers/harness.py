"""The environment every system is measured on: a private Redis, bounded steps, CPU time, medians.

Whatever is started here is ended here, by its process id, also when the run is interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hiredis
import psutil  # type: ignore[import-untyped]
from bench.peers.adapters.stopwatch import RECORD_BYTES, redis_usage, request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
ADAPTERS = Path(__file__).resolve().parent / "adapters"

START_TIMEOUT_S = 30.0
STEP_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 3.0
POLL_S = 0.01
SHORTEST_CPU_S = 0.5


class StepFailed(Exception):
    """One step of one system did not work; the text says which and what it said."""


@dataclass(frozen=True)
class Server:
    """A fresh Redis with a folder of its own, where records and output are kept too."""

    port: int
    folder: Path

    def flush(self) -> None:
        request(self.port, "FLUSHALL")


@contextmanager
def redis_server(binary: str, *, is_aof: bool) -> Iterator[Server]:
    """A private Redis on a free loopback port; it and its folder are gone at the end."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        port = _free_port()
        options = {
            "--port": str(port),
            "--bind": "127.0.0.1",
            "--dir": name,
            "--save": "",
            "--appendonly": "yes" if is_aof else "no",
            "--appendfsync": "everysec",
            # A rewrite in the middle of one system's turn would be that system's bad luck.
            "--auto-aof-rewrite-percentage": "0",
        }
        command = [binary, *(part for pair in options.items() for part in pair)]
        with running(command, {}, folder, "redis") as process:
            _wait_until_it_answers(port, process)
            yield Server(port, folder)


def find_redis_server() -> str:
    """The newest redis-server on the PATH or beside this Python (which may carry an old one).

    Raises FileNotFoundError when there is none.
    """
    folders = [*os.get_exec_path(), str(Path(sys.executable).parent)]
    found = {path for folder in folders if (path := shutil.which("redis-server", path=folder))}
    if not found:
        raise FileNotFoundError("no redis-server on the PATH; install one or name it by --redis")
    return max(found, key=redis_version)


def redis_version(binary: str) -> tuple[int, ...]:
    text = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    version = next(part[2:] for part in text.split() if part.startswith("v="))
    return tuple(int(number) for number in version.split("."))


@contextmanager
def running(
    command: Sequence[str], env: Mapping[str, str], folder: Path, name: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process with all its children, ended at the end; its output goes to `folder`."""
    with (folder / f"{name}.out").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ADAPTERS,
            env=_clean_environment() | dict(env),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _end(process)


@contextmanager
def talking(
    command: Sequence[str], env: Mapping[str, str], folder: Path
) -> Iterator[Callable[[str], str]]:
    """A process that answers a line with a line, ended at the end."""
    with (folder / "talk.out").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=ADAPTERS,
            env=_clean_environment() | dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    said, heard = process.stdin, process.stdout

    def ask(line: str) -> str:
        said.write(f"{line}\n".encode())
        said.flush()
        if not (answer := heard.readline()):
            raise StepFailed(f"{command[-1]} ended: {last_words(folder, 'talk')}")
        return answer.decode()

    try:
        yield ask
    finally:
        _end(process)
        said.close()
        heard.close()


def last_words(folder: Path, name: str) -> str:
    """The end of what a process printed, without the paths of this machine."""
    lines = (folder / f"{name}.out").read_text(errors="replace").strip().splitlines()
    said = " / ".join(line.strip() for line in lines[-3:])[-400:]
    for place, shown in ((ROOT, "."), (folder, "folder"), (Path.home(), "~")):
        said = said.replace(str(place), shown)
    return said


def run_step(
    command: Sequence[str], env: Mapping[str, str], folder: Path, timeout_s: float = STEP_TIMEOUT_S
) -> dict[str, Any]:
    """Run an adapter's sub-command to its end and return the JSON of its last line.

    Raises StepFailed when it fails, says nothing or takes longer than `timeout_s`.
    """
    what = " ".join(command[-2:])
    with running(command, env, folder, "step") as process:
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            said = last_words(folder, "step")
            raise StepFailed(f"{what} took longer than {timeout_s:.0f} s: {said}") from error
    if code != 0:
        raise StepFailed(f"{what} ended with {code}: {last_words(folder, 'step')}")
    lines = (folder / "step.out").read_text(errors="replace").strip().splitlines()
    try:
        result: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        raise StepFailed(f"{what} printed no result: {last_words(folder, 'step')}") from error
    return result


@dataclass
class Worker:
    """A running worker of some system: its processes, its Redis and the records it writes."""

    process: subprocess.Popen[bytes]
    server: Server
    records: Path

    def count(self) -> int:
        return self.records.stat().st_size // RECORD_BYTES

    def cpu_s(self) -> float:
        return tree_cpu_s(self.process.pid)

    def wait_for(self, count: int, timeout_s: float) -> None:
        """Return once there are `count` records; raises StepFailed if they do not come."""
        deadline = time.monotonic() + timeout_s
        while (done := self.count()) < count:
            if self.process.poll() is not None:
                said = last_words(self.server.folder, "worker")
                raise StepFailed(f"the worker ended with {self.process.returncode}: {said}")
            if time.monotonic() > deadline:
                said = last_words(self.server.folder, "worker")
                raise StepFailed(f"only {done} of {count} jobs ran in {timeout_s:.0f} s; {said}")
            time.sleep(POLL_S)

    def times(self, start: int = 0) -> list[tuple[int, int]]:
        """When each run began and when its job was made, in ns, from record `start` on."""
        text = self.records.read_bytes()[start * RECORD_BYTES :]
        return [
            (int(text[at : at + 20]), int(text[at + 20 : at + 40]))
            for at in range(0, len(text) - RECORD_BYTES + 1, RECORD_BYTES)
        ]


def drain(worker: Worker, jobs: int, timeout_s: float = STEP_TIMEOUT_S) -> dict[str, float | None]:
    """Wait until the worker has run `jobs`; its speed from the first to the last of them."""
    worker.wait_for(1, START_TIMEOUT_S)
    looked_at = time.monotonic()
    first, cpu, redis = worker.count(), worker.cpu_s(), redis_usage(worker.server.port)
    worker.wait_for(jobs, timeout_s)
    last, cpu_after = worker.count(), worker.cpu_s()
    redis_after, watched_s = redis_usage(worker.server.port), time.monotonic() - looked_at
    started = [at for at, _ in worker.times()]
    seconds = (max(started) - min(started)) / 1e9
    # What ran before the first look is not in the CPU figures; nearly all of it must be.
    watched = last - first
    is_fair = watched >= jobs / 2
    # The system counts CPU time in ticks of 10 ms.
    is_long = watched_s >= SHORTEST_CPU_S
    return {
        "jobs": float(jobs),
        "seconds": seconds,
        "per_s": (len(started) - 1) / seconds if seconds else None,
        "worker_us": (cpu_after - cpu) * 1e6 / watched if is_fair and is_long else None,
        "redis_us": (redis_after["cpu_s"] - redis["cpu_s"]) * 1e6 / watched if is_fair else None,
    }


def idle(worker: Worker, seconds: float) -> dict[str, float]:
    """Commands and CPU that a worker with nothing to do costs, per second."""
    cpu, started_at = worker.cpu_s(), time.monotonic()
    sent, executed = watch_commands(worker.server.port, seconds)
    took_s = time.monotonic() - started_at
    return {
        "sent_per_s": sent / took_s,
        "executed_per_s": executed / took_s,
        "worker_ms_per_s": (worker.cpu_s() - cpu) * 1e3 / took_s,
    }


def watch_commands(port: int, seconds: float) -> tuple[int, int]:
    """How many commands clients sent, and how many were executed, those inside scripts included."""
    deadline = time.monotonic() + seconds
    sent = executed = 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(hiredis.pack_command(("MONITOR",)))
        reader = hiredis.Reader()
        while (left_s := deadline - time.monotonic()) > 0:
            connection.settimeout(left_s)
            try:
                reader.feed(connection.recv(65536))
            except TimeoutError:
                break
            while (line := reader.gets()) is not False:
                if line != b"OK":
                    executed += 1
                    sent += b" lua]" not in line.split(b'"', 1)[0]
    return sent, executed


def tree_cpu_s(pid: int) -> float:
    """CPU seconds of a process, its children and theirs, the ended ones included."""
    total = 0.0
    try:
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            times = process.cpu_times()
            total += times.user + times.system
            total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    except psutil.NoSuchProcess:
        pass
    return total


@dataclass
class Series:
    """The values of one figure over the rounds."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None

    @property
    def half_spread(self) -> float | None:
        """Half of the distance between the extremes, as a share of the median."""
        middle = self.median
        if len(self.values) < 2 or not middle:
            return None
        return (max(self.values) - min(self.values)) / 2 / middle


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if request(port, "PING") == "PONG":
                return
        except OSError:
            pass
        time.sleep(POLL_S)
    raise StepFailed(f"redis-server did not answer on port {port} (exit {process.poll()})")


def _clean_environment() -> dict[str, str]:
    """Ours, without what would reach into another Python or another Redis client."""
    unwanted = ("PYTHON", "VIRTUAL_ENV", "PENSTOCK_", "REDIS_", "BENCH_")
    return {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything it started: asked first, then by force."""
    started = _started_by(process.pid)
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    left = {*started, *_started_by(process.pid)}
    for child in left:
        # psutil compares start times, so a reused process id is never signalled.
        with suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(left, timeout=STOP_TIMEOUT_S)


def _started_by(pid: int) -> set[psutil.Process]:
    """The processes below `pid`, and those of its session whose parent has gone."""
    found: set[psutil.Process] = set()
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            if process.pid != pid and os.getsid(process.pid) == pid:
                found.add(process)
    with suppress(psutil.NoSuchProcess):
        found.update(psutil.Process(pid).children(recursive=True))
    return found


def end_cleanly_when_told_to() -> None:
    """Turn the signals that end a program into an exception, so that `finally` blocks run."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
