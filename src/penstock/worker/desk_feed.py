"""One queue of jobs that all run in threads, as a worker serves it that has no other.

Jobs that are handed over come in at a desk. The thread that hears of one runs and reports it, and
the event loop has no part in it. Everything else is seen to by the loop, as in any feed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.codec.handed_out import open_handed_over
from penstock.errors import PenstockError
from penstock.worker.desk import Desk
from penstock.worker.job_feed import JobFeed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.client.client import AsyncPenstock
    from penstock.client.functions import JobFunction
    from penstock.client.session import AsyncWorkerSession
    from penstock.executors.context import Context
    from penstock.executors.job_context import JobContext
    from penstock.executors.threads import ThreadExecutor
    from penstock.model.jobs import JobClaim
    from penstock.store.keys import QueueKeys
    from penstock.worker.feed import WorkerHooks


class DeskFeed(JobFeed):
    """What two threads share is `held`, under `_taking`; the turn to send a request; and flags,
    each written in one step.
    """

    def __init__(
        self,
        session: AsyncWorkerSession,
        client: AsyncPenstock,
        keys: QueueKeys,
        functions: Mapping[str, JobFunction[..., Any]],
        backoffs: Mapping[str, Callable[[int], float]],
        threads: ThreadExecutor,
        hooks: WorkerHooks,
    ) -> None:
        super().__init__(
            session, client, keys, functions, backoffs, threads, hooks, takes_unasked=True
        )
        del self.channels[self._hand]  # it is heard at the desk instead
        settings = replace(client.settings, dialect=client.store.dialect)
        self._desk = Desk(
            settings, keys, self.worker, self._take_here, self._desk_opened, self._fail
        )
        self._from_desk: JobContext | None = None
        """the job that came in there last"""
        self._threads = threads
        threads.attend(self._desk)

    # From the thread at the desk.

    def _take_here(self, message: bytes) -> JobContext | None:
        """What the thread is to run."""
        try:
            job = open_handed_over(message)
        except Exception as error:
            self._not_understood(error)
            return None
        context = self._hold(job)
        if context is None:
            return None
        if not self.is_accepting:
            self._tell(lambda: self._run_in_background(self.give_back([context])))
            return None
        self._from_desk = context
        if self.executor.waiting or self._turn.locked():
            self._tell(self._hooks.tasks_wait)  # behind this one, as nobody could foresee
        if self._use_offer() and self.executor.slots > 1 and self.room() > 1:
            self._tell(self._nudge_soon)
        return context

    def _desk_opened(self) -> None:
        self._tell(self.look_again)

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._tell(self._signal.set)

    def done(self, context: Context) -> None:
        last = self._from_desk
        if last is None or context is not last or not self._report_here(last):
            super().done(context)

    def _report_here(self, context: JobContext) -> bool:
        """Report a job that came in at the desk, and wait for the next, if there is nothing else
        to be said or seen to. False: the loop has to do it.
        """
        if context.outcome != "done":
            return False
        self._from_desk = None
        if not self._turn.acquire(blocking=False):
            return False
        if not self._is_all(context):
            self._end_turn()
            return False
        limit = min(self.executor.slots + self._prefetch.ahead, self.at_once)
        self.held.pop(context.token, None)
        self._offered = self._offer = 1
        try:
            claim = self._desk.report(context, limit)
        except Exception:
            # The loop gets the same answer, and knows what to make of it. If it was only the answer
            # that was lost, jobs may have come with it.
            self._must_review = True
            self.held[context.token] = context
            self._end_turn()
            return False
        self._prefetch.observe(1, context.took_s)
        self.finished += 1
        if claim is None:
            self._is_waiting = self._was_empty = True
            self._is_apart = False
            self._check_offer()
            self._end_turn()
        else:
            self._tell(lambda: self._run_in_background(self._see_to(claim, limit)))
        return True

    def _is_all(self, context: JobContext) -> bool:
        """Whether this outcome is all that there is to say, and nothing else is to be done."""
        if context.lines or context.new_progress or context in self._noting:
            return False
        if self._outcomes or len(self.held) > 1 or self.executor.load:
            return False
        if self._must_look or self._is_woken or self._must_review or self._alarm is not None:
            return False
        is_stopping = not self.is_accepting or self.is_paused or self.is_closed
        return not is_stopping and self.lease.is_valid

    def _end_turn(self) -> None:
        """Called by whoever ends it: the turn of a thread may end on the loop."""
        self._turn.release()
        if self._must_pause:
            self._tell(self._turn_ended.set)
        if self._is_put_off or not self.is_accepting:
            self._tell(self._signal.set)

    # From the worker, on its event loop.

    async def _see_to(self, claim: JobClaim, limit: int) -> None:
        """What the answer to a report from the desk has brought."""
        try:
            self._refuse(claim.refused)
            self.finished -= len(claim.refused)
            await self._begin(claim, limit)
        except PenstockError as error:
            self._fail(error)
        finally:
            self._end_turn()

    def close(self) -> None:
        super().close()
        self._threads.dismiss(self._desk)
