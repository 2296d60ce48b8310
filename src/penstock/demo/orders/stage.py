"""Where the pipeline runs: the store, Spark, other workers, and what stays in the end."""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from penstock.client.connect import connect
from penstock.demo.orders import jobs
from penstock.demo.orders.steps import Store
from penstock.demo.patience import look_until
from penstock.demo.processes import WorkerProcess
from penstock.errors import DemoFailed
from penstock.spark import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.demo.orders.view import Steps

NAMESPACE = "penstock-orders"

_LOOK_EVERY_S = 0.05
_CONCURRENCY = 8
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of a Java that runs for a minute: to compile its code well takes longer than that saves."""


class Stage:
    """`work` is for what is needed meanwhile, `kept` for what people look at afterwards."""

    def __init__(
        self, url: str, orders: int, lease_ms: int, work: Path, kept: Path, view: Steps
    ) -> None:
        self.began_at = time.monotonic()
        self.orders = orders
        self.lease_ms = lease_ms
        self.view = view
        self.work = work
        self.files = kept / "orders"
        self.lake = kept / "history"
        self.page = kept / "report.html"
        self.log = kept / "spark.log"
        self.store = Store(url, NAMESPACE)
        self.client = connect(url, namespace=NAMESPACE)
        self.queue = self.client.jobs(jobs.ORDERS)
        self.workers: list[WorkerProcess] = []
        self._spark: SparkSession | None = None

    def start_spark(self) -> None:
        """What Spark needs for itself goes into the folder that is removed in the end."""
        config = {
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            "spark.local.dir": str(self.work / "spark"),
            "spark.sql.warehouse.dir": str(self.work / "warehouse"),
            "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={self.work} {_SHORT_LIVED}",
        }
        # Py4J logs Ctrl-C in the middle of a call of Java as an error, some of it as the root.
        logging.disable(logging.ERROR)
        with _stderr_in(self.log):
            self._spark = session("local[2]", "penstock-demo", config)

    @property
    def spark(self) -> SparkSession:
        if self._spark is None:
            raise DemoFailed("Spark is not started")
        return self._spark

    def start_worker(self, queue: str) -> WorkerProcess:
        worker = WorkerProcess(
            len(self.workers) + 1,
            jobs.__name__,
            queue,
            _CONCURRENCY,
            self.store.url,
            self.store.namespace,
            self.lease_ms,
            self.work,
        )
        self.workers.append(worker)
        worker.start()
        return worker

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.ask_to_stop()
        for worker in self.workers:
            worker.wait()

    def close(self) -> None:
        """End all processes, also frozen ones."""
        for worker in self.workers:
            worker.end()
        self.client.close()
        if self._spark is not None:
            # A signal to the whole process group, as of a terminal that is closed, ends Java too.
            with suppress(Py4JError, OSError):
                self._spark.stop()

    @property
    def ended(self) -> int:
        """Orders that are paid, or refused for good."""
        counts = self.queue.counts()
        return counts["done"] + counts["dead"]

    def held(self, worker: WorkerProcess) -> int | None:
        """How many orders it holds; None if it does not serve them."""
        return worker.held(self.client.queue(jobs.ORDERS).inspect().held)

    def until(self, condition: Callable[[], bool]) -> None:
        """Go on looking until something is so. Raises DemoFailed if nothing moves any more."""
        look_until(condition, self.look, _LOOK_EVERY_S, self._so_far)

    def look(self) -> object:
        for worker in self.workers:
            if words := worker.last_words:
                raise DemoFailed(f"{worker} ended by itself; its log ends with:\n{words}")
        ended = self.ended
        if ended:
            self.view.show("orders have ended", ended, self.orders)
        return self.client.queue(jobs.ORDERS).inspect()

    def _so_far(self) -> str:
        return f"{self.ended:,} of {self.orders:,} orders ended"


@contextmanager
def _stderr_in(path: Path) -> Iterator[None]:
    """What is started in here writes its errors to a file: Java, and workers on executors, which
    log every attempt that fails.
    """
    sys.stderr.flush()
    former = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(former, 2)
        os.close(former)
