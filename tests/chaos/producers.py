"""Producers: threads that enqueue tasks until told to stop, and know which were accepted."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Self

from tests.chaos.handlers import make_task, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    import penstock

BACKLOG = 300


class Producer:
    """Enqueues tasks of random length, one or a few at a time, as long as not too many wait."""

    def __init__(self, queue: penstock.Queue, name: str, longest_ms: int) -> None:
        self.accepted: list[str] = []
        self.error: BaseException | None = None
        self._queue = queue
        self._longest_ms = longest_ms
        self._random = random.Random(name)
        self._names = _names(name)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"producer-{name}")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(0.02):
                if self._backlog() < BACKLOG:
                    self._enqueue(self._random.randint(1, 8))
        except BaseException as error:
            self.error = error

    def _backlog(self) -> int:
        return self._queue.count()

    def _enqueue(self, count: int) -> None:
        tasks = [
            make_task(next(self._names), ms=self._random.randint(0, self._longest_ms))
            for _ in range(count)
        ]
        if count == 1:
            self._queue.enqueue(tasks[0])
        else:
            self._queue.enqueue_many(tasks)
        self.accepted += map(name_of, tasks)


class Producers:
    """A few producers at work at once, for the time of a `with` block."""

    def __init__(self, queue: penstock.Queue, count: int = 2, longest_ms: int = 60) -> None:
        self._all: Sequence[Producer] = [
            Producer(queue, f"p{number}", longest_ms) for number in range(count)
        ]

    @property
    def accepted(self) -> list[str]:
        return [name for producer in self._all for name in producer.accepted]

    def __enter__(self) -> Self:
        for producer in self._all:
            producer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for producer in self._all:
            producer.stop()
        for producer in self._all:
            if producer.error is not None and error is None:
                raise producer.error


def _names(prefix: str) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"{prefix}-{number}"
