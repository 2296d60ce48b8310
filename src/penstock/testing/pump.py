"""Drives the feed of a worker without threads, one step at a time, on the clock of the test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.executors.job_context import JobContext
from penstock.testing.inline import drive
from penstock.worker.feed import Feed
from penstock.worker.source import Begin, Cancel, Fire
from penstock.worker.sources.jobs import JobSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client.client import AsyncPenstock
    from penstock.client.functions import JobFunction
    from penstock.client.session import AsyncWorkerSession
    from penstock.executors.context import Context
    from penstock.model.claims import Claim
    from penstock.model.jobs import HandedOut
    from penstock.testing.clock import VirtualClock
    from penstock.worker.handlers import Handlers
    from penstock.worker.source import Request


@dataclass(frozen=True, slots=True)
class Asked:
    """What a worker was told when it asked for a job."""

    contexts: list[VirtualContext]
    schedules: list[str]
    """those that are due"""
    wait_ms: int
    """when to ask again; -1: when something has happened"""
    is_limited: bool
    """a limit of the queue is reached, so it does not tell whether there are jobs"""
    is_lost: bool
    """the worker was failed, and starts again under a new id"""


class VirtualPump:
    """Drives the feed of one queue, one step at a time, on the clock of the test."""

    slots = 1
    waiting = 0

    def __init__(
        self,
        session: AsyncWorkerSession,
        client: AsyncPenstock,
        queue: str,
        handlers: Handlers,
        clock: VirtualClock,
    ) -> None:
        self._store = client.store
        self._clock = clock
        self.source = source = VirtualSource(
            client.keys.queue(queue),
            session.id,
            session.lease,
            handlers.jobs[queue],
            handlers.backoffs,
            client.settings.max_payload,
            JobContext.cancel,
            takes_pushed=False,
        )
        source.pump = self
        source.handle = handlers.hooks.around(source.handle, None)
        source.noted = lambda context: drive(self._note(context))
        # No job is held ahead: if the worker dies, it takes no more than the one that it runs.
        self._feed = Feed(source, self, prefetches=False)
        self._ready: list[VirtualContext] = []
        """what has come and was not run yet"""
        self._schedules: list[str] = []
        self._word = ""

    @property
    def load(self) -> int:
        return len(self._ready)

    async def ask(self) -> Asked:
        if not self._ready:
            # Anything else that was said may not be true any more.
            self._schedules = []
            self._feed.look(self._now_s())
            await self._turn()
        contexts, self._ready = self._ready, []
        wake_at = self._feed.wake_at
        wait_ms = -1 if wake_at == math.inf else round(1000 * (wake_at - self._now_s()))
        is_lost = self.source.lease.is_lost
        return Asked(contexts, self._schedules, wait_ms, self._word == "limited", is_lost)

    async def report(self, context: VirtualContext) -> None:
        """Say what came of a job, and ask for the next one."""
        self.source.prepare(context)
        self._feed.outcomes.append(context)
        self._feed.report(self._now_s())
        await self._turn()

    async def find_cancelled(self) -> list[int]:
        request = self.source.find_cancelled()
        assert request is not None
        return await self._send(request)  # type: ignore[no-any-return]

    async def _turn(self) -> None:
        """Do what the feed wants to have done, until it has nothing more to do."""
        while (step := self._feed.next(self._now_s())) is not None:
            if isinstance(step, Begin):
                self._ready += step.contexts  # type: ignore[arg-type]
            elif isinstance(step, Fire):
                self._schedules += step.schedules
            elif isinstance(step, Cancel):
                for context in step.contexts:
                    self.source.cancel(context)
            else:
                answer = await self._send(step)
                if step.purpose == "claim":
                    self._note_answer(step, answer)
                self._feed.answered(step, answer, self._now_s())

    def _note_answer(self, request: Request, claim: Claim[HandedOut]) -> None:
        self._word = claim.word
        for context in request.contexts:
            context.is_refused = context.token in claim.refused  # type: ignore[attr-defined]

    async def _note(self, context: Context) -> None:
        request = self.source.note(context)
        if request is not None:
            await self._send(request)

    async def _send(self, request: Request) -> Any:
        command = request.command
        if callable(command):
            return await self._store.run_once(command)
        return await self._store.run(command)

    def _now_s(self) -> float:
        return self._clock.now_ms / 1000


class VirtualSource(JobSource):
    """As for any worker; but it listens to no messages, so contexts look up what they must know."""

    pump: VirtualPump

    def contexts(self, found: Iterable[HandedOut], first_process: int) -> list[Context]:
        return [VirtualContext(self, job, self._functions[job.type]) for job in found]


class VirtualContext(JobContext):
    """As for any job, with what its attempt has come to."""

    __slots__ = ("error", "is_refused")

    def __init__(
        self, source: VirtualSource, job: HandedOut, function: JobFunction[..., Any]
    ) -> None:
        super().__init__(source, job, function)
        self.error: BaseException | None = None
        self.is_refused = False
        """the job was taken away or removed meanwhile, so what came of it does not count"""

    @property
    def cancelled(self) -> bool:
        assert isinstance(self.origin, VirtualSource)
        if not self._is_cancelled and self.token in drive(self.origin.pump.find_cancelled()):
            self.cancel()
        return self._is_cancelled

    def raised(self, error: BaseException, began_at: float) -> None:
        self.error = error
        super().raised(error, began_at)
