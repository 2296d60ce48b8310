"""One queue, as a worker serves it: claims tasks, hands them to an executor, reports what came
of them.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import TYPE_CHECKING, Literal, Protocol

from penstock.executors.context import Context
from penstock.store.commands import processes, queues
from penstock.worker.prefetch import TOO_LONG_S, Prefetch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from penstock.client.session import AsyncWorkerSession
    from penstock.connection.store import AsyncStore
    from penstock.model.processes import Claim
    from penstock.model.queues import Side
    from penstock.store.keys import QueueKeys
    from penstock.worker.handlers import Handler

log = logging.getLogger("penstock.worker")

_REPORT_EVERY_S = 0.005
_WORTH_SENDING = 32
_AT_ONCE = 1000
_LEASE_POLL_S = 0.1


class Executor(Protocol):
    """Where handlers run; see penstock.executors."""

    slots: int

    @property
    def moved_at(self) -> float: ...
    @property
    def waiting(self) -> int: ...
    @property
    def load(self) -> int: ...
    def submit(self, contexts: Iterable[Context]) -> None: ...
    def recall(self) -> list[Context]: ...


class WorkerHooks(Protocol):
    """The other feeds of the worker, and what it wants to know."""

    def changed(self) -> None:
        """Something has happened that the worker may be waiting for."""

    def tasks_wait(self) -> None:
        """There are more tasks here than slots."""

    def room_made(self, by: Feed | None = None) -> None:
        """A slot may have become free, for others than `by`."""

    def owed(self, feed: Feed) -> int:
        """How many free slots are for queues that have waited longer for their turn."""

    def work_found(self, feed: Feed) -> None:
        """There are tasks again in a queue that was empty."""


class Feed:
    """Has one request under way at a time: finish what is finished, and start the next, in one
    round trip. While there is much to do, requests are pipelined: the next one is sent before what
    the last one brought is unpacked, so that the store and the worker are busy at the same time.
    """

    kind: Literal["tasks", "jobs"] = "tasks"
    """what the queue holds"""
    at_once = _AT_ONCE
    """how many tasks one request may finish or start: a script must not take long"""

    def __init__(
        self,
        session: AsyncWorkerSession,
        store: AsyncStore,
        keys: QueueKeys,
        handler: Handler,
        executor: Executor,
        max_payload: int,
        hooks: WorkerHooks,
    ) -> None:
        self.queue = keys.queue
        self.keys = keys
        self.worker = session.id
        self.lease = session.lease
        self.handle = handler.function
        self.max_payload = max_payload
        self.is_closed = False
        self.is_accepting = True
        self.is_paused = session.heartbeat.is_paused
        """the worker is to start nothing for now"""
        self.started = 0
        """how many tasks, in the account of whose turn it is"""
        self._was_empty = True
        self.held: dict[int, Context] = {}
        self.finished = self.failed = self.refused = 0
        self._store = store
        self.executor = executor
        self._hooks = hooks
        self._turn = threading.Lock()
        """held while a request of this feed is under way that reports or claims"""
        self._is_put_off = False
        self._must_pause = False
        """something waits until no request is under way"""
        self._turn_ended = asyncio.Event()
        """set when a request has ended that something waits for"""
        self._prefetch = Prefetch(executor.slots)
        self._loop = asyncio.get_running_loop()
        self._signal = asyncio.Event()
        self._is_signalled = False
        self._signalled_at = 0.0
        self._outcomes: deque[Context] = deque()
        self._is_waiting = False
        """the store knows that this worker waits, and wakes it"""
        self._is_woken = False
        """such a wake-up has come and has not been answered yet"""
        self._must_look = False
        """kept apart, as a wake-up can overtake the reply that says that there is nothing"""
        self._is_apart = False
        """what is next must not run beside what this worker holds"""
        self.channels: dict[bytes, Callable[[bytes], None]] = {
            (keys.wake + self.worker).encode(): self.woken,
            keys.cancel.encode(): self.cancel,
            keys.delete.encode(): self.deleted,
        }
        """what this feed listens to"""
        self._coming = 0
        """how many tasks the last request has brought that are not unpacked yet"""
        self._cancelled: list[bytes] = []
        """what was cancelled while a claim was under way that may have started it"""
        self.claimed_at = 0.0
        self._failure: Exception | None = None
        """why nothing more can be done here"""

    # From the executor, in whatever thread it runs.

    def done(self, context: Context) -> None:
        if self.is_closed or self.lease.is_lost:
            # Its task is somebody else's by now, or about to be: nothing may be said about it.
            self._tell(self._hooks.room_made)
            return
        self._outcomes.append(context)
        now = perf_counter()
        is_running_dry = self.executor.waiting <= len(self._outcomes) // 2
        if not self._is_signalled and (
            is_running_dry or now - self._signalled_at > _REPORT_EVERY_S
        ):
            self._is_signalled = True
            self._signalled_at = now
            self._tell(self._signal.set)

    def _tell(self, act: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the worker has ended meanwhile, and its loop with it
            self._loop.call_soon_threadsafe(act)

    # From the worker, on its event loop.

    async def serve(self) -> None:
        """Claim and report until the feed is closed."""
        self._signal.set()
        while not self.is_closed:
            await self._signal.wait()
            self._signal.clear()
            self._is_signalled = False
            if self._failure is not None:
                raise self._failure
            self._is_put_off = True
            if not self._turn.acquire(blocking=False):
                continue  # whoever has the turn sees that it was put off, and gives the signal
            self._is_put_off = False
            try:
                await self._exchange()
            finally:
                self._turn.release()
                self._turn_ended.set()
            self._cancelled.clear()
            if not self.is_accepting:
                self._hooks.changed()

    def woken(self, message: bytes = b"") -> None:
        """There may be work."""
        self._is_woken = True
        self.look()

    def look(self) -> None:
        """See whether there is work, in case a wake-up was missed."""
        self._must_look = True
        self._signal.set()

    def look_again(self) -> None:
        """Called from time to time, in case a message was lost."""
        self.look()

    def resubscribed(self) -> None:
        """The subscription is new: whatever was said before it is missed."""
        self.look()

    def report(self) -> None:
        """Report what is done, if it was held back to go with tasks that now take longer."""
        if self._outcomes:
            self._signal.set()

    def cancel(self, message: bytes) -> None:
        """Tell the handlers of a task that the result is of no use any more."""
        if self._turn.locked():
            self._cancelled.append(message)
        last_process, _, task = message.partition(b" ")
        for context in self.held.values():
            # An equal task that was started later is not meant.
            if context.task == task and context.token <= int(last_process):
                context.cancel()

    def deleted(self, message: bytes) -> None:
        """Tell the handlers of all tasks that were started before the queue was deleted."""
        last_process = int(message.split()[1])
        for context in self.held.values():
            if context.token <= last_process:
                context.cancel()

    def nudge(self) -> None:
        """A slot has become free that this queue may have waited for."""
        if self.wants_work and self.room() > 0:
            self._signal.set()

    @property
    def wants_work(self) -> bool:
        """Whether there may be tasks to claim."""
        return self.is_accepting and (self._must_look or not self._is_waiting)

    async def stop_accepting(self) -> None:
        """Start nothing more, and let others have what was meant for this worker."""
        self.is_accepting = False
        await self._pass_work()

    @asynccontextmanager
    async def between_requests(self) -> AsyncIterator[None]:
        """Nothing is claimed meanwhile. What a request under way brings would run before what is
        given back, though it came after that in the queue.
        """
        self._must_pause = True
        while True:
            self._turn_ended.clear()
            if self._turn.acquire(blocking=False):
                break
            await self._turn_ended.wait()
        try:
            yield
        finally:
            self._must_pause = False
            self._turn.release()
            self._turn_ended.set()
            self._signal.set()

    async def give_back(self, contexts: list[Context]) -> None:
        """Return tasks that were not begun to the front of the queue."""
        tokens = [context.token for context in contexts]
        for token in tokens:
            self.held.pop(token, None)
        if tokens:
            await self._give_back(tokens, "front")

    def close(self) -> None:
        """The tasks still held are this worker's no more; whatever comes of them is dropped."""
        self.is_closed = True
        self.held.clear()
        self._signal.set()

    @property
    def is_stalled(self) -> bool:
        """Tasks wait behind one that takes long."""
        executor = self.executor
        return executor.waiting > 0 and perf_counter() - executor.moved_at > TOO_LONG_S

    def stalled(self) -> None:
        self._prefetch.stalled()

    @property
    def load(self) -> int:
        """Tasks held and not done."""
        return max(0, len(self.held) - len(self._outcomes))

    def pause(self, is_paused: bool) -> None:
        """Start nothing for now, or go on."""
        self.is_paused = is_paused
        if is_paused:
            self._is_woken = True  # so that a wake-up on its way is passed on
        self.look()

    def room(self) -> int:
        if not self.is_accepting or self.is_paused or self.is_closed or not self.lease.is_valid:
            return 0
        room = self.executor.slots + self._prefetch.ahead - self.executor.load - self._coming
        if room <= 0 and self.executor.waiting and not self.held:
            # Other queues hold tasks ahead; this one gets its turn behind them.
            return 1
        return max(0, room)

    @property
    def is_done(self) -> bool:
        """Nothing is held and everything has been reported."""
        return not self.held and not self._outcomes and not self._turn.locked()

    async def _exchange(self) -> None:
        found = await self._request()
        while found is not None:
            claim, limit = found
            is_worth_pipelining = claim.size >= limit and len(self._outcomes) >= _WORTH_SENDING
            if not is_worth_pipelining or self._must_pause:
                await self._begin(claim, limit)
                break
            self._coming = claim.size
            following = asyncio.create_task(self._request())
            try:
                await asyncio.sleep(0)  # so that it is on its way
                self._coming, known = 0, len(self._cancelled)
                await self._begin(claim, limit)
                del self._cancelled[:known]
                found = await following
            finally:
                following.cancel()
        self._hooks.room_made(self)
        if not self.lease.is_valid and not self.is_closed:
            # Claiming goes on as soon as the heartbeat has got through again.
            self._loop.call_later(_LEASE_POLL_S, self._signal.set)

    async def _request(self) -> tuple[Claim, int] | None:
        """Say what is finished and ask for more, if there is reason to: what came of it, and how
        much was asked for.
        """
        outcomes = self._take_outcomes()
        finished = await self._report_apart(outcomes)
        limit = min(max(0, self.room() - self._hooks.owed(self)), self.at_once)
        if self._is_woken and limit == 0 and not self.is_closed:
            await self._pass_work()
            self._is_waiting = False
        self._is_woken = False
        if not finished and (limit == 0 or not self.wants_work):
            return None
        if limit > 0:
            self._must_look = False
            self.claimed_at = self._loop.time()
        claim = await self._claim(finished, limit)
        self._refuse(claim.refused)
        self._count(finished, claim.refused)
        return claim, limit

    def _count(self, reported: list[Context], refused: list[int]) -> None:
        self.finished += len(reported) - len(refused)

    def _take_outcomes(self) -> list[Context]:
        outcomes: list[Context] = []
        total_s = 0.0
        pop = self._outcomes.popleft
        for _ in range(min(len(self._outcomes), self.at_once)):
            context = pop()
            total_s += context.took_s
            outcomes.append(context)
            self.held.pop(context.token, None)
        if outcomes:
            self._prefetch.observe(len(outcomes), total_s)
            if self._outcomes:
                self._signal.set()
            if self._is_apart:
                self._is_apart = self._is_waiting = False
        if self.is_closed or self.lease.is_lost:
            return []
        return outcomes

    async def _claim(self, finished: list[Context], limit: int) -> Claim:
        if not finished:
            return await self._store.run_once(
                lambda o: processes.start_tasks(self.keys, o, self.worker, limit, wait=True)
            )
        tokens = [context.token for context in finished]
        results: list[bytes] = []
        if any(context.result for context in finished):
            results = [context.result for context in finished]
        return await self._store.run_once(
            lambda o: processes.finish_tasks(
                self.keys, o, self.worker, tokens, results, limit, wait=limit > 0
            )
        )

    async def _begin(self, claim: Claim, limit: int) -> None:
        if claim.word == "not_working" and not self.is_closed:
            self.lease.lose()
            self._hooks.changed()
        contexts = self._contexts(claim)
        self.held.update((context.token, context) for context in contexts)
        self._cancel_early(contexts)
        if not self.is_accepting:
            # Asked for before the worker was told to stop.
            await self.give_back(contexts)
            return
        self._start(contexts)
        if limit:
            self._is_waiting = self._was_empty = len(contexts) < limit
            self._is_apart = claim.word == "apart"
            if not self._is_waiting and self.room() > self.executor.slots // 2:
                # There was as much as was asked for, so there may be more, and room for it already.
                self._signal.set()

    def _cancel_early(self, contexts: list[Context]) -> None:
        """Tell those that were cancelled before they were known here."""
        for message in self._cancelled:
            self.cancel(message)

    def _start(self, contexts: list[Context]) -> None:
        if contexts and self._was_empty:
            self._hooks.work_found(self)
        self.started += len(contexts)
        executor = self.executor
        # Before the threads have them, as all that is done afterwards keeps these from beginning.
        if self._outcomes or executor.load + len(contexts) > executor.slots:
            self._hooks.tasks_wait()
        executor.submit(contexts)

    def _contexts(self, claim: Claim) -> list[Context]:
        return [
            Context(self, process, task)
            for process, task in enumerate(claim.tasks, claim.first_process)
        ]

    async def _pass_work(self) -> None:
        await self._store.run(queues.pass_work(self.keys, self.worker))

    async def _report_apart(self, outcomes: list[Context]) -> list[Context]:
        """Report what cannot go with the next claim; returns what can."""
        finished = [context for context in outcomes if context.outcome == "finished"]
        if len(finished) < len(outcomes):
            await self._report_others(outcomes)
        return finished

    async def _report_others(self, outcomes: list[Context]) -> None:
        failed = [context for context in outcomes if context.outcome == "failed"]
        if failed:
            tokens = [context.token for context in failed]
            answer = await self._store.run_once(
                lambda o: processes.fail_tasks(self.keys, o, self.worker, tokens)
            )
            self._refuse(answer.refused)
            self.failed += len(failed) - len(answer.refused)
            if answer.dead:
                log.error("tasks died queue=%s count=%d", self.queue, answer.dead)
        sides: tuple[Side, ...] = ("front", "back")
        for side in sides:
            stopped = [c for c in outcomes if c.outcome == "stopped" and c.side == side]
            if stopped:
                tokens = [context.token for context in stopped]
                await self._give_back(tokens, side)

    async def _give_back(self, tokens: list[int], side: Side) -> None:
        refused = await self._store.run_once(
            lambda o: processes.stop_tasks(self.keys, o, self.worker, tokens, side)
        )
        self._refuse(refused)

    def _refuse(self, refused: list[int]) -> None:
        if refused:
            self.refused += len(refused)
            log.warning(
                "results refused, the tasks had been taken away queue=%s worker=%s count=%d",
                self.queue,
                self.worker,
                len(refused),
            )
