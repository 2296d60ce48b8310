"""Runs plain functions, in threads."""

from __future__ import annotations

import threading
import time
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.executors.assignment import Context

_LEASE_POLL_S = 0.02


class ThreadExecutor:
    """A fixed number of threads that take tasks from one line.

    They are daemons: a handler that never returns must not keep the process from ending, and its
    task is given back by then.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.moved_at = perf_counter()
        """when a task was last done, or began to wait in an empty line"""
        self._line: SimpleQueue[Context | None] = SimpleQueue()
        self._running: set[Context] = set()
        self._threads = [
            threading.Thread(target=self._serve, name=f"penstock-{n}", daemon=True)
            for n in range(slots)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def submit(self, contexts: Iterable[Context]) -> None:
        if not self.waiting:
            self.moved_at = perf_counter()
        put = self._line.put
        for context in contexts:
            put(context)

    @property
    def load(self) -> int:
        """Tasks that wait or run, also those whose worker has lost them meanwhile."""
        return self._line.qsize() + len(self._running)

    @property
    def waiting(self) -> int:
        """Tasks that no thread has begun."""
        return self._line.qsize()

    def recall(self) -> list[Context]:
        """Take back every task that no thread has begun."""
        recalled: list[Context] = []
        while True:
            try:
                context = self._line.get_nowait()
            except Empty:
                return recalled
            if context is not None:
                recalled.append(context)

    def close(self) -> None:
        """Let threads end after what they are doing; they are not waited for."""
        for _ in self._threads:
            self._line.put(None)

    def _serve(self) -> None:
        get = self._line.get
        while (context := get()) is not None:
            self._running.add(context)
            while context.must_wait:
                time.sleep(_LEASE_POLL_S)
            if context.is_void:
                self._running.discard(context)
                context.skipped()
                continue
            began_at = perf_counter()
            error: BaseException | None = None
            try:
                value = context.origin.handle(context.task, context)
            except BaseException as raised:
                error = raised
            self.moved_at = perf_counter()
            # Free before the outcome is told, so that whoever hears of it finds the slot free.
            self._running.discard(context)
            if error is None:
                context.returned(value, began_at)
            else:
                context.raised(error, began_at)
