"""Runs jobs of all kinds side by side: each where its function belongs."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.executors.context import Context
    from penstock.executors.coroutines import CoroutineExecutor
    from penstock.executors.job_context import JobContext
    from penstock.executors.processes import ProcessExecutor
    from penstock.executors.threads import ThreadExecutor


class Part(Protocol):
    moved_at: float

    @property
    def waiting(self) -> int: ...
    @property
    def load(self) -> int: ...
    def submit(self, contexts: Iterable[Context]) -> None: ...
    def recall(self) -> list[Context]: ...
    def cancel(self, context: Context) -> None: ...


class MixedExecutor:
    """Threads, coroutines and processes behind one number of slots."""

    def __init__(
        self,
        slots: int,
        threads: ThreadExecutor,
        coroutines: CoroutineExecutor,
        processes: ProcessExecutor | None,
    ) -> None:
        self.slots = slots
        self._threads = threads
        self._coroutines = coroutines
        self._processes = processes
        parts = (threads, coroutines, processes)
        self._parts: list[Part] = [part for part in parts if part is not None]

    @property
    def moved_at(self) -> float:
        """When the executor whose work has waited longest last made progress."""
        stuck = [part.moved_at for part in self._parts if part.waiting]
        return min(stuck) if stuck else perf_counter()

    @property
    def waiting(self) -> int:
        waiting = 0
        for part in self._parts:  # asked after every job, and a loop is quicker than sum()
            waiting += part.waiting
        return waiting

    @property
    def load(self) -> int:
        return sum(part.load for part in self._parts)

    def submit(self, contexts: Iterable[Context]) -> None:
        by_part: dict[Part, list[Context]] = {}
        for context in contexts:
            by_part.setdefault(self._part(context), []).append(context)  # type: ignore[arg-type]
        for part, members in by_part.items():
            part.submit(members)

    def recall(self) -> list[Context]:
        return [context for part in self._parts for context in part.recall()]

    def cancel(self, context: JobContext) -> None:
        """Tell the job, and end it where it can be ended."""
        self._part(context).cancel(context)

    def _part(self, context: JobContext) -> Part:
        if context.function.in_process and self._processes is not None:
            return self._processes
        return self._coroutines if context.function.is_async else self._threads
