"""Producers of jobs of all kinds, and somebody who waits for their results."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import penstock
from tests.chaos.jobs_functions import (
    doomed,
    flaky,
    isolated,
    limited,
    patient,
    quick,
    single,
    slow,
)
from tests.chaos.producers import Producer, Producers

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from penstock.client.functions import JobFunction
    from penstock.model.job_options import JobSettings
    from tests.chaos.harness import World

_KEYS = 2
_WAITED_FOR = 0.05
_KINDS: tuple[tuple[int, JobFunction[..., Any]], ...] = (
    (40, quick), (15, slow), (12, flaky), (2, doomed), (4, isolated), (12, patient), (10, single),
    (10, limited),
)  # fmt: skip


class Sent(NamedTuple):
    """A job that was accepted."""

    type: str
    name: str
    unique: str


class JobProducer(Producer):
    """Sends jobs of a random kind, one or a few at a time, some of them later, of several tenants
    and priorities.
    """

    def __init__(self, world: World, waiter: Waiter, name: str, longest_ms: int) -> None:
        super().__init__(world.queue, name, longest_ms)
        self.sent: dict[str, Sent] = {}
        """by id"""
        self._ps = world.ps
        self._jobs = world.ps.jobs(world.queue.name)
        self._waiter = waiter

    def _backlog(self) -> int:
        counts = self._jobs.counts()
        return counts["ready"] + counts["scheduled"]

    def _enqueue(self, count: int) -> None:
        chance = self._random
        weights = [weight for weight, _ in _KINDS]
        function = chance.choices([function for _, function in _KINDS], weights)[0]
        options: JobSettings = {
            "priority": chance.choice(("low", "normal", "normal", "high")),
            "tenant": chance.choice(("", "acme", "globex")),
            "delay": chance.choice((0, 0, 0, 0.3)),
        }
        if function is single:
            options["unique"] = f"key-{chance.randrange(_KEYS)}"
        names = [next(self._names) for _ in range(count)]
        sending = function.on(self._ps).options(**options)
        jobs = sending.send_many([self._arguments(function, name) for name in names])
        for job, name in zip(jobs, names, strict=True):
            if job.is_new:
                self.sent[job.id] = Sent(function.type, name, options.get("unique", ""))
                self.accepted.append(name)
                if chance.random() < _WAITED_FOR:
                    self._waiter.wait_for(job)

    def _arguments(self, function: JobFunction[..., Any], name: str) -> tuple[object, ...]:
        if function is flaky:
            return name, self._random.randint(1, 3)
        if function in (quick, doomed):
            return (name,)
        return name, self._random.randint(0, self._longest_ms)


class PlainJobProducer(JobProducer):
    """Sends plain jobs one by one, so slowly that workers wait for them."""

    def _enqueue(self, count: int) -> None:
        for name in (next(self._names) for _ in range(count)):
            job = quick.on(self._ps).send(name)
            self.sent[job.id] = Sent(quick.type, name, "")
            self.accepted.append(name)
            if self._random.random() < _WAITED_FOR:
                self._waiter.wait_for(job)
            time.sleep(self._random.uniform(0, 0.005))


class JobProducers(Producers):
    def __init__(
        self,
        world: World,
        waiter: Waiter,
        kind: type[JobProducer] = JobProducer,
        count: int = 2,
        longest_ms: int = 100,
    ) -> None:
        self._producers = [kind(world, waiter, f"p{number}", longest_ms) for number in range(count)]
        self._all: Sequence[Producer] = self._producers

    @property
    def sent(self) -> dict[str, Sent]:
        return {id: sent for producer in self._producers for id, sent in producer.sent.items()}


class Waiter:
    """Waits for results while everything goes wrong, for the time of a `with` block."""

    def __init__(self) -> None:
        self.results: dict[str, object] = {}
        """by id; None if the job is dead"""
        self.error: BaseException | None = None
        self._jobs: SimpleQueue[penstock.Job[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="waiter")

    def wait_for(self, job: penstock.Job[Any]) -> None:
        self._jobs.put(job)

    def __enter__(self) -> Waiter:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._jobs.put(None)
        self._thread.join()
        if self.error is not None and error is None:
            raise self.error

    def _run(self) -> None:
        try:
            while (job := self._jobs.get()) is not None:
                try:
                    self.results[job.id] = job.result(60)
                except penstock.JobFailed:
                    self.results[job.id] = None
        except BaseException as error:
            self.error = error
