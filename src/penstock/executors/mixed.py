"""Runs jobs of all kinds side by side: each where its function belongs."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from penstock.connection.transport import arun_blocking
from penstock.errors import HandlerNotFound
from penstock.executors.coroutines import CoroutineExecutor
from penstock.executors.processes import ProcessExecutor
from penstock.executors.threads import ThreadExecutor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.executors.context import Context
    from penstock.executors.job_context import JobContext


class Part(Protocol):
    slots: int
    moved_at: float

    @property
    def waiting(self) -> int: ...
    @property
    def load(self) -> int: ...
    def submit(self, contexts: Iterable[Context]) -> None: ...
    def recall(self) -> list[Context]: ...
    def cancel(self, context: Context) -> None: ...


class Runnable(Protocol):
    """A job or a consumer; as text, which one."""

    @property
    def path(self) -> str:
        """module:qualname"""

    @property
    def in_process(self) -> bool: ...
    @property
    def is_async(self) -> bool: ...


class MixedExecutor:
    """Threads, coroutines and processes behind one number of slots."""

    def __init__(
        self,
        slots: int,
        functions: Sequence[Runnable],
        modules: list[str] | None = None,
    ) -> None:
        """`functions` are all jobs and consumers that will run here; `modules` what a child process
        imports to find them.
        """
        self.slots = slots
        self.threads = ThreadExecutor(slots)
        self.coroutines = CoroutineExecutor(slots)
        self._processes = None
        if any(function.in_process for function in functions):
            _check_importable(functions)
            self._processes = ProcessExecutor(slots, modules or _modules_of(functions))
        parts = (self.threads, self.coroutines, self._processes)
        self._parts: list[Part] = [part for part in parts if part is not None]
        self._is_closed = False

    def start(self, has_functions: bool, has_coroutines: bool) -> None:
        """Only what is needed; child processes are started if a job runs in one."""
        if has_functions:
            self.threads.start()
        if has_coroutines:
            self.coroutines.start()
        if self._processes is not None:
            self._processes.start()

    async def close(self) -> None:
        """End what can be ended. What cannot is in `running`."""
        if self._is_closed:
            return
        self._is_closed = True
        self.threads.close()
        await self.coroutines.end()
        if self._processes is not None:
            await arun_blocking(self._processes.close)

    @property
    def running(self) -> list[Context]:
        """What runs in this process."""
        return [*self.threads.running, *self.coroutines.running]

    @property
    def is_running(self) -> bool:
        """Whether something runs in this process whose outcome counts."""
        return self.threads.is_running or self.coroutines.is_running

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

    def part_for(self, function: Runnable) -> Part:
        """Where it runs."""
        if function.in_process and self._processes is not None:
            return self._processes
        return self.coroutines if function.is_async else self.threads

    def _part(self, context: JobContext) -> Part:
        return self.part_for(context.function)


def _check_importable(functions: Sequence[Runnable]) -> None:
    """Refuse at the start what would fail each time."""
    for function in functions:
        if not function.in_process:
            continue
        module, _, name = function.path.partition(":")
        if module == "__main__":
            raise HandlerNotFound(
                f"{function} is to run in a process of its own, which cannot import it from the "
                "program that was started (__main__); put it into a module with a name, and import "
                "it from there, or leave out process=True"
            )
        if "<" in name:  # as in "make.<locals>.inner"
            raise HandlerNotFound(
                f"{function} is to run in a process of its own, which cannot import {name!r} from "
                f"module {module!r}; define it at the top level of the module, or leave out "
                "process=True"
            )


def _modules_of(functions: Sequence[Runnable]) -> list[str]:
    """What a child process must import to find the functions that run in one."""
    return sorted({function.path.partition(":")[0] for function in functions})
