"""Jobs for executors without a store: contexts that only note what came of them."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil  # type: ignore[import-untyped]

from penstock.executors.context import Context
from penstock.executors.processes import ProcessExecutor
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.executors.death import Death

JOBS = "tests.worker.process_jobs"


class Lease:
    is_valid = True
    is_lost = False


class Origin:
    """A queue that has no store, and whose handler the test gives."""

    queue = "images"
    worker = "w-1"
    max_payload = 1 << 20
    resources = None

    def __init__(self, handle: Callable[[bytes, Context], Any]) -> None:
        self.handle = handle
        self.lease: Any = Lease()
        self.is_closed = False

    def done(self, context: Context) -> None:
        assert isinstance(context, JobContext)
        assert not context.is_done.is_set(), "told twice"
        context.is_done.set()


class JobContext(Context):
    """The context of a job, as executors see it."""

    __slots__ = (
        "attempt", "death", "error", "is_done", "is_skipped", "job", "path", "reports",
        "timeout_s", "type",
    )  # fmt: skip

    def __init__(
        self, origin: Origin, function: str = "", argument: object = None, timeout_s: float = 0.0
    ) -> None:
        super().__init__(origin, 17, json.dumps(argument).encode())
        self.path = f"{JOBS}:{function}"
        self.type = function
        self.job = "81"
        self.attempt = 2
        self.timeout_s = timeout_s
        self.error: BaseException | None = None
        self.death: tuple[int, int, int] | None = None
        self.reports: list[tuple[str, object]] = []
        self.is_skipped = False
        self.is_done = threading.Event()

    def wait(self, timeout_s: float = 10.0) -> JobContext:
        assert self.is_done.wait(timeout_s), f"not done within {timeout_s} s"
        return self

    def raised(self, error: BaseException, began_at: float) -> None:
        self.error = error
        super().raised(error, began_at)

    def crashed(self, death: Death, began_at: float) -> None:
        self.death = death[:3]
        self.origin.done(self)

    def skipped(self) -> None:
        self.is_skipped = True
        super().skipped()

    def report(self, kind: str, payload: object) -> None:
        self.reports.append((kind, payload))


class ProcessBench:
    """A process executor, and a way to give it jobs."""

    def __init__(self, slots: int = 1, modules: tuple[str, ...] = (JOBS,), **options: Any) -> None:
        self.origin = Origin(lambda task, context: None)
        self.executor = ProcessExecutor(slots, list(modules), **options)
        self.executor.start()

    def begin(self, function: str, argument: object = None, timeout_s: float = 0.0) -> JobContext:
        context = JobContext(self.origin, function, argument, timeout_s)
        self.executor.submit([context])
        return context

    def run(self, function: str, argument: object = None, timeout_s: float = 0.0) -> JobContext:
        return self.begin(function, argument, timeout_s).wait()


def children() -> list[psutil.Process]:
    """The children that run jobs for this process."""
    mine = psutil.Process().children()
    return [child for child in mine if "penstock.executors.child" in _command(child)]


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def spinning(folder: str | Path) -> list[int]:
    """The processes of a `spin` job that was told this folder, once it has begun."""
    wait_for(Path(folder, "child").exists)
    return [int(Path(folder, name).read_text()) for name in ("child", "helper")]


def fork(folder: str | Path) -> None:
    """A copy of this process that holds all that it has open, and says so in the folder."""
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    Path(folder, "fork.new").write_text(str(pid))
    Path(folder, "fork.new").rename(Path(folder, "fork"))


def are_dead(pids: list[int]) -> bool:
    return all(map(_is_dead, pids))


def _is_dead(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
