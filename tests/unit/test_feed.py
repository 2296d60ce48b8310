"""A feed is told what happened and says what to do next: no store, no loop, no clock."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.executors.job_context import JobContext
from penstock.model.claims import Claim
from penstock.model.processes import Failed
from penstock.model.retries import parse_backoff
from penstock.model.workers import Lease
from penstock.store.keys import NamespaceKeys
from penstock.worker.feed import Feed
from penstock.worker.source import Begin, Cancel, Cancelled, Fire, Request
from penstock.worker.sources.jobs import JobSource
from penstock.worker.sources.tasks import TaskSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.executors.context import Context

KEYS = NamespaceKeys("ns").queue("mail")
NOW = 100.0


@dataclass
class Job:
    """A job, as a claim brings it."""

    process: int
    type: str = "echo"
    data: bytes = b"{}"
    id: str = "1"
    failures: int = 0
    crashes: int = 0
    lapses: int = 0
    timeout_ms: int = 0
    attempts: int = 1
    backoff: str = ""


@penstock.job(queue="mail")
def echo() -> None: ...


@dataclass
class Slots:
    """An executor that runs nothing."""

    slots: int = 2
    load: int = 0
    waiting: int = 0


class World:
    """A feed, and what its driver would do with its steps."""

    def __init__(
        self,
        kind: str = "tasks",
        slots: int = 2,
        takes_pushed: bool = True,
        backoff: float | str = 0,
        backoffs: dict[str, Any] | None = None,
    ) -> None:
        lease = Lease(3000)
        lease.renewed(math.inf)
        self.source: Any = (
            TaskSource(
                *(KEYS, "ant", lease, lambda task, context: None, 1000),
                *(parse_backoff(backoff), backoffs or {}),
            )
            if kind == "tasks"
            else JobSource(
                *(KEYS, "ant", lease, {"echo": echo}, {}, 1000, JobContext.cancel),
                takes_pushed=takes_pushed,
            )
        )
        self.slots = Slots(slots)
        self.feed = Feed(self.source, self.slots)
        self.now = NOW
        self.asked: list[Request] = []
        self.begun: list[Context] = []

    def steps(self, owed: int = 0) -> list[str]:
        """Everything that the feed wants to have done now, in words."""
        said = []
        while (step := self.feed.next(self.now, owed)) is not None:
            said.append(self._take(step))
        return said

    def answer(self, claim: Any, request: Request | None = None) -> list[str]:
        """The answer to the last request comes."""
        self.feed.answered(request or self.asked[-1], claim, self.now)
        return self.steps()

    def found(self, *processes: int) -> Claim[Any]:
        """A claim that brings these."""
        found = [b"%d" % p if isinstance(self.source, TaskSource) else Job(p) for p in processes]
        return Claim("ok" if processes else "empty", found, processes[0] if processes else 0)

    def end(self, *contexts: Context, took_s: float = 1.0) -> None:
        """Work has ended, and the driver thinks that it is time to say so."""
        for context in contexts:
            context.took_s = took_s
            self.source.prepare(context)
        self.slots.load -= len(contexts)
        self.feed.outcomes.extend(contexts)
        self.feed.report(self.now)

    def run(self, *processes: int) -> list[Context]:
        """Claim these and begin them."""
        assert self.steps()
        self.answer(self.found(*processes))
        return self.begun[-len(processes) :]

    def _take(self, step: Any) -> str:
        match step:
            case Request():
                self.asked.append(step)
                reported = [context.token for context in step.contexts]
                about = f" {reported}" if reported else ""
                return f"{step.purpose}{about}" + (f" limit={step.limit}" if step.limit else "")
            case Begin():
                self.begun += step.contexts
                self.slots.load += len(step.contexts)
                return f"begin {[context.token for context in step.contexts]}"
            case Cancel():
                return f"cancel {[context.token for context in step.contexts]}"
            case Fire():
                return f"fire {step.schedules}"
        raise AssertionError(step)


KINDS = pytest.mark.parametrize("kind", ["tasks", "jobs"])


@KINDS
def test_a_new_feed_asks_for_as_much_as_there_are_slots(kind: str) -> None:
    assert World(kind, slots=3).steps() == ["claim limit=3"]


@KINDS
def test_one_claim_is_under_way_at_a_time(kind: str) -> None:
    world = World(kind)
    world.steps()
    world.feed.woken(NOW)

    assert world.steps() == []


@KINDS
def test_work_that_came_begins_and_a_full_worker_asks_for_nothing(kind: str) -> None:
    world = World(kind)
    world.steps()

    assert world.answer(world.found(5, 6)) == ["begin [5, 6]"]


@KINDS
def test_what_is_done_is_reported_with_the_next_claim(kind: str) -> None:
    world = World(kind)
    first, _ = world.run(5, 6)
    world.end(first)

    assert world.steps() == ["claim [5] limit=1"]
    assert world.answer(world.found(7)) == ["begin [7]"]
    assert world.feed.totals.finished == 1


@KINDS
def test_a_feed_that_found_nothing_waits_to_be_woken(kind: str) -> None:
    world = World(kind)
    world.steps()
    assert world.answer(world.found()) == []
    assert not world.feed.wants_work

    world.feed.room_made(NOW)
    assert world.steps() == []
    world.feed.woken(NOW)
    assert world.steps() == ["claim limit=2"]


@KINDS
def test_a_wake_up_that_overtakes_the_answer_is_not_lost(kind: str) -> None:
    world = World(kind)
    world.steps()
    world.feed.woken(NOW)

    assert world.answer(world.found()) == ["claim limit=2"]


@KINDS
def test_a_wake_up_without_room_is_passed_on(kind: str) -> None:
    world = World(kind)
    world.run(5, 6)
    world.feed.woken(NOW)

    assert world.steps() == ["pass_on"]


@KINDS
def test_free_slots_that_belong_to_other_queues_are_left_to_them(kind: str) -> None:
    world = World(kind, slots=4)

    assert world.steps(owed=3) == ["claim limit=1"]


@KINDS
def test_a_paused_feed_reports_and_asks_for_nothing(kind: str) -> None:
    world = World(kind)
    first, _ = world.run(5, 6)
    world.feed.paused(True, NOW)
    assert world.steps() == ["pass_on"]
    assert world.answer((-1, []) if kind == "jobs" else None) == []
    world.end(first)
    assert world.steps() == ["claim [5]"]
    world.answer(Claim("idle"))

    world.feed.paused(False, NOW)

    assert world.steps() == ["claim limit=1"]


@KINDS
def test_work_that_comes_after_a_stop_goes_back(kind: str) -> None:
    world = World(kind)
    world.steps()
    claim = world.asked[-1]
    asked = world.feed.stopping()
    assert asked is not None
    assert asked.purpose == "pass_on"

    assert world.answer(world.found(5), claim) == ["give_back [5]"]
    assert world.feed.held == {}


@KINDS
def test_nothing_is_claimed_while_work_goes_back_to_the_front(kind: str) -> None:
    world = World(kind)
    world.steps()
    world.feed.hold_back()
    assert not world.feed.is_between_requests
    assert world.answer(world.found(5)) == ["begin [5]"]
    assert world.feed.is_between_requests
    world.feed.woken(NOW)
    assert world.steps() == []

    assert world.feed.give_back(world.begun).purpose == "give_back"
    world.slots.load = 0
    world.feed.go_on(NOW)

    assert world.steps() == ["claim limit=2"]


@KINDS
def test_a_worker_that_was_failed_has_lost_its_lease(kind: str) -> None:
    world = World(kind)
    world.steps()

    world.answer(Claim("not_working"))

    assert world.source.lease.is_lost


@KINDS
def test_a_lease_that_has_run_out_is_looked_at_again_soon(kind: str) -> None:
    world = World(kind)
    world.source.lease.renewed(-math.inf)
    assert world.steps() == []
    world.now = world.feed.wake_at
    assert NOW < world.now < NOW + 1

    world.source.lease.renewed(math.inf)

    assert world.steps() == ["claim limit=2"]


@KINDS
def test_what_was_cancelled_while_a_claim_was_under_way_never_begins(kind: str) -> None:
    world = World(kind)
    world.steps()
    world.feed.cancelled(Cancelled(up_to=5) if kind == "tasks" else Cancelled(5))

    world.answer(world.found(5, 6))

    assert [context.is_void for context in world.begun] == [True, False]


@KINDS
def test_what_runs_is_cancelled_at_once(kind: str) -> None:
    world = World(kind)
    world.run(5, 6)
    world.feed.cancelled(Cancelled(up_to=5, task=b"5") if kind == "tasks" else Cancelled(5))

    assert world.steps() == ["cancel [5]"]


def test_an_equal_task_that_was_started_later_is_not_cancelled() -> None:
    world = World()
    world.run(5, 6)
    world.feed.cancelled(Cancelled(up_to=4, task=b"5"))

    assert world.steps() == []


@KINDS
def test_much_to_report_is_sent_before_what_came_is_unpacked(kind: str) -> None:
    world = World(kind, slots=40)
    contexts = world.run(*range(1, 41))
    world.end(*contexts[:5])
    assert world.steps() == ["claim [1, 2, 3, 4, 5] limit=5"]
    first = world.asked[-1]
    world.end(*contexts[5:])

    world.feed.answered(first, world.found(*range(41, 46)), NOW)
    step = world.feed.next(NOW)

    assert isinstance(step, Request)
    assert len(step.contexts) == 35
    assert world.feed.has_unopened
    assert world.steps() == ["begin [41, 42, 43, 44, 45]"]


@KINDS
def test_a_request_that_failed_is_said_again(kind: str) -> None:
    world = World(kind)
    first, _ = world.run(5, 6)
    world.end(first)
    world.steps()

    world.feed.unanswered(world.asked[-1], NOW)

    is_reviewed = kind == "jobs"
    assert world.steps() == (["find_pushed"] if is_reviewed else ["claim [5] limit=1"])
    if is_reviewed:
        assert world.answer([]) == ["claim [5] limit=1"]


@KINDS
def test_a_closed_feed_wants_nothing(kind: str) -> None:
    world = World(kind)
    world.run(5, 6)
    world.feed.close()

    world.feed.woken(NOW)

    assert world.steps() == []
    assert all(context.is_void for context in world.begun)


def test_a_failed_task_is_reported_before_the_claim() -> None:
    world = World()
    first, second = world.run(5, 6)
    first.outcome, second.outcome = "failed", "stopped"
    world.end(first, second)

    assert world.steps() == ["report [5]"]
    world.feed.hold_back()
    world.answer(Failed(0, []))
    assert not world.feed.is_done, "that the other one was stopped is still to be said"
    world.feed.go_on(NOW)
    assert world.steps() == ["report [6]"]
    assert world.answer([]) == ["claim limit=2"]
    assert world.feed.totals.failed == 1


def test_what_a_job_has_said_goes_before_its_end() -> None:
    world = World("jobs")
    context: Any = world.run(5, 6)[0]
    context.log("half of it")
    world.feed.noted(context, NOW)
    world.now = world.feed.wake_at
    assert world.steps() == ["note [5]"]
    note = world.asked[-1]
    context.log("all of it")
    world.end(context)
    assert world.steps() == [], "the first note is still under way"

    assert world.answer(True, note) == ["note [5]"]
    assert world.answer(True) == ["claim [5] limit=1"]


def test_schedules_that_are_due_are_fired_and_looked_for_again() -> None:
    world = World("jobs")
    world.steps()
    assert world.answer(Claim("empty", schedules=["daily"])) == ["fire ['daily']"]

    world.feed.fired(False, NOW)
    assert world.steps() == []
    world.now = world.feed.wake_at
    assert world.steps() == ["claim limit=2"]
    world.answer(Claim("empty"))
    world.feed.fired(True, world.now)
    assert world.steps() == ["claim limit=2"]


def test_a_claim_says_when_to_ask_again() -> None:
    world = World("jobs")
    world.steps()
    world.answer(Claim("empty", wait_ms=500))
    assert world.feed.wake_at == NOW + 0.5

    world.now = NOW + 0.5

    assert world.steps() == ["claim limit=2"]


def test_a_job_that_is_pushed_twice_begins_once() -> None:
    world = World("jobs")
    world.steps()
    world.answer(Claim("empty"))
    [context], [copy] = (world.source.contexts([Job(9)], 9) for _ in range(2))

    assert world.feed.pushed(context, NOW)
    assert not world.feed.pushed(copy, NOW)
    assert world.feed.held == {9: context}


def test_a_job_that_is_pushed_to_a_worker_that_stops_goes_back() -> None:
    world = World("jobs")
    world.steps()
    world.answer(Claim("empty"))
    world.feed.stopping()
    [context] = world.source.contexts([Job(9)], 9)

    assert not world.feed.pushed(context, NOW)
    assert world.steps() == ["give_back [9]"]


def test_a_job_that_was_missed_is_found_and_its_late_message_is_nothing_new() -> None:
    world = World("jobs")
    world.steps()
    world.answer(Claim("empty"))
    world.feed.look_again(NOW)
    assert world.steps() == ["find_pushed"]
    assert world.answer([Job(9)])[:2] == ["begin [9]", "find_cancelled"]
    [late] = world.source.contexts([Job(9)], 9)
    world.feed.outcomes.extend(world.begun)
    world.end()
    world.steps()

    assert not world.feed.pushed(late, NOW)


def test_one_outcome_is_reported_alone_if_there_is_nothing_else_to_do() -> None:
    world = World("jobs")
    world.steps()
    world.answer(Claim("empty"))
    [context] = world.source.contexts([Job(9)], 9)
    world.feed.pushed(context, NOW)
    world.source.prepare(context)

    request = world.feed.report_alone(context, NOW)

    assert request is not None
    assert world.feed.asking is request
    assert world.answer(Claim("empty"), request) == []


BUSY: dict[str, Callable[[World], object]] = {
    "a wake-up": lambda world: world.feed.woken(NOW),
    "something else to report": lambda world: world.feed.outcomes.extend(
        world.source.contexts([Job(8)], 8)
    ),
    "something else that runs": lambda world: setattr(world.slots, "load", 1),
    "a pause": lambda world: world.feed.paused(True, NOW),
    "a stop": lambda world: world.feed.stopping(),
    "a lease that has run out": lambda world: world.source.lease.renewed(-math.inf),
    "a time to look": lambda world: world.feed.fired(False, NOW),
    "a job given back": lambda world: world.feed.hold_back(),
    "a look for what was missed": lambda world: world.feed.look_again(NOW),
}


@pytest.mark.parametrize("happen", BUSY.values(), ids=BUSY)
def test_an_outcome_is_not_reported_alone_beside(happen: Callable[[World], object]) -> None:
    world = World("jobs")
    world.steps()
    world.answer(Claim("empty"))
    [context] = world.source.contexts([Job(9)], 9)
    world.feed.pushed(context, NOW)
    world.source.prepare(context)

    happen(world)

    assert world.feed.report_alone(context, NOW) is None


def test_a_job_that_is_pushed_before_the_answer_ends_the_wait() -> None:
    """The store does not count on the worker any more, which the answer does not say."""
    world = World("jobs")
    world.steps()
    [context] = world.source.contexts([Job(9)], 9)
    assert world.feed.pushed(context, NOW)
    world.slots.load = 1

    assert world.answer(Claim("empty")) == []
    assert world.feed.wants_work
    world.now = world.feed.wake_at
    assert world.steps() == ["claim limit=1"]


def test_short_work_is_held_ahead_and_long_work_is_not() -> None:
    world = World(slots=1)
    [first] = world.run(1)
    world.end(first, took_s=0.001)
    [asked] = world.steps()
    assert asked == "claim [1] limit=5"
    world.answer(world.found(2, 3, 4, 5, 6))
    world.end(*world.begun[1:], took_s=1.0)

    assert world.steps() == ["claim [2, 3, 4, 5, 6] limit=1"]
