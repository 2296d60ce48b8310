"""One job, as its sender and its operators see it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.client._async.explaining import explain_job, timed_out
from penstock.client._async.final_check import find_ended
from penstock.client.unawaited import awaited_property
from penstock.codec.attempts import open_error
from penstock.codec.ids import id_text
from penstock.codec.values import open_result
from penstock.connection.transport import AsyncArrivals
from penstock.errors import (
    IllegalMove,
    InvalidArgument,
    JobCancelled,
    JobFailed,
    JobNotFound,
    PenstockError,
)
from penstock.model.job_options import Seconds, check_priority, check_seconds
from penstock.model.jobs import WHY_ABSENT
from penstock.store.commands import job_records

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future
    from typing import Literal

    from penstock.client._async.client import AsyncPenstock
    from penstock.client.results.ending_channel import Ending
    from penstock.model.explanations import Explanation
    from penstock.model.jobs import Attempt, JobInfo, JobState, Priority, Progress
    from penstock.store.keys import QueueKeys

R = TypeVar("R")

_MAX_LINES = 1000


class AsyncJob(Generic[R]):
    """A job by its id. Nothing is read before it is asked for, and nothing is kept."""

    __slots__ = ("_client", "_keys", "_number", "is_new", "open_result", "type")

    def __init__(
        self,
        client: AsyncPenstock,
        keys: QueueKeys,
        number: int,
        type: str,
        is_new: bool = True,
    ) -> None:
        self._client = client
        self._keys = keys
        self._number = number
        self.type = type
        self.open_result: Callable[[bytes], R] = open_result
        """reads its result; the function by which it was sent knows more of that than JSON says"""
        self.is_new = is_new
        """False if a job with the same unique key or id was there already, and this is that one"""

    @property
    def id(self) -> str:
        return id_text(self._number)

    @property
    def queue(self) -> str:
        return self._keys.queue

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AsyncJob)
            and self._number == other._number
            and self._keys is other._keys
        )

    def __hash__(self) -> int:
        return hash(self._number)

    def __repr__(self) -> str:
        return f"<{self.__class__.__name__} {self.id} of queue {self.queue!r}>"

    async def info(self) -> JobInfo:
        """Everything about the job at this instant. Raises JobNotFound."""
        found = await self._client.store.run(job_records.read_jobs(self._keys, [self._number]))
        if found[0] is None:
            raise self._absent()
        return found[0]

    @awaited_property
    async def state(self) -> JobState:
        """The state that the job is in now."""
        return (await self.info()).state

    @awaited_property
    async def progress(self) -> Progress | None:
        """The progress that the job reported last."""
        return (await self.info()).progress

    async def result(self, timeout: Seconds | None = None) -> R:
        """What the job returned; waits until it has ended. With a timeout of 0 it just looks.

        Raises JobFailed if it is dead, JobCancelled, JobNotFound if it was removed, and
        ResultTimeout if it has not ended within `timeout` seconds.
        """
        timeout_s = None if timeout is None else check_seconds("timeout", timeout)
        began_at, ending = time.monotonic(), None
        # A thread reads the end itself; a coroutine that did would block its event loop.
        # sync: ending = self._read(began_at, timeout_s)
        if ending is None:
            left_s = None if timeout_s is None else timeout_s - (time.monotonic() - began_at)
            ending = await self._wait(left_s)
        if ending is None:
            raise await timed_out(self, timeout_s or 0.0)
        if ending.state != "done":
            raise self._failure(ending)
        return self.open_result(ending.outcome)

    async def cancel(self) -> JobState:
        """Cancel it: at once if it waits; if it runs, its worker is told, and it is cancelled when
        the worker has ended it. Returns the state that it is in now.

        Raises IllegalMove if it has ended already.
        """
        words = await self._client.store.run_once(
            lambda operation: job_records.cancel_jobs(self._keys, operation, [self._number])
        )
        if words[0] == "asked":
            return "running"
        self._moved(words[0], "cancelled", "waiting and running jobs can be cancelled")
        return "cancelled"

    async def retry(self) -> JobState:
        """Let a dead or cancelled job run again, with all its attempts."""
        words = await self._client.store.run_once(
            lambda operation: job_records.retry_jobs(self._keys, operation, [self._number])
        )
        if words[0] == "taken":
            raise IllegalMove(
                f"job {self.id} cannot run again, because another job has its unique key by now; "
                "wait until that one has ended, or cancel it"
            )
        self._moved(words[0], "retried", "dead and cancelled jobs can run again")
        return "ready"

    async def remove(self) -> None:
        """Remove it and everything recorded about it. Raises IllegalMove while it runs; cancel it
        first.
        """
        words = await self._client.store.run_once(
            lambda operation: job_records.remove_jobs(self._keys, operation, [self._number])
        )
        self._moved(words[0], "removed", "cancel it first")

    async def promote(self) -> None:
        """Let a scheduled job run now."""
        await self._change("delay", 0)

    async def reschedule(self, delay: Seconds) -> None:
        """Let a waiting job run after this time, counted from now."""
        await self._change("delay", round(check_seconds("delay", delay) * 1000))

    async def reprioritise(self, priority: Priority) -> None:
        """Change how urgent a waiting job is; it goes to the end of its new line."""
        await self._change("priority", check_priority(priority))

    async def attempts(self) -> list[Attempt]:
        """The attempts that did not end well, oldest first; the last 20 are kept."""
        return await self._client.store.run(job_records.read_attempts(self._keys, self._number))

    async def log(self, offset: int = 0, limit: int = 1000) -> list[tuple[float, str]]:
        """Text lines of its log with their times; from the newest if `offset` is negative."""
        if type(offset) is not int or type(limit) is not int or not 1 <= limit <= _MAX_LINES:
            raise InvalidArgument(
                f"offset is {offset!r} and limit is {limit!r}; give 1 to {_MAX_LINES} lines, from "
                "a whole number on"
            )
        command = job_records.read_log(self._keys, self._number, offset, limit)
        return (await self._client.store.run(command))[1]

    async def explain(self) -> Explanation:
        """Why it is not running, or what it is doing."""
        explanation = await explain_job(self._client, self._keys, self._number)
        if explanation is None:
            raise self._absent()
        return explanation

    async def _change(self, change: Literal["delay", "run_at", "priority"], value: int) -> None:
        word, state = await self._client.store.run_once(
            lambda operation: job_records.change_job(
                self._keys, operation, self._number, change, value
            )
        )
        if word == "absent":
            raise self._absent()
        if word == "state":
            raise IllegalMove(
                f"job {self.id} is {state}; when and how urgently it runs can only be changed "
                "while it is scheduled or ready"
            )

    def _read(self, now: float, timeout_s: float | None) -> Ending | None:
        return self._client.results.read_for(self._keys, self._number, now, timeout_s)

    async def _wait(self, timeout_s: float | None) -> Ending | None:
        """How it has ended, if it does in time."""
        future = self._watch()
        arrivals: AsyncArrivals[Ending] = AsyncArrivals()
        arrivals.expect(future)
        try:
            heard = await arrivals.take(None if timeout_s is None else max(0.0, timeout_s))
            ending = None if heard else (await find_ended([self])).get(self)
        finally:
            self._forget(future)
        # If it is not kept, this is all that is known of how it ended.
        return future.result() if future.done() else ending

    def _watch(self) -> Future[Ending]:
        return self._client.results.watch(self._keys, self._number)

    def _forget(self, future: Future[Ending]) -> None:
        self._client.results.forget(self._keys, self._number, future)

    def _failure(self, ending: Ending) -> PenstockError:
        """Why there is no result."""
        if ending.state == "removed":
            return self._absent()
        if ending.state == "cancelled":
            return JobCancelled(f"job {self.id} was cancelled, so it has no result")
        error = open_error(ending.outcome)
        cause = f": {error.type}: {error.message}" if error else ""
        more = "the traceback" if error and error.traceback else "all that is known"
        return JobFailed(
            f"job {self.id} is dead ({ending.reason}){cause}; "
            f"`penstock job show {self.id}` has {more}, "
            f"`penstock job retry {self.id}` runs it again"
        )

    def _moved(self, word: str, wanted: str, hint: str) -> None:
        if word == "absent":
            raise self._absent()
        if word != wanted:
            raise IllegalMove(f"job {self.id} is {word}; {hint}")

    def _absent(self) -> JobNotFound:
        return JobNotFound(f"queue {self.queue!r} has no job {self.id}; {WHY_ABSENT}")
