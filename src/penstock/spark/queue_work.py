"""Runs the work of queues on Spark: each Spark task is a worker."""

from __future__ import annotations

import os
import re
import secrets
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from penstock.client.client import Penstock
from penstock.client.connect import find_settings, find_url
from penstock.errors import InvalidArgument, QueueNotFound, SparkWorkFailed, StoreError
from penstock.model.names import check_name, check_worker_name
from penstock.model.workers import HEARTBEAT_MS, LEASE_MS
from penstock.spark import executor_worker
from penstock.spark.session import open_session
from penstock.spark.store import refuse_socket

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark import SparkContext

# So that executors need no penstock in the Python that Spark runs there.
cloudpickle.register_pickle_by_value(executor_worker)  # type: ignore[no-untyped-call]

_LOOK_EVERY_S = 0.5
_PATIENCE_S = 15.0
_NOT_STARTED = re.compile(r"WorkerNotStarted: (.+)")
_CONFIG = {
    # Speculation would start a second copy of a worker that takes long, and that would only be
    # another worker.
    "spark.speculation": "false",
    # Lost executors count as failures, and a worker may live for long.
    "spark.task.maxFailures": "8",
}


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """What one worker on Spark has done."""

    worker: str
    """its last id"""
    host: str
    finished: int
    failed: int
    """attempts that ended with an error"""
    refused: int
    """results that came too late, as the task had been taken away"""
    restarts: int
    """how often its work has killed it"""
    seconds: float


class WorkProgress(NamedTuple):
    """How far the work is."""

    left: int
    """tasks and jobs that wait or run"""
    workers: int
    """that are alive"""
    is_stopping: bool = False
    """they were told to stop, and let what runs end"""


def run(
    module: str,
    queues: str | Sequence[str],
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    workers: int | None = None,
    concurrency: int = 1,
    until_empty: bool = False,
    strict: bool = False,
    weights: Mapping[str, int] | None = None,
    grace_s: float = 30.0,
    lease_ms: int = LEASE_MS,
    heartbeat_ms: int = HEARTBEAT_MS,
    name: str | None = None,
    py_files: Sequence[str] = (),
    archives: Sequence[str] = (),
    url: str | None = None,
    namespace: str | None = None,
    on_progress: Callable[[WorkProgress], None] | None = None,
) -> list[WorkerSummary]:
    """Serve queues with the handlers of a module, by workers on Spark executors.

    Each of `workers` Spark tasks (by default as many as Spark runs at a time) runs `penstock worker
    run` as a process of its own. With `until_empty` each ends when nothing is left in its queues,
    else they work until this is interrupted or the Spark job is cancelled; then each has `grace_s`
    to let running work end, and gives the rest back. If an executor dies, Spark starts its worker
    again elsewhere, and what it held goes back to the queue.

    `py_files` and `archives` are what Spark takes under these names; a Python in an archive
    (`env.tar.gz#env` with `env/bin/python`) is the one that workers run with. A session that is
    started here is stopped in the end. It must be a classic one.

    Raises SparkWorkFailed if workers cannot be started, or Spark gives up.
    """
    names = [queues] if isinstance(queues, str) else list(queues)
    _check(names, workers, concurrency)
    py_files, archives = _shippable(py_files), _shippable(archives)
    settings = find_settings(url, namespace)
    environment = {"PENSTOCK_URL": find_url(url), "PENSTOCK_NAMESPACE": settings.namespace}
    socket_path = settings.address.endpoints[0].path
    name = check_worker_name(name or f"spark-{secrets.token_hex(3)}")
    shares = weights or {}
    weighted = [f"{queue}={shares[queue]}" if queue in shares else queue for queue in names]
    arguments = [
        *(module, "--name", name, "--concurrency", str(concurrency), "--grace", str(grace_s)),
        *("--lease-ms", str(lease_ms), "--heartbeat-ms", str(heartbeat_ms)),
        *(part for queue in weighted for part in ("--queue", queue)),
        *(["--strict"] if strict else []),
        *(["--until-empty"] if until_empty else []),
    ]
    here = socket.gethostname()
    task = partial(
        executor_worker.run_in_task,
        arguments=arguments,
        environment=environment,
        shipped=[_file_name(path) for path in py_files],
        archives=[_archive_name(path) for path in archives],
        grace_s=grace_s,
        only_host=here if socket_path else "",
        refusal=refuse_socket(socket_path, here, "HERE"),
    )
    with Penstock(settings).open() as client:
        is_ours = spark is None and SparkSession.getActiveSession() is None
        used = spark or open_session(_classic(master), config={**_CONFIG, **(config or {})})
        try:
            context = _context(used)
            for path in py_files:
                context.addPyFile(path)
            for path in archives:
                context.addArchive(path)
            job = _SparkJob(context, name, task, workers or _slots(context))
            return _watch(job, client, name, names, grace_s, on_progress)
        finally:
            if is_ours:
                used.stop()


class _SparkJob(Thread):
    """The Spark job, in a thread, so that this one can look after it."""

    def __init__(self, context: SparkContext, group: str, task: Any, workers: int) -> None:
        super().__init__(name="penstock-spark-job", daemon=True)
        self._context = context
        self._group = group
        self._task = task
        self.workers = workers
        self.rows: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._context.setJobGroup(self._group, f"penstock workers {self._group}")
            tasks = self._context.parallelize(range(self.workers), self.workers)
            self.rows = tasks.mapPartitions(self._task).collect()
        except Exception as error:
            self.error = error

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)


def _watch(
    job: _SparkJob,
    client: Penstock,
    name: str,
    queues: list[str],
    grace_s: float,
    on_progress: Callable[[WorkProgress], None] | None,
) -> list[WorkerSummary]:
    def look(is_stopping: bool = False) -> int:
        """Tell how far the work is; how many workers live."""
        try:
            living = _living(client, name)
            left = 0 if on_progress is None else count_left(client, queues)
        except StoreError:  # workers wait for a store that is away, and so does this
            return 0
        if on_progress is not None:
            on_progress(WorkProgress(left, living, is_stopping))
        return living

    job.start()
    try:
        while job.is_alive():
            look()
            job.join(_LOOK_EVERY_S)
    except BaseException:
        # Spark kills its tasks, and so tells workers to stop. What they need stays until they have.
        job.cancel()
        deadline = time.monotonic() + grace_s + _PATIENCE_S
        while (job.is_alive() or look(is_stopping=True)) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)
        raise
    if job.error is not None:
        raise _explained(job.error) from job.error
    return [WorkerSummary(**row) for row in job.rows]


def _living(client: Penstock, name: str) -> int:
    return sum(worker.is_alive and worker.name == name for worker in client.workers())


def count_left(client: Penstock, queues: Sequence[str]) -> int:
    """How many tasks and jobs wait or run."""
    left = 0
    for queue in queues:
        with suppress(QueueNotFound):
            state = client.queue(queue).inspect()
            left += state.running
            left += client.jobs(queue).counts()["ready"] if state.kind == "jobs" else state.ready
    return left


def _explained(error: Exception) -> SparkWorkFailed:
    found = _NOT_STARTED.findall(str(error))
    if found:
        hint = "ship what it needs with py_files (--py-files) or archives (--archives)"
        is_missing = "no module" in found[-1].lower()
        return SparkWorkFailed(f"{found[-1].strip()}; {hint}" if is_missing else found[-1].strip())
    reason = str(error).strip().splitlines()
    return SparkWorkFailed(
        f"Spark has given up ({reason[0] if reason else type(error).__name__}); what its workers "
        "held goes back to the queue; look into the logs of its executors, and run it again"
    )


def _check(queues: list[str], workers: int | None, concurrency: int) -> None:
    if not queues:
        raise InvalidArgument("no queue is named; name one or several that workers are to serve")
    for queue in queues:
        check_name("queue", queue)
    if workers is not None and workers < 1:
        raise InvalidArgument(f"workers is {workers}; give 1 or more, or None for all of Spark")
    if concurrency < 1:
        raise InvalidArgument(f"concurrency is {concurrency}; a worker runs at least 1 task")


def _shippable(paths: Sequence[str]) -> list[str]:
    """Local files by their full path, as Spark may look for them from another folder."""
    checked = []
    for path in paths:
        place, mark, name = path.partition("#")
        if ":/" in place:  # a URL
            checked.append(path)
        elif Path(place).is_file():
            checked.append(f"{Path(place).absolute()}{mark}{name}")
        else:
            raise InvalidArgument(
                f"there is no file {place!r} to ship to executors; give a .py or .zip for modules, "
                "or an archive such as env.tar.gz#env; pack a folder into one of these first"
            )
    return checked


def _classic(master: str | None) -> str | None:
    if "SPARK_REMOTE" in os.environ or (master or "").startswith("sc://"):
        raise InvalidArgument(
            "workers do not run through Spark Connect; give the master of the cluster itself, such "
            "as spark://host:7077, and unset SPARK_REMOTE"
        )
    return master


def _context(spark: SparkSession) -> SparkContext:
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise InvalidArgument(
            "workers do not run through Spark Connect; give a classic session, such as "
            "penstock.spark.session('spark://host:7077')"
        )
    return spark.sparkContext


def _slots(context: SparkContext) -> int:
    """How many tasks Spark runs at a time."""
    cpus = int(context.getConf().get("spark.task.cpus", "1") or 1)
    return max(1, context.defaultParallelism // cpus)


def _file_name(path: str) -> str:
    return PurePosixPath(path.rpartition("#")[0] or path).name


def _archive_name(path: str) -> str:
    """Under which name Spark unpacks an archive."""
    return path.rpartition("#")[2] if "#" in path else PurePosixPath(path).name
