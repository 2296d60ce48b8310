"""The connection to a store: where everything begins."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.client._async.final_check import find_ended
from penstock.client._async.job import AsyncJob
from penstock.client._async.jobs import AsyncJobs
from penstock.client._async.log import AsyncLog
from penstock.client._async.queue import AsyncQueue
from penstock.client._async.recovery import fail_worker
from penstock.client._async.schedules import AsyncSchedules
from penstock.client._async.session import AsyncWorkerSession
from penstock.client.results.results import Results
from penstock.codec.ids import id_number
from penstock.connection.store import AsyncStore
from penstock.connection.transport import AsyncArrivals, arun_blocking
from penstock.errors import (
    InvalidArgument,
    JobNotFound,
    QueueNotFound,
    ResultTimeout,
    UnknownLayout,
)
from penstock.model.job_options import check_seconds
from penstock.model.jobs import WHY_ABSENT
from penstock.model.names import check_worker_name
from penstock.model.workers import pausable_name
from penstock.store.commands import queues, workers
from penstock.store.keys import NamespaceKeys

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from concurrent.futures import Future
    from types import TracebackType

    from penstock.client.results.ending_channel import Ending
    from penstock.connection.settings import Settings
    from penstock.model.job_options import Seconds
    from penstock.model.queues import QueueState, Returned
    from penstock.model.workers import WorkerInfo


class AsyncPenstock:
    """A client of one store and one namespace."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.keys = NamespaceKeys(settings.namespace)
        self.store = AsyncStore(
            settings.address,
            settings.retry_for_s,
            settings.timeout_s,
            settings.dialect,
            settings.server,
        )
        self.results = Results(settings)
        """the callers that wait for jobs"""
        """what is the same in all jobs that are sent with the same options"""

    def queue(self, name: str) -> AsyncQueue:
        """The queue of this name. It need not exist; the first task brings it into being."""
        return AsyncQueue(self.store, self.keys, name, self.settings.max_payload)

    def jobs(self, queue: str) -> AsyncJobs:
        """The queue of jobs of this name. It need not exist; the first job brings it into being."""
        return AsyncJobs(self, queue)

    def log(self, name: str, partitions: int | None = None) -> AsyncLog:
        """The log of this name. It need not exist; the first message brings it into being, with
        that many partitions (1 if not given). One that has fewer gets more with the next message.
        """
        return AsyncLog(self, name, partitions)

    def schedules(self, queue: str) -> AsyncSchedules:
        """What is sent to a queue of jobs again and again."""
        return AsyncSchedules(self, queue)

    async def job(self, id: str, queue: str | None = None) -> AsyncJob[Any]:
        """The job of this id, wherever it is if no queue is named. Raises JobNotFound, and
        UnknownLayout if it can only be in a queue that this version cannot read.
        """
        id_number(id)  # refuses what is no id, also where there is no queue to look in
        unread: dict[str, UnknownLayout] = {}
        for name in [queue] if queue else await self.queues():
            try:
                return await self.jobs(name).get(id)
            except JobNotFound:
                if queue:
                    raise
            except UnknownLayout as error:
                if queue:
                    raise
                unread[name] = error
        if unread:
            why = "; ".join(f"queue {name!r}: {error}" for name, error in unread.items())
            raise UnknownLayout(f"job {id} is in no queue that can be read, but not all can: {why}")
        raise JobNotFound(
            f"no queue of namespace {self.settings.namespace!r} has a job {id}; {WHY_ABSENT}"
        )

    async def wait(
        self, jobs: Iterable[AsyncJob[Any]], timeout: Seconds | None = None
    ) -> tuple[list[AsyncJob[Any]], list[AsyncJob[Any]]]:
        """Wait until all jobs have ended, or time is up; returns those that have, and the rest.
        With a timeout of 0 it just looks.
        """
        waiting = _check_jobs(jobs)
        ended: list[AsyncJob[Any]] = []
        async for job in self.as_completed(waiting, timeout, raises=False):
            ended.append(job)
        has_ended = {id(job) for job in ended}
        return ended, [job for job in waiting if id(job) not in has_ended]

    def as_completed(
        self, jobs: Iterable[AsyncJob[Any]], timeout: Seconds | None = None, raises: bool = True
    ) -> AsyncGenerator[AsyncJob[Any], None]:
        """The jobs one by one as they end: done, dead, cancelled or removed. Raises ResultTimeout
        if time is up (unless `raises` is False: then it just ends).
        """
        # Checked here, as the generator would only check it when the first job is asked for.
        timeout_s = None if timeout is None else check_seconds("timeout", timeout)
        return self._completed(_check_jobs(jobs), timeout_s, raises)

    async def _completed(
        self, jobs: Iterable[AsyncJob[Any]], timeout_s: float | None, raises: bool
    ) -> AsyncGenerator[AsyncJob[Any], None]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        pending: dict[Future[Ending], AsyncJob[Any]] = {}
        arrivals: AsyncArrivals[Ending] = AsyncArrivals()
        try:
            for job in jobs:
                future = job._watch()
                pending[future] = job
                arrivals.expect(future)
            is_late = False
            while pending and not is_late:
                left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
                done = await arrivals.take(left_s)
                is_late = not done
                for future in done:
                    future.result()  # raises if waiting itself has failed
                    yield pending.pop(future)
            if pending:
                ended = await find_ended(pending.values())
                for future in [future for future, job in pending.items() if job in ended]:
                    yield pending.pop(future)
            if pending and raises:
                late = "1 job has" if len(pending) == 1 else f"{len(pending)} jobs have"
                raise ResultTimeout(
                    f"{late} not ended within {timeout_s:g} s, but may still do so; wait for longer"
                )
        finally:
            for future, job in pending.items():
                job._forget(future)

    async def queues(self) -> list[str]:
        """The names of all queues, in order.

        Every queue that exists is among them. A name may also be that of a queue which a client
        began to create before it crashed; `inspect` leaves those out.
        """
        names: set[str] = set()
        cursor = "0"
        while True:
            cursor, page = await self.store.run(queues.list_queues(self.keys, cursor))
            names.update(page)
            if cursor == "0":
                return sorted(names)

    async def inspect(self) -> list[QueueState]:
        """The state of every queue, each at one instant."""
        states = []
        for name in await self.queues():
            try:
                states.append(await self.queue(name).inspect())
            except QueueNotFound:
                continue
        return states

    def worker(self, name: str | None = None, **options: Any) -> AsyncWorkerSession:
        """A worker that you drive yourself, registered on entering `with`.

        Its id is the name and something random.
        """
        return AsyncWorkerSession(self, name, **options)

    async def workers(self) -> list[WorkerInfo]:
        """All registered workers, those nearest to the end of their lease first."""
        found: list[WorkerInfo] = []
        while True:
            total, page = await self.store.run(workers.list_workers(self.keys, len(found)))
            found += page
            if not page or len(found) >= total:
                break
        paused = set(await self.paused_workers())
        return [replace(info, is_paused=info.name in paused) for info in found]

    async def pause_worker(self, name: str) -> None:
        """Let a worker start nothing more; what it runs goes on. `name` is what it was started
        with, and holds for every later start under it; or the id of one worker.
        """
        command = workers.pause_worker(self.keys, pausable_name(name), is_paused=True)
        await self.store.run(command)

    async def resume_worker(self, name: str) -> None:
        """Let a worker go on."""
        command = workers.pause_worker(self.keys, pausable_name(name), is_paused=False)
        await self.store.run(command)

    async def paused_workers(self) -> list[str]:
        """The names that are paused, also those that no worker has now."""
        return await self.store.run(workers.list_paused_workers(self.keys))

    async def work_of(self, worker: str) -> list[str]:
        """The queues that a worker serves."""
        command = workers.list_work(self.keys, check_worker_name(worker))
        return await self.store.run(command)

    async def fail_worker(self, worker: str, how: str = "") -> Returned:
        """Declare a worker dead: its lease ends, and its tasks go back to the front of their
        queues. `how` it has died, if that is known, is kept with the jobs that it held and counts
        toward their poison guard; without it, only that its lease has lapsed is.

        Failing a worker that is not registered does nothing.
        """
        return await fail_worker(self.store, self.keys, worker, how)

    async def release_worker(self, worker: str) -> Returned:
        """The same for a worker that was stopped and could not leave by itself: what it held goes
        back at no cost. Its process must be gone.
        """
        return await fail_worker(self.store, self.keys, worker, is_lost=False)

    async def open(self) -> AsyncPenstock:
        """Look at the store, and refuse one that could lose tasks silently."""
        try:
            await self.store.open(self.keys)
        except BaseException:
            await self.close()
            raise
        self.results = Results(replace(self.settings, dialect=self.store.dialect))
        return self

    async def close(self) -> None:
        await arun_blocking(self.results.close)
        await self.store.close()

    async def __aenter__(self) -> AsyncPenstock:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _check_jobs(jobs: Iterable[AsyncJob[Any]]) -> list[AsyncJob[Any]]:
    """Refuse what is no job, before any is watched."""
    if not isinstance(jobs, Iterable):
        raise InvalidArgument(f"{jobs!r} is no list; give a list of jobs, also if it is one job")
    listed = list(jobs)
    for job in listed:
        if not isinstance(job, AsyncJob):
            raise InvalidArgument(
                f"{job!r} is no job that this client can wait for; give jobs as `add`, `send` and "
                "`job(id)` return them"
            )
    return listed
