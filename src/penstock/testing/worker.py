"""A worker without threads: it does one thing at a time, and only when it is told to."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

from penstock.client.session import AsyncWorkerSession
from penstock.codec.values import pack_result
from penstock.errors import JobTimeout, LeaseLost
from penstock.model.workers import LEASE_MS, describe_worker
from penstock.store.commands import workers
from penstock.testing.pump import VirtualPump

if TYPE_CHECKING:
    from penstock.client.client import AsyncPenstock
    from penstock.testing.clock import VirtualClock
    from penstock.testing.faults import Faults
    from penstock.testing.pump import Asked, VirtualContext
    from penstock.worker.handlers import Handlers

Settled = tuple[Any, BaseException | None]
Start = Callable[[], Coroutine[Any, Any, Settled]]
Complete = Callable[[Start, contextvars.Context], Awaitable[Settled]]
"""How a coroutine is run to its end: on a loop that runs, or on one made for it."""

_SWEEP = 100
_HOW = "signal 9 (SIGKILL), as the test wants it"
_OF_THE_JOB = (Exception, SystemExit, asyncio.CancelledError)
"""Anything else that a function raises is for the test: Ctrl-C, pytest.fail(), pytest.skip()."""


@dataclass(frozen=True, slots=True)
class CrashedWorker:
    """A worker that has died, and whose job nobody has given back yet."""

    queue: str
    job: str
    lease_ends_ms: int


class VirtualWorker:
    """Speaks to the store as any worker does. Dies when the test wants it, and is followed by
    another, which recovers it when its lease has run out.
    """

    def __init__(
        self,
        client: AsyncPenstock,
        handlers: Handlers,
        clock: VirtualClock,
        faults: Faults,
        crashed: dict[str, CrashedWorker],
        complete: Complete,
        resources: Any,
    ) -> None:
        self._client = client
        self._handlers = handlers
        self._clock = clock
        self._faults = faults
        self._complete = complete
        self._resources = resources
        self.crashed = crashed
        """those to recover, by their id; also what earlier runs have left"""
        self._session = _Session(client, "test")
        self._pumps: dict[str, VirtualPump] = {}

    @property
    def queues(self) -> list[str]:
        return list(self._handlers.jobs)

    def types(self, queue: str) -> list[str]:
        return list(self._handlers.jobs[queue])

    async def start(self) -> None:
        """Register and join all queues, under an id never used before."""
        self._session = session = _Session(self._client, "test")
        await session.start()
        for queue, types in self._handlers.jobs.items():
            await session.start_job_work(queue, list(types))
        self._pumps = {
            queue: VirtualPump(session, self._client, queue, self._handlers, self._clock)
            for queue in self._handlers.jobs
        }
        for pump in self._pumps.values():
            pump.source.resources = self._resources

    async def stop(self) -> None:
        """Leave; what it holds goes back at no cost."""
        await self._session.stop()

    async def beat(self) -> list[CrashedWorker]:
        """Recover who has died; to be called whenever the clock has moved."""
        if not self.crashed:
            return []
        try:
            # A worker whose own lease had run out judges nobody, so the first beat only renews.
            await self.renew()
            peers = await self.renew(_SWEEP)
        except LeaseLost:
            await self.start()
            return []
        for peer in peers:
            # As the parent of a worker tells it, which is what a crash is about.
            await self._client.fail_worker(peer, _HOW if peer in self.crashed else "")
        return [self.crashed.pop(peer) for peer in peers if peer in self.crashed]

    async def renew(self, sweep: int = 0) -> list[str]:
        """One heartbeat; returns dead peers that are to be recovered."""
        command = workers.keep_worker_alive(self._client.keys, self._session.id, LEASE_MS, sweep)
        return await self._client.store.run(command)

    async def ask(self, queue: str) -> Asked:
        """Ask for one job, unless one came with the answer to the last report."""
        return await self._pumps[queue].ask()

    async def perform(self, context: VirtualContext) -> bool:
        """Run a job and report what came of it; False if the worker has died over it."""
        queue, job = context.queue, context.handed_out
        if not self._faults.must_crash(queue, job, "start"):
            await self._run(context)
            if not self._faults.must_crash(queue, job, "end"):
                await self._pumps[queue].report(context)
                return True
        await self.renew()  # as any worker has just done, so that its lease runs out after now
        self.crashed[self._session.id] = CrashedWorker(queue, job.id, self._clock.now_ms + LEASE_MS)
        await self.start()
        return False

    async def _run(self, context: VirtualContext) -> None:
        began_at, began_ms, cpu_began_s = perf_counter(), self._clock.now_ms, thread_time()
        value, error = await self._call(context)
        context.cpu_s = thread_time() - cpu_began_s
        took_s = max(perf_counter() - began_at, (self._clock.now_ms - began_ms) / 1000)
        if 0 < context.timeout_s < took_s:
            error = JobTimeout(
                f"the job ran longer than its timeout of {context.timeout_s:g} s; "
                "give it more time, or less to do"
            )
        if error is None:
            context.returned(value, began_at)
        elif isinstance(error, _OF_THE_JOB):
            context.raised(error, began_at)
        else:
            raise error

    async def _call(self, context: VirtualContext) -> Settled:
        surroundings = contextvars.copy_context()
        if context.function.is_async:
            return await self._complete(lambda: _settle(context), surroundings)
        try:
            value = surroundings.run(context.origin.handle, context.task, context)
            # What comes from a process of its own is encoded there.
            return (pack_result(value) if context.function.in_process else value), None
        except BaseException as error:
            return None, error


class _Session(AsyncWorkerSession):
    """Without the threads of a heartbeat: the clock only moves when the test says so."""

    async def start(self) -> None:
        about = describe_worker()
        await self._store.run_once(
            lambda operation: workers.start_worker(self._keys, operation, self.id, LEASE_MS, about)
        )
        self.lease.renewed(math.inf)

    async def stop(self) -> None:
        for queue in list(self._queues):
            await self.stop_work(queue)
        await self._client.fail_worker(self.id)


async def _settle(context: VirtualContext) -> Settled:
    """Raises nothing but cancellation: a SystemExit that leaves a task would end the loop."""
    try:
        async with asyncio.timeout(context.timeout_s or None):
            return await context.origin.handle(context.task, context), None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error
