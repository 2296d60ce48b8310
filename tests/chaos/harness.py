"""A store, a queue, workers and what is expected of them together."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import penstock
from tests.chaos.fleet import Fleet
from tests.chaos.handlers import QUEUE, make_task
from tests.chaos.journal import Journal
from tests.invariants import assert_invariants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.chaos.fleet import WorkerProcess
    from tests.servers import RedisServer

R = TypeVar("R")


class World:
    """Everything that one chaos test has."""

    module = "tests.chaos.handlers"
    """what the workers run"""

    def __init__(self, server: RedisServer, namespace: str, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._gate = folder / "gate"
        self.journal = Journal(folder / "journal")
        # Producers are as patient as the longest outage that a test makes.
        self.ps = penstock.connect(server.url, namespace=namespace, retry_for_s=150)
        self.queue = self.ps.queue(QUEUE)
        self.queue.configure()  # brings it into being
        self.fleet = Fleet(
            server.url, namespace, folder, self.journal.path, self._gate, self.module
        )

    def open_gate(self) -> None:
        """Let tasks go on that wait for it."""
        self._gate.touch()

    def enqueue(
        self, names: Iterable[str], verb: str = "take", ms: int = 0, padding: int = 0
    ) -> list[str]:
        accepted = list(names)
        self.queue.enqueue_many([make_task(name, verb, ms, padding) for name in accepted])
        return accepted

    def wait_for_workers(self, workers: Iterable[WorkerProcess]) -> None:
        """Until all have joined the queue."""
        wanted = list(workers)
        until(lambda: all(self.members(worker) for worker in wanted), 30)

    def members(self, worker: WorkerProcess) -> dict[str, int]:
        """The ids under which a process serves the queue now -> tasks held. More than one while a
        lost one is not yet recovered.
        """
        held = self.queue.inspect().held
        return {id_: held[id_] for id_ in worker.ids if id_ in held}

    def finished(self) -> int:
        return self.queue.inspect().counters.finished

    def wait_for_progress(self, count: int = 50, timeout_s: float = 20.0) -> float:
        """Until `count` more tasks are finished; returns how long it took."""
        target = self.finished() + count
        return until(lambda: self.finished() >= target, timeout_s)

    def wait_for_work(self, worker: WorkerProcess) -> None:
        """Until it holds a task."""
        until(lambda: any(self.members(worker).values()), 20, every_s=0.001)

    def drain(self, accepted: int, timeout_s: float = 40.0) -> None:
        """Until all that was accepted is finished."""
        until(lambda: self.finished() >= accepted and self.queue.inspect().running == 0, timeout_s)

    def assert_all_done(self, accepted: list[str], dead: int = 0) -> None:
        """Nothing lost, nothing made up, every finish accepted once."""
        state = self.queue.inspect()
        assert len(accepted) == len(set(accepted))
        assert state.counters.enqueued == len(accepted) + dead
        assert state.counters.finished == len(accepted)
        assert (state.ready, state.running, state.dead) == (0, 0, dead)
        ended = {record.task for record in self.journal.ended()}
        assert ended == set(accepted)
        tokens = Counter(record.token for record in self.journal.started())
        assert [token for token, count in tokens.items() if count > 1] == []
        assert_invariants(self.ps)

    def close(self) -> None:
        self.fleet.close()
        self.ps.close()
        self.journal.close()


def until(condition: Callable[[], object], timeout_s: float, every_s: float = 0.03) -> float:
    """Wait for a condition, gently: the machine has other things to do. Returns how long it
    took.
    """
    began_at = time.monotonic()
    while not condition():
        waited_s = time.monotonic() - began_at
        assert waited_s < timeout_s, f"not so within {timeout_s} s"
        threading.Event().wait(every_s)
    return time.monotonic() - began_at


@contextmanager
def repeating(fault: Callable[[], R], every_s: float) -> Iterator[list[R]]:
    """Do something again and again during a `with` block; yields what it answered."""
    answers: list[R] = []
    errors: list[BaseException] = []
    stopping = threading.Event()

    def repeat() -> None:
        try:
            while not stopping.wait(every_s):
                answers.append(fault())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=repeat, name="fault")
    thread.start()
    try:
        yield answers
    finally:
        stopping.set()
        thread.join()
    assert not errors, errors
