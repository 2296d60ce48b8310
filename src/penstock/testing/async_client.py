"""The client for tests, with coroutines and without: everything that it does is written once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.client.client import AsyncPenstock
from penstock.client.functions import JobFunction
from penstock.codec.ids import id_number
from penstock.codec.values import open_call
from penstock.errors import InvalidArgument
from penstock.model.job_options import check_seconds
from penstock.model.jobs import FINAL_STATES, JOB_STATES
from penstock.testing.clock import VirtualClock, as_datetime, epoch_ms
from penstock.testing.functions import check_runnable, find_functions
from penstock.testing.inline import InlineStore
from penstock.testing.run import Run, RunSummary
from penstock.testing.worker import VirtualWorker

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Iterable
    from datetime import datetime
    from types import ModuleType

    from penstock.client.client import Penstock
    from penstock.model.job_options import Seconds
    from penstock.model.jobs import JobInfo, JobState
    from penstock.testing.faults import Faults, Point, Victim
    from penstock.testing.functions import Runnable
    from penstock.testing.worker import Complete, CrashedWorker, Settled, Start
    from penstock.worker.handlers import Handlers

_PENDING: tuple[JobState, ...] = tuple(state for state in JOB_STATES if state not in FINAL_STATES)
_PAGE = 1000
LIMIT = 10_000
"""how many attempts a run makes if nothing else is said"""

Type = str | JobFunction[..., Any]
"""A type of job, by its name or its function."""


class Call(NamedTuple):
    """The arguments of a job."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class AsyncTestPenstock(AsyncPenstock):
    """As `TestPenstock`, for coroutines. It has no connection of its own and belongs to no loop."""

    __test__ = False

    def __init__(
        self, client: Penstock, clock: VirtualClock, faults: Faults, module: ModuleType | None
    ) -> None:
        super().__init__(client.settings)
        self.store = InlineStore(client.store)
        self._clock = clock
        self._faults = faults
        self._registered: list[Runnable] = []
        self._module = module
        self._crashed: dict[str, CrashedWorker] = {}
        self._workers: list[VirtualWorker] = []
        self.resources: Any = None
        """what jobs find as `penstock.current().resources`, in place of what a lifespan yields"""

    async def open(self) -> AsyncTestPenstock:
        return self

    async def close(self) -> None:
        """Whatever there is to close is closed with the client that it works for."""

    @property
    def now(self) -> datetime:
        """The time, in UTC, for everything that penstock does."""
        return as_datetime(self._clock.now_ms)

    async def advance(self, seconds: Seconds) -> datetime:
        """Move the clock forward; nothing runs by that alone. Returns the time."""
        return await self._set(self._clock.now_ms + round(check_seconds("seconds", seconds) * 1000))

    async def set_clock(self, when: datetime) -> datetime:
        """Set the clock. Back is only good as long as nothing has been sent."""
        return await self._set(epoch_ms(when))

    def register(self, *items: Runnable) -> None:
        """Name functions, or modules with functions, for every `run_all` that names none."""
        check_runnable(items)
        self._registered += items

    async def run_all(
        self,
        *items: Runnable,
        until: Seconds | None = None,
        limit: int = LIMIT,
        raise_errors: bool = False,
    ) -> RunSummary:
        """As `TestPenstock.run_all`; coroutine functions run on the loop that runs this."""
        return await self._run_all(items, until, limit, raise_errors, _complete_here)

    async def sent(self, type: Type | None = None) -> list[JobInfo]:
        """All jobs, in whatever state, of any queue, in the order in which they were sent."""
        return await self._listed(JOB_STATES, type)

    async def pending(self, type: Type | None = None) -> list[JobInfo]:
        """Those that have not come to their end."""
        return await self._listed(_PENDING, type)

    async def calls(self, function: Type) -> list[Call]:
        """With which arguments a function was sent, whatever has become of it."""
        opens = function.signature.open if isinstance(function, JobFunction) else open_call
        opened = [opens(job.data) for job in await self.sent(function)]
        return [Call(tuple(args), kwargs) for args, kwargs in opened]

    def crash(self, victim: Victim, at: Point = "start", times: int = 1) -> None:
        """Let the worker die over a job; see `TestPenstock.crash`."""
        self._faults.crash(victim, at, times)

    def lose_reply(self, script: str, times: int = 1) -> None:
        """Let the reply to a request get lost; see `TestPenstock.lose_reply`."""
        self._faults.lose_reply(script, times)

    async def _run_all(
        self,
        items: tuple[Runnable, ...],
        until: Seconds | None,
        limit: int,
        raise_errors: bool,
        complete: Complete,
    ) -> RunSummary:
        deadline_ms = None
        if until is not None:
            deadline_ms = self._clock.now_ms + round(check_seconds("until", until) * 1000)
        handlers = self._handlers(items)
        await self._check_crashes(handlers)
        worker = VirtualWorker(
            *(self, handlers, self._clock, self._faults, self._crashed, complete, self.resources)
        )
        self._workers.append(worker)
        try:
            run = Run(self, worker, self._clock, deadline_ms, limit, raise_errors)
            return await run.run()
        finally:
            self._workers.remove(worker)

    def _handlers(self, items: tuple[Runnable, ...]) -> Handlers:
        check_runnable(items)
        if not items:
            around = [] if self._module is None else [self._module]
            items = (*self._registered, *around)
        return find_functions(items)

    async def _check_crashes(self, handlers: Handlers) -> None:
        """A type that is mistyped would let no worker die, and the test pass without a crash."""
        known = {type for types in handlers.jobs.values() for type in types}
        for type in sorted(self._faults.crashing_types() - known):
            if not await self.sent(type):
                raise InvalidArgument(
                    f"a worker is to die over a job of type {type!r}, but none was sent and no "
                    f"function of this run has it; they have {', '.join(sorted(known))}"
                )

    async def _set(self, now_ms: int) -> datetime:
        self._clock.set(now_ms)
        for worker in self._workers:
            await worker.renew()
        return self.now

    async def _listed(self, states: Iterable[JobState], type: Type | None) -> list[JobInfo]:
        if isinstance(type, JobFunction):
            queues, type = [type.queue], type.type
        else:
            queues = await self.queues()
        which = {} if type is None else {"type": type}
        found: list[JobInfo] = []
        for queue in queues:
            for state in states:
                found += await self._in_state(queue, state, which)
        return sorted(found, key=lambda job: (job.created_at, id_number(job.id)))

    async def _in_state(self, queue: str, state: JobState, which: dict[str, Any]) -> list[JobInfo]:
        found: list[JobInfo] = []
        cursor = ""
        while True:
            page = await self.jobs(queue).page(state, after=cursor, limit=_PAGE, **which)
            found += page.jobs
            cursor = page.cursor
            if not cursor:
                return found


async def _complete_here(start: Start, surroundings: contextvars.Context) -> Settled:
    task = asyncio.get_running_loop().create_task(start(), context=surroundings)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        raise
    try:
        return task.result()
    except asyncio.CancelledError as error:
        return None, error
