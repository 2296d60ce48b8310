"""Which jobs the callers of a client wait for, and the futures that tell them how each ends."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.client.results.ending_channel import AwaitedJob, Ending, EndingChannel
from penstock.errors import StoreUnavailable

if TYPE_CHECKING:
    from penstock.store.keys import QueueKeys


class AwaitedJobs:
    """The jobs that are waited for on one connection, by the channel on which their end is told."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """held by every thread that changes what is below"""
        self.channels: dict[str, EndingChannel] = {}
        self.new: set[str] = set()
        """channels that are to be opened"""
        self.has_idle_channels = False
        self.is_closed = False
        """no more jobs are taken"""

    def add(self, keys: QueueKeys, number: int) -> tuple[Future[Ending], bool]:
        """A future of how a job ends, and whether the job has to be looked at.

        Raises StoreUnavailable if no more jobs are taken.
        """
        future: Future[Ending] = Future()
        name = keys.ending_channel(number)
        with self.lock:
            if self.is_closed:
                raise closed()
            channel = self.channels.get(name)
            if channel is None:
                channel = self.channels[name] = EndingChannel()
                self.new.add(name)
            job = channel.jobs.get(number)
            if job is None:
                job = channel.jobs[number] = AwaitedJob(keys, number)
            job.futures.append(future)
            must_look = channel.must_look(number)
            if must_look:
                channel.unseen[number] = job
        return future, must_look

    def forget(self, keys: QueueKeys, number: int, future: Future[Ending]) -> None:
        """The caller that has this future does not wait any more."""
        with self.lock:
            channel = self.channels.get(keys.ending_channel(number))
            job = channel.jobs.get(number) if channel is not None else None
            if channel is None or job is None or future not in job.futures:
                return
            job.futures.remove(future)
            if not job.futures:
                self._drop(channel, number)

    def is_any(self) -> bool:
        with self.lock:
            return any(channel.jobs for channel in self.channels.values())

    def heard(self, name: str, number: int, ending: Ending | None) -> AwaitedJob | None:
        """A channel has told that a job has ended. Returns the job if a caller waits for it; else
        the ending is kept for a caller that asks a moment later.
        """
        with self.lock:
            channel = self.channels.get(name)
            job = channel.jobs.get(number) if channel is not None else None
            if channel is not None and job is None:
                channel.heard(number, ending)
        return job

    def resolve(self, job: AwaitedJob, ending: Ending) -> None:
        """Tell all callers that wait for a job how it has ended."""
        # They are told before it is forgotten that they wait: if this is interrupted, they are told
        # after the reconnect.
        while any(not future.done() for future in job.futures):
            for future in list(job.futures):
                with suppress(InvalidStateError):
                    future.set_result(ending)
        with self.lock:
            channel = self.channels.get(job.keys.ending_channel(job.number))
            if channel is not None and channel.jobs.get(job.number) is job:
                self._drop(channel, job.number)
                channel.heard(job.number, None)
            late, job.futures = job.futures, []
        for future in late:
            with suppress(InvalidStateError):
                future.set_result(ending)

    def disconnected(self) -> None:
        """The connection was lost, so all channels are to be opened again; those on which no caller
        waits are forgotten.
        """
        with self.lock:
            self.channels = {
                name: channel for name, channel in self.channels.items() if channel.jobs
            }
            self.new = set(self.channels)
            for channel in self.channels.values():
                channel.closed()

    def fail(self, error: BaseException) -> None:
        """Tell all callers that waiting has failed."""
        with self.lock:
            jobs = [job for channel in self.channels.values() for job in channel.jobs.values()]
            self.channels.clear()
        for job in jobs:
            for future in job.futures:
                with suppress(InvalidStateError):
                    future.set_exception(error)

    def _drop(self, channel: EndingChannel, number: int) -> None:
        channel.unseen.pop(number, None)
        channel.absent.pop(number, None)
        del channel.jobs[number]
        if not channel.jobs:
            channel.idle_since = time.monotonic()
            self.has_idle_channels = True


def closed() -> StoreUnavailable:
    return StoreUnavailable(
        "the client was closed while somebody waited for the end of a job; the job itself goes on, "
        "so ask for its result with another client"
    )
