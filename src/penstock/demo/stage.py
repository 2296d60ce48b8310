"""Where the demo plays: the queue, the workers and their records, looked at again and again."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.connect import connect
from penstock.demo import handlers
from penstock.demo.patience import look_until
from penstock.demo.processes import WorkerProcess
from penstock.demo.records import Ledger
from penstock.errors import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.demo.view import View
    from penstock.model.queues import QueueState

NAMESPACE = "penstock-demo"
CONCURRENCY = 4
"""Tasks that a worker runs at a time."""

_LOOK_EVERY_S = 0.02
_PACE_OVER_S = 1.5


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to see at one instant."""

    tasks: int
    """how many there will be in all"""
    finished: int
    waiting: int
    tasks_per_s: float
    workers: list[WorkerProcess]
    held: dict[int, int]
    """worker -> tasks it holds"""
    ended: dict[int, int]
    """worker -> tasks it brought to their end"""


class Stage:
    """The store as it was a moment ago, and the processes that change it."""

    def __init__(
        self, url: str, tasks: int, workers: int, lease_ms: int, folder: Path, view: View
    ) -> None:
        self.tasks = tasks
        self.lease_s = lease_ms / 1000
        self.view = view
        self.ledger = Ledger(folder / "records")
        self.client = connect(url, namespace=NAMESPACE)
        self.queue = self.client.queue(handlers.QUEUE)
        # No look before there is something to see.
        self.queue.configure()
        self.state: QueueState = self.queue.inspect()
        self.workers = [
            WorkerProcess(
                number,
                handlers.__name__,
                handlers.QUEUE,
                CONCURRENCY,
                url,
                NAMESPACE,
                lease_ms,
                folder,
            )
            for number in range(1, workers + 1)
        ]
        self._records = folder / "records"
        self._pace: deque[tuple[float, int]] = deque()

    def start_workers(self) -> None:
        """Start them all, and do not wait until they work."""
        task_s = self._work_s() * CONCURRENCY / self.tasks
        for worker in self.workers:
            worker.start(
                {
                    handlers.RECORDS: str(self._records),
                    handlers.WORKER: str(worker.number),
                    handlers.TASK_S: str(task_s),
                }
            )

    def wait_for_workers(self) -> None:
        self.until(lambda: all(self.held(worker) is not None for worker in self.workers))
        for worker in self.workers:
            worker.state = "alive"

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.ask_to_stop()
        for worker in self.workers:
            worker.wait()
        self.look()

    def close(self) -> None:
        """End all workers, also frozen ones."""
        for worker in self.workers:
            worker.end()
        self.client.close()
        self.ledger.close()

    @property
    def finished(self) -> int:
        return self.state.counters.finished

    def held(self, worker: WorkerProcess) -> int | None:
        return worker.held(self.state.held)

    def until(self, condition: Callable[[], bool]) -> None:
        """Go on looking until something is so. Raises DemoFailed if nothing moves any more."""
        look_until(
            condition,
            self.look,
            _LOOK_EVERY_S,
            lambda: f"{self.finished:,} of {self.tasks:,} tasks finished",
        )

    def linger(self, seconds: float) -> None:
        """Give people time to read, while the work goes on."""
        end_at = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end_at)

    def look(self) -> QueueState:
        self.state = self.queue.inspect()
        self.ledger.read_on()
        for worker in self.workers:
            if words := worker.last_words:
                raise DemoFailed(f"{worker} ended by itself; its log ends with:\n{words}")
        self.view.show(
            Scene(
                tasks=self.tasks,
                finished=self.finished,
                waiting=self.state.ready,
                tasks_per_s=self._tasks_per_s(),
                workers=self.workers,
                held={worker.number: self.held(worker) or 0 for worker in self.workers},
                ended=dict(self.ledger.ended_by),
            )
        )
        return self.state

    def _work_s(self) -> float:
        """How long one worker alone needs for everything; the same on every machine, as handlers
        sleep.

        So much that there is work left when the frozen worker is back. Until then, one worker less
        works for about 1.6 leases and two less for as long; that is to be 60 % of all work.
        """
        workers = len(self.workers)
        return self.lease_s * 1.6 * ((workers - 1) + (workers - 2)) / 0.6

    def _tasks_per_s(self) -> float:
        """Of the last moments."""
        now = time.monotonic()
        self._pace.append((now, self.finished))
        while now - self._pace[0][0] > _PACE_OVER_S:
            self._pace.popleft()
        since, before = self._pace[0]
        return (self.finished - before) / (now - since) if now > since else 0.0
