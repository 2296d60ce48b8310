"""What a worker knows about one queue, and what it asks for next.

One machine in one file, though a long one: what happens, what follows and what is known belong
side by side.

A feed is a plain state machine. A driver tells it what happened, with the time, and asks it for
the next step: a request to send, work to begin, work to cancel, schedules to fire. It knows no
event loop, no store and no thread. The drivers are `pump.py` (the event loop), `handoff.py` (a
thread that waits for jobs), `penstock.testing` and the simulation.
"""

from __future__ import annotations

import logging
from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from penstock.worker.budget import Budget
from penstock.worker.cancellations import Cancellations
from penstock.worker.delays import Delays
from penstock.worker.notes import Notes
from penstock.worker.offers import Offers
from penstock.worker.prefetch import Prefetch
from penstock.worker.source import NOTHING_TOLD, Begin, Cancel, Cancelled, Fire, Request
from penstock.worker.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.executors.context import Context
    from penstock.model.claims import Claim
    from penstock.worker.source import Source, Step

log = logging.getLogger("penstock.worker")

_WORTH_PIPELINING = 32
_LEASE_POLL_S = 0.1
_ROOM_AFTER_S = 0.002
_FIRE_AGAIN_S = 1.0


class Slots(Protocol):
    """Where work runs, as far as a feed has to know it."""

    @property
    def slots(self) -> int: ...
    @property
    def load(self) -> int:
        """what waits or runs there, from all queues"""

    @property
    def waiting(self) -> int:
        """what was not begun yet"""


class Feed:
    """Each call is short. Drivers in several threads share one lock, and hold it in every call.

    One request reports and claims at a time. A second one follows before the work that the first
    has brought is unpacked, if there is much to report: then the store and the worker are busy at
    the same time. Requests that neither report nor claim go beside these.
    """

    def __init__(
        self,
        source: Source,
        slots: Slots,
        *,
        is_paused: bool = False,
        prefetches: bool = True,
        budget: Budget | None = None,
    ) -> None:
        self.source = source
        self.slots = slots
        self.lease = source.lease
        self.held: dict[int, Context] = {}
        """by process; also what is done and not reported yet"""
        self.outcomes: deque[Context] = deque()
        """what is done and not reported yet; a driver adds to it without the lock, as a deque takes
        that in one step and a slot must not wait
        """
        self.totals = Totals()
        self.started = 0
        """how much, in the account of the order of queues"""
        self.claimed_at = 0.0
        self.is_accepting = True
        self.is_paused = is_paused
        """the worker is to start nothing for now"""
        self.is_held_back = False
        """no claim may be under way, as work is to go back to the front of the queue"""
        self.is_holding = False
        """the source wants nothing for now, so no slot is kept for it"""
        self._budget = budget or Budget()
        """what all feeds of the worker may still start"""
        self._prefetch = Prefetch(slots.slots, prefetches)
        self._wait = _Wait()
        self._exchange = _Exchange()
        self._cancellations = Cancellations()
        self._offers = Offers(source.takes_pushed)
        self._notes = Notes()
        self._delays = Delays()
        """what has failed and is held for a while; it is still in `held`"""
        self._steps: deque[Step] = deque()
        """what is to be done apart from reports and claims"""
        self._timers: dict[str, float] = {}

    # What happened.

    def woken(self, now: float) -> None:
        """There may be work."""
        self._wait.is_woken = True
        self.look(now)

    def look(self, now: float) -> None:
        """See whether there is work, in case a wake-up was missed."""
        self._wait.must_look = True
        self._exchange.is_due = True

    def look_again(self, now: float) -> None:
        """The same, and look for work whose message was missed; due from time to time."""
        self._offers.must_review = self.source.takes_pushed
        self.look(now)

    def resubscribed(self, now: float) -> None:
        """The subscription is new: whatever was said before it is missed."""
        self.look_again(now)
        self._ask(self.source.find_cancelled())

    def report(self, now: float) -> None:
        """Work has ended, and is in `outcomes`: report it now, not when there is more of it."""
        self._exchange.is_due = True

    def noted(self, context: Context, now: float) -> None:
        """Running work has said something about itself, which is written down soon."""
        self._notes.noted(context, now)

    def pushed(self, context: Context, now: float, is_missed: bool = False) -> bool:
        """Work was handed over unasked. True: the driver begins it; else it is known already, or
        goes back.
        """
        if self.is_closed or self.lease.is_lost:
            return False  # the worker that recovers this one gives it back
        if context.token in self.held or not self._offers.is_news(context.token):
            return False
        self.held[context.token] = context
        if is_missed:
            self._offers.settled([context.token])
        self._cancellations.apply([context])
        if not self.is_accepting:
            self._ask(self.give_back([context]))
            return False
        self._offers.used()
        if self._offers.is_over:
            self._wait.is_waiting = False
            if self.slots.slots > 1 and self.room() > 1:
                # What was pushed may be done, and be reported, before more is worth a request.
                self._timers["room"] = now + _ROOM_AFTER_S
        return True

    def cancelled(self, cancelled: Cancelled) -> None:
        """Work is to end: one process, a task, or all that a deleted queue had started."""
        is_asking = self._exchange.request is not None or self._exchange.answer is not None
        # First, as work that comes later looks for it there.
        self._cancellations.add(cancelled, is_asking)
        for context in self._delays.cancelled(cancelled):
            self.source.drop(context)
            self._say(context)
        self._cancel([c for c in self.held.values() if cancelled.includes(c)])

    def paused(self, is_paused: bool, now: float) -> None:
        """Start nothing for now, or go on."""
        self.is_paused = is_paused
        if is_paused:
            self._wait.is_woken = True  # so that a wake-up on its way is passed on
        self.look(now)

    def stopping(self) -> Request | None:
        """Start nothing more. The request lets others have what was meant for this worker."""
        self.is_accepting = False
        self._exchange.is_due = True
        self._retry(inf)
        return self.source.pass_on(is_busy=False)

    def room_made(self, now: float) -> None:
        """A slot has become free that this queue may have waited for."""
        if self.wants_work and self.room() > 0:
            self._exchange.is_due = True

    def stalled(self) -> None:
        """Work had to be given back because what was before it took too long."""
        self._prefetch.stalled()

    def hold_back(self) -> None:
        """Claim nothing until `go_on`. What a request under way brings would run before what is
        given back, though it came after that in the queue.
        """
        self.is_held_back = True

    def go_on(self, now: float) -> None:
        self.is_held_back = False
        self._exchange.is_due = True

    def fired(self, has_sent: bool, now: float) -> None:
        """Schedules were fired. If none has sent anything, another worker was first, or they cannot
        be fired and would be named again at once.
        """
        if has_sent:
            self.woken(now)
        else:
            self._timers["fire"] = now + _FIRE_AGAIN_S

    def answered(self, request: Request, answer: Any, now: float) -> None:
        """The answer to a request has come."""
        if request.purpose == "find_cancelled":
            for process in answer:
                self.cancelled(Cancelled(process))
            return
        claim: Claim[Any] = request.read(answer) if request.read else answer
        if request is self._exchange.request:
            self._exchange.request = None
        self._count(request, claim)
        match request.purpose:
            case "claim":
                self._exchange.answer = claim, request
            case "ask_delays":
                self._hold(request.contexts, claim.found, now)
            case "note":
                self._notes.written(request.contexts[0], now)
            case "pass_on":
                self._look_at(claim.wait_ms, now)
                self._fire(claim)
            case "find_pushed":
                self._begin_missed(claim, now)

    def unanswered(self, request: Request, now: float) -> None:
        """A request has failed: what it was to report is still to be said. If only the answer was
        lost, work may have come with it.
        """
        if request.purpose == "note":
            self._notes.written(request.contexts[0], now)
        if request is self._exchange.request:
            self._exchange.request = None
            self.held.update((context.token, context) for context in request.contexts)
            self.outcomes.extendleft(reversed(request.contexts))
            self._offers.must_review = self.source.takes_pushed
            self._exchange.is_due = True

    def close(self) -> None:
        """The work still held is this worker's no more; whatever comes of it is dropped."""
        self.source.close(self.held.values())
        self.held.clear()
        self._delays.clear()
        self._steps.clear()
        self._timers.clear()

    # What to do next.

    def next(self, now: float, owed: int = 0) -> Step | None:
        """The next thing to do; to be asked until it is None, and again whenever something has
        happened or `wake_at` has come. `owed`: how many free slots belong to queues that go before
        this one.
        """
        if self.is_closed:
            return None
        self._pass_timers(now)
        while True:
            if self._steps:
                return self._steps.popleft()
            exchange = self._exchange
            if exchange.answer is not None and (
                exchange.request is not None or not self._is_worth_pipelining()
            ):
                self._open(now)
            elif exchange.request is not None or self.is_held_back:
                return None
            else:
                request = self._next_request(now, owed)
                if request is None and exchange.answer is None:
                    if exchange.is_due and exchange.reporting is None:
                        continue  # what was asked meanwhile has given a reason for another one
                    return None
                if request is not None:
                    exchange.request = request
                    return request
                self._open(now)

    @property
    def wake_at(self) -> float:
        """When to ask for the next step, if nothing happens before."""
        timer_at = min(self._timers.values(), default=inf)
        return min(timer_at, self._notes.due_at, self._delays.due_at)

    def report_alone(self, context: Context, now: float) -> Request | None:
        """A request that reports this one outcome and waits for the next, if nothing else is to be
        said or done; for a driver that runs work by itself.
        """
        wait, exchange = self._wait, self._exchange
        is_busy = len(self.held) > 1 or self.outcomes or self.slots.load or self._steps
        is_told = exchange.is_due or wait.must_look or wait.is_woken or self._offers.must_review
        is_asking = exchange.request is not None or exchange.answer is not None
        is_stopping = not self.is_accepting or self.is_paused or self.is_held_back
        is_time_set = self._timers.keys() - {"room"}  # the request asks for as much as has room
        if is_busy or is_told or is_asking or is_stopping or is_time_set:
            return None
        has_more_to_say = self._notes.has(context) or self.source.has_note(context)
        if has_more_to_say or self.is_closed or not self.lease.is_valid:
            return None
        self._timers.pop("room", None)
        self.outcomes.append(context)
        return self._next_claim(self._take_outcomes(), self._most(), now)

    def give_back(self, contexts: list[Context]) -> Request | None:
        """Return work that was not begun to its old place; None if nothing need be said of it."""
        tokens = [context.token for context in contexts]
        self._budget.put_back(len(tokens))
        for token in tokens:
            self.held.pop(token, None)
        self._offers.settled(tokens)
        return self.source.give_back(contexts)

    # What others see.

    @property
    def queue(self) -> str:
        return self.source.queue

    @property
    def is_closed(self) -> bool:
        return self.source.is_closed

    @property
    def wants_work(self) -> bool:
        """Whether there may be something to claim."""
        return self.is_accepting and (self._wait.must_look or not self._wait.is_waiting)

    @property
    def load(self) -> int:
        """How much is held and not done."""
        return max(0, len(self.held) - len(self.outcomes))

    @property
    def contexts(self) -> list[Context]:
        """Those that it knows of: held, or being reported."""
        request = self._exchange.request
        reported = [*(self._exchange.reporting or ()), *(request.contexts if request else ())]
        return [*self.held.values(), *reported]

    @property
    def processes(self) -> set[int]:
        """The same, by their numbers."""
        return {context.token for context in self.contexts}

    @property
    def asking(self) -> Request | None:
        """The report or claim that is under way."""
        return self._exchange.request

    @property
    def has_steps(self) -> bool:
        """Something is to be done apart from reports and claims."""
        return bool(self._steps)

    @property
    def has_unopened(self) -> bool:
        """Work has come that is not unpacked yet."""
        return self._exchange.answer is not None

    @property
    def is_between_requests(self) -> bool:
        """Nothing is being claimed, and everything that came is unpacked."""
        return self._exchange.request is None and self._exchange.answer is None

    @property
    def is_done(self) -> bool:
        """Nothing is held and everything has been reported."""
        unsaid = self.outcomes or self._exchange.reporting or self._exchange.apart
        return not self.held and not unsaid and self.is_between_requests

    def room(self, owed: int = 0) -> int:
        """How much more may be held, if so many free slots are left to others."""
        if not self.is_accepting or self.is_paused or self.is_closed or not self.lease.is_valid:
            return 0
        coming = self._exchange.coming
        room = self._most() - self.slots.load - coming
        if room <= 0 and self.slots.waiting and len(self.held) == len(self._delays):
            # Other queues hold work ahead; this one gets its turn behind them.
            room = 1
        room -= owed
        if self.source.most_held is not None:
            room = min(room, self.source.most_held - len(self.held) - coming)
        return max(0, min(room, self._budget.left))

    def _most(self) -> int:
        return self.slots.slots + self._prefetch.ahead

    # Reports and claims.

    def _next_request(self, now: float, owed: int) -> Request | None:
        """What goes next of: a look for missed work, reports that go before a claim, a wake-up to
        pass on, the claim with the other reports.
        """
        exchange, wait = self._exchange, self._wait
        if exchange.reporting is None:
            if not exchange.is_due and exchange.answer is None:
                return None
            # Not while something is unopened, which would seem to be missed.
            if self._offers.must_review and exchange.answer is None:
                self._offers.must_review = False
                return self.source.find_pushed(list(self.held))
            exchange.is_due = False
            exchange.reporting = self._take_outcomes()
            exchange.is_prepared = False
        if not exchange.is_prepared:
            if self._notes.is_any_being_written(exchange.reporting):
                return None  # what a job has said goes before its end
            self._notes.forget(exchange.reporting)
            outcomes = exchange.reporting
            requests, exchange.reporting = self.source.report_apart(outcomes)
            if outcomes and not requests and not exchange.reporting:
                self.totals = self.totals.plus(*self.source.told(outcomes, []), 0)
            for request in requests:
                if request.purpose == "ask_delays":
                    # Not over yet; it can be cancelled meanwhile.
                    self.held.update((context.token, context) for context in request.contexts)
            exchange.apart.extend(requests)
            exchange.is_prepared = True
        if exchange.apart:
            return exchange.apart.popleft()
        limit = min(self.room(owed), self.source.at_once)
        self.is_holding = now < self.source.holds_until
        if self.is_holding:
            limit = 0
            self._timers["held"] = self.source.holds_until
        if wait.is_woken:
            wait.is_woken = False
            if limit == 0:
                wait.is_waiting = False
                is_busy = not self.is_paused and self.is_accepting
                if (passed_on := self.source.pass_on(is_busy)) is not None:
                    return passed_on
        reported, exchange.reporting = exchange.reporting, None
        if not reported and (limit == 0 or not self.wants_work):
            self._poll_lease(now)
            return None
        return self._next_claim(reported, limit, now)

    def _next_claim(self, reported: list[Context], limit: int, now: float) -> Request:
        limit = min(limit, self.source.at_once)
        if limit > 0:
            self._wait.must_look = False
            self.claimed_at = now
        # None while something runs: work can keep the loop, or all threads, from moving, and what
        # is pushed then would wait although others have time.
        is_idle = self.load == 0 and self._exchange.coming == 0 and self.slots.load == 0
        offer = self._offers.make(is_idle and limit > 0)
        self._budget.take(limit)
        request = self.source.claim(reported, limit, offer)
        self._cancellations.asked()
        self._exchange.request = request
        return request

    def _take_outcomes(self) -> list[Context]:
        if self.lease.is_lost:
            return []  # they stay, as the worker still says what it held
        outcomes: list[Context] = []
        total_s = 0.0
        pop = self.outcomes.popleft
        for _ in range(min(len(self.outcomes), self.source.at_once)):
            context = pop()
            total_s += context.took_s
            outcomes.append(context)
            self.held.pop(context.token, None)
        if outcomes:
            self._prefetch.observe(len(outcomes), total_s)
            if self.outcomes:
                self._exchange.is_due = True
            if self._wait.is_apart:
                self._wait.is_apart = self._wait.is_waiting = False
        return outcomes

    def _is_worth_pipelining(self) -> bool:
        """There was as much as was asked for, and there is much to report again."""
        assert self._exchange.answer is not None
        claim, request = self._exchange.answer
        is_full = request.limit > 0 and claim.size >= request.limit
        return is_full and len(self.outcomes) >= _WORTH_PIPELINING and not self.is_held_back

    def _open(self, now: float) -> None:
        """Unpack what the last answer has brought."""
        assert self._exchange.answer is not None
        claim, request = self._exchange.answer
        self._exchange.answer = None
        if claim.word == "not_working":
            self.lease.lose()
        contexts = self.source.contexts(claim.found, claim.first_process) if claim.found else []
        self._budget.put_back(request.limit - len(contexts))
        self.held.update({context.token: context for context in contexts})
        self._cancellations.apply(contexts)
        self._cancellations.opened(is_asking=self._exchange.request is not None)
        if contexts and not self.is_accepting:
            # Asked for before the worker was told to stop.
            self._ask(self.give_back(contexts))
        elif contexts:
            self._begin(contexts)
        self._fire(claim)
        self._poll_lease(now)
        if request.limit:
            self._read_wait(claim, request.limit, len(contexts), now)

    def _read_wait(self, claim: Claim[Any], limit: int, count: int, now: float) -> None:
        """Whether the store will wake this worker, according to its answer."""
        wait = self._wait
        wait.is_waiting = wait.was_empty = count < limit
        wait.is_apart = claim.word == "apart"
        if not wait.is_waiting and self.room() - count > self.slots.slots // 2:
            # There was as much as was asked for, so there may be more, and room for it already.
            self._exchange.is_due = True
        if wait.is_waiting and self._offers.was_used:
            # What was pushed before the answer came ended the wait.
            wait.is_waiting = False
            self._timers["room"] = now + _ROOM_AFTER_S
        self._look_at(claim.wait_ms, now)
        if claim.wait_ms == 0:
            wait.is_waiting = False
            self._exchange.is_due = True

    # Failed work that is held.

    def _hold(self, contexts: Sequence[Context], delays_s: Sequence[float], now: float) -> None:
        for context, delay_s in zip(contexts, delays_s, strict=True):
            if context.cancelled:
                self.source.drop(context)
                self._say(context)
            else:
                self._delays.add(context, now + delay_s)
        # A worker that stops holds nothing for longer than it has to.
        self._retry(now if self.is_accepting else inf)

    def _retry(self, now: float) -> None:
        for context in self._delays.due(now):
            self.source.retry(context)
            self._say(context)

    def _say(self, context: Context) -> None:
        self.outcomes.append(context)
        self._exchange.is_due = True

    # The rest.

    def _begin(self, contexts: list[Context]) -> None:
        self.started += len(contexts)
        self._steps.append(Begin(contexts, self._wait.was_empty))

    def _begin_missed(self, claim: Claim[Any], now: float) -> None:
        contexts = self.source.contexts(claim.found, claim.first_process)
        missed = [context for context in contexts if self.pushed(context, now, is_missed=True)]
        if missed:
            log.warning("found jobs that were missed queue=%s count=%d", self.queue, len(missed))
            self._begin(missed)
            self._ask(self.source.find_cancelled())

    def _count(self, request: Request, claim: Claim[Any]) -> None:
        refused, told = claim.refused, NOTHING_TOLD
        if request.purpose in ("claim", "report") and request.contexts:
            told = self.source.told(request.contexts, refused)
        self.totals = self.totals.plus(*told, len(refused))
        if refused:
            log.warning(
                "results refused, the tasks had been taken away queue=%s worker=%s count=%d",
                self.queue,
                self.source.worker,
                len(refused),
            )

        for id in claim.damaged:
            log.error(
                "job could not be read and was set aside, `penstock fsck` says what is left of it "
                "queue=%s job=%s",
                self.queue,
                id,
            )

    def _cancel(self, contexts: list[Context]) -> None:
        if contexts:
            self._steps.append(Cancel(contexts))

    def _fire(self, claim: Claim[Any]) -> None:
        if claim.schedules:
            self._steps.append(Fire(claim.schedules))

    def _ask(self, request: Request | None) -> None:
        if request is not None:
            self._steps.append(request)

    def _look_at(self, wait_ms: int, now: float) -> None:
        self._timers.pop("alarm", None)
        if wait_ms > 0:
            self._timers["alarm"] = now + wait_ms / 1000

    def _poll_lease(self, now: float) -> None:
        """Claiming goes on as soon as the heartbeat has got through again."""
        if not self.lease.is_valid and not self.lease.is_lost:
            self._timers["lease"] = now + _LEASE_POLL_S

    def _pass_timers(self, now: float) -> None:
        for name in [name for name, at in self._timers.items() if at <= now]:
            del self._timers[name]
            if name in ("alarm", "fire"):
                self.woken(now)
            elif name == "held":
                self.look(now)
            elif name == "lease":
                self._exchange.is_due = True
            else:
                self.room_made(now)
        self._retry(now)
        for context in self._notes.due(now):
            note = self.source.note(context) if context.token in self.held else None
            if note is not None:
                self._notes.being_written(context)
                self._steps.append(note)


class _Wait:
    """What the store knows of this worker's wait, and what has come of it."""

    __slots__ = ("is_apart", "is_waiting", "is_woken", "must_look", "was_empty")

    def __init__(self) -> None:
        self.is_waiting = False
        """the store knows that this worker waits, and wakes it"""
        self.is_woken = False
        """such a wake-up has come and has not been answered yet"""
        self.must_look = True
        """kept apart, as a wake-up can overtake the reply that says that there is nothing"""
        self.is_apart = False
        """what is next must not run beside what this worker holds"""
        self.was_empty = True


class _Exchange:
    """Reports and the claim that follows them."""

    __slots__ = ("answer", "apart", "is_due", "is_prepared", "reporting", "request")

    def __init__(self) -> None:
        self.is_due = True
        """there is a reason for one"""
        self.reporting: list[Context] | None = None
        """what this one reports; None: it has not begun"""
        self.is_prepared = False
        """`apart` has what goes before the claim"""
        self.apart: deque[Request] = deque()
        self.request: Request | None = None
        """what is under way of it"""
        self.answer: tuple[Claim[Any], Request] | None = None
        """what the last claim has brought, still packed"""

    @property
    def coming(self) -> int:
        """How much the last claim has brought that is not unpacked yet."""
        return self.answer[0].size if self.answer is not None else 0
