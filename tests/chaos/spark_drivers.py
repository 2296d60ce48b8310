"""Drivers of Spark in processes of their own, to be killed, and what they wrote."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]

import penstock
from penstock.client.fsck import check
from tests.chaos.spark_program import DONE, JOBS, LOG, QUEUES, READY, TASKS, TASKS_OF_BATCH
from tests.chaos.spark_stops import FOLDER, POINTS, stop_file
from tests.multisets import assert_each_once
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from tests.chaos.spark_stops import Point
    from tests.servers import RedisServer

ROOT = Path(__file__).parents[2]
LOCAL = "local[2,4]"
"""Two cores, and four attempts of each task."""
LONGEST_S = 240.0
"""How long anything that a driver does may take on a busy machine."""


class Driver:
    """A program with a Spark of its own. Its Python, its JVM and all Python workers are in one
    session of the operating system, by which they are found and killed.
    """

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir()
        self._folder = folder
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**environment, "SPARK_LOCAL_DIRS": str(folder), FOLDER: str(folder)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def done(self) -> list[str]:
        """Batches that it says are written."""
        lines = self.log.splitlines()
        return [line.removeprefix(DONE) for line in lines if line.startswith(DONE)]

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something that it does; fails if it ends without it."""

        def holds() -> bool:
            is_over = not self.is_running
            if condition():
                return True
            assert not is_over, f"a driver ended before {what}:\n{self.log[-3000:]}"
            return False

        wait_for(holds, LONGEST_S)

    def wait_until_ready(self) -> None:
        self.wait_until(lambda: READY in self.log, "Spark ran")

    def wait_at(self, point: Point, queue: str = TASKS) -> int:
        """Wait until one of its processes is at a point where it is to stop; returns which."""
        reached = stop_file(self._folder, queue, point)
        self.wait_until(lambda: reached.exists() and reached.read_text(), f"it was {point}")
        return int(reached.read_text())

    def let_go(self, point: Point, queue: str = TASKS) -> None:
        stop_file(self._folder, queue, point).with_suffix(".go").touch()

    def wait(self) -> int:
        """Wait for its end; returns its status."""
        return self._process.wait(LONGEST_S)

    def wait_for_success(self) -> None:
        assert self.wait() == 0, self.log[-3000:]

    def kill(self) -> None:
        """kill -9 of everything, as when the machine is gone; returns when all of it is."""
        self._kill_all()
        self._process.wait(30)

    def jvm(self) -> Any:
        """The JVM of the driver itself."""
        [jvm] = [found for found in _children(self._process.pid) if found.name() == "java"]
        return jvm

    def _kill_all(self) -> None:
        def none_is_left() -> bool:
            left = [process for process in psutil.process_iter() if self._is_ours(process)]
            for process in left:
                _kill(process)
            return not left

        wait_for(none_is_left, 30)

    def _is_ours(self, process: Any) -> bool:
        try:
            is_ours = os.getsid(process.pid) == self._process.pid
            return is_ours and process.status() != psutil.STATUS_ZOMBIE
        except (ProcessLookupError, psutil.NoSuchProcess):
            return False


class SparkWorld:
    """A store, the drivers that write to it, and what is expected of them together."""

    def __init__(self, server: RedisServer, namespace: str, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.ps = penstock.connect(server.url, namespace=namespace)
        self._place = {"url": server.url, "namespace": namespace}
        self._started: list[Driver] = []

    def __enter__(self) -> SparkWorld:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for driver in self._started:
            driver.kill()
        self.ps.close()

    def write_batches(
        self,
        *batches: str,
        rows: int,
        stop_at: Sequence[Point] = (),
        master: str = LOCAL,
        targets: Sequence[str] = QUEUES,
    ) -> Driver:
        """Start a driver that writes batches, each to all targets."""
        given = {**self._place, "master": master, "batches": batches, "rows": rows}
        return self._start("batches", {**given, "targets": targets}, stop_at)

    def write_stream(
        self, files: Path, checkpoint: Path, stop_at: Sequence[Point] = (), target: str = TASKS
    ) -> Driver:
        """Start a driver that sends files by `writeStream`."""
        given = {**self._place, "files": str(files), "checkpoint": str(checkpoint)}
        return self._start("stream", {**given, "master": LOCAL, "target": target}, stop_at)

    def read_stream(
        self, folder: Path | None, checkpoint: Path, stop_at: Sequence[Point] = ()
    ) -> Driver:
        """Start a driver that copies the log by `readStream`, into files or to another log."""
        given = {**self._place, "folder": str(folder or ""), "checkpoint": str(checkpoint)}
        return self._start("read", {**given, "master": LOCAL}, stop_at)

    def ingest(self, files: Path, checkpoint: Path, stop_at: Sequence[Point] = ()) -> Driver:
        """Start a driver that sends files by `penstock spark ingest`."""
        arguments = ["spark", "ingest", str(files), "--format", "text", "--queue", TASKS]
        arguments += ["--set", "payload=value", "--option", "maxFilesPerTrigger=1"]
        arguments += ["--checkpoint", str(checkpoint), "--master", LOCAL]
        arguments += ["--url", self._place["url"], "--namespace", self._place["namespace"]]
        return self._start("command", {"arguments": arguments}, stop_at)

    def _start(self, action: str, given: dict[str, Any], stop_at: Sequence[Point]) -> Driver:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path}
        if stop_at:
            environment[POINTS] = ",".join(stop_at)
        command = [sys.executable, "-m", "tests.chaos.spark_program", action, json.dumps(given)]
        driver = Driver(command, self.folder / f"driver-{len(self._started)}", environment)
        self._started.append(driver)
        return driver

    def tasks(self) -> list[str]:
        """The rows in the queue of tasks."""
        queue = self.ps.queue(TASKS)
        if queue.name not in self.ps.queues():
            return []
        pages = (queue.page(at, 1000).tasks for at in range(0, queue.count(), 1000))
        return [task.decode() for page in pages for task in page]

    def jobs(self) -> list[str]:
        """The rows in the queue of jobs."""
        found: list[str] = []
        is_last, after = JOBS not in self.ps.queues(), ""
        while not is_last:
            page = self.ps.jobs(JOBS).page("ready", after=after, limit=1000)
            found.extend(json.loads(job.data)["payload"] for job in page.jobs)
            is_last, after = not page.cursor, page.cursor
        return found

    def messages(self, partition: int | None = None) -> list[str]:
        """The rows in the log, or in one partition of it, in order."""
        if LOG not in self.ps.queues():
            return []
        return [message.body.decode() for message in self.ps.log(LOG).read(partition=partition)]

    def rows(self, target: str) -> list[str]:
        """What is in a queue or in the log."""
        read = {TASKS: self.tasks, JOBS: self.jobs, LOG: self.messages}
        return read[target]()

    def assert_batches_are_there_once(
        self, batches: Iterable[str], rows: int, targets: Sequence[str] = QUEUES
    ) -> None:
        expected = [f"{batch}-{row}" for batch in batches for row in range(rows)]
        for target in targets:
            assert_each_once(self.rows(target), expected)
        if LOG in targets:
            self.assert_rows_are_in_order(rows)
        assert check(self.ps).violations == []

    def assert_rows_are_in_order(self, rows: int) -> None:
        """Those of each task of a batch, within each partition of the log."""
        of_task = -(-rows // TASKS_OF_BATCH)
        for number in range(self.ps.log(LOG).facts().partitions):
            found: dict[tuple[str, int], list[int]] = {}
            for message in self.messages(number):
                batch, _, row = message.rpartition("-")
                found.setdefault((batch, int(row) // of_task), []).append(int(row))
            assert len(found) >= TASKS_OF_BATCH
            assert all(each == sorted(each) for each in found.values())

    def stages(self) -> set[bytes]:
        """What attempts have staged that is not in its queue, those of dead drivers included."""
        client: Any = self.server.client
        return set(client.scan_iter("*}:stage:*", 1000))


def _children(pid: int) -> list[Any]:
    children: list[Any] = psutil.Process(pid).children(recursive=True)
    return children


def _kill(process: Any) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
