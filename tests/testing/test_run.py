"""`run_all`: what is due runs, and the clock goes to what is due next."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import call

import pytest

from penstock import Retry, backoff, current, handler, job, middleware
from penstock.errors import (
    HandlerNotFound,
    InvalidArgument,
    JobTimeout,
    NoJob,
    RunTooLong,
    Unserialisable,
)
from tests.testing import shop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock import Context
    from penstock.testing import TestPenstock

DAY_S = 86_400.0


@job
def add(one: int, other: int) -> int:
    return one + other


def test_what_was_sent_runs_and_has_a_result(penstock: TestPenstock) -> None:
    sent = add.send(1, other=2)

    summary = penstock.run_all()

    assert (summary.ran, summary.done) == ([sent.id], [sent.id])
    assert sent.result(timeout=5) == 3


def test_jobs_run_in_the_order_of_their_priority(penstock: TestPenstock) -> None:
    jobs = [add.options(priority=p).send(1, 1) for p in ("low", "critical", "normal")]

    summary = penstock.run_all()

    assert summary.ran == [jobs[1].id, jobs[2].id, jobs[0].id]


def test_a_job_delayed_by_a_month_is_tried_again_until_it_is_dead(penstock: TestPenstock) -> None:
    @job(attempts=5, backoff="exponential")
    def fail() -> None:
        raise ValueError("no")

    began_at = penstock.now
    sent = fail.options(delay=timedelta(days=30)).send()

    summary = penstock.run_all(fail)

    assert summary.failed == [sent.id] * 5
    assert summary.retried == [sent.id] * 4
    assert summary.dead == [sent.id]
    assert [str(error) for error in summary.errors[sent.id]] == ["no"] * 5
    assert sent.info().reason == "failed"
    assert penstock.now > began_at + timedelta(days=30)


def test_a_schedule_fires_every_day_of_a_year(penstock: TestPenstock) -> None:
    penstock.set_clock(datetime(2026, 1, 1, tzinfo=UTC))
    penstock.schedules("default").add("nightly", "add", [[1, 2]], cron="0 3 * * *")

    summary = penstock.run_all(until=timedelta(days=365))

    assert len(summary.done) == 365
    assert penstock.now == datetime(2027, 1, 1, tzinfo=UTC)


def test_a_rate_limit_spreads_jobs_over_time(penstock: TestPenstock) -> None:
    began_at = penstock.now.timestamp()
    jobs = add.send_many([(index, 0) for index in range(4)])
    penstock.jobs("default").limit(rate=1, per=60, burst=1)

    penstock.run_all()

    waited = [round(each.info().started_at - began_at) for each in jobs]
    assert waited == [0, 60, 120, 180]


@pytest.mark.parametrize("key", ["", "k"])
def test_the_clock_stops_when_the_last_job_has_run(penstock: TestPenstock, key: str) -> None:
    began_at = penstock.now
    add.options(key=key).send_many([(1, 1), (2, 2)])
    penstock.jobs("default").limit(key, rate=1, per=3600, burst=1)
    penstock.jobs("default").add("nobody_runs_this")

    penstock.run_all()

    assert penstock.now == began_at + timedelta(hours=1)


def test_a_schedule_goes_on_while_the_limit_of_its_queue_is_reached(
    penstock: TestPenstock,
) -> None:
    penstock.schedules("default").add(
        "often", "add", [[1, 2]], every=3600, ends_at=penstock.now + timedelta(hours=3)
    )
    penstock.jobs("default").limit(rate=1, per=timedelta(days=1), burst=1)

    assert len(penstock.run_all().done) == 3


def test_jobs_that_expire_in_a_run_are_dead(penstock: TestPenstock) -> None:
    before, first, second = (add.options(expires=s).send(1, 1) for s in (5, 15, 20))
    penstock.advance(10)
    assert penstock.run_all(until=0).dead == [before.id]
    assert first.state == "done"
    late = add.options(expires=5).send(1, 1)
    penstock.advance(10)

    summary = penstock.run_all()

    assert (summary.ran, summary.dead) == ([], [late.id])
    assert (second.state, late.info().reason) == ("done", "expired")


def test_a_run_until_a_time_leaves_the_rest_and_the_clock_there(penstock: TestPenstock) -> None:
    soon = add.options(delay=10).send(1, 1)
    later = add.options(delay=11).send(1, 1)
    began_at = penstock.now

    summary = penstock.run_all(until=10)

    assert summary.done == [soon.id]
    assert [info.id for info in penstock.pending()] == [later.id]
    assert penstock.now == began_at + timedelta(seconds=10)


def test_a_run_until_now_runs_only_what_is_due(penstock: TestPenstock) -> None:
    add.options(delay=0.001).send(1, 1)
    due = add.send(1, 1)

    assert penstock.run_all(until=0).ran == [due.id]


def test_a_schedule_without_an_end_needs_one_for_the_run(penstock: TestPenstock) -> None:
    penstock.schedules("default").add("often", "add", [[1, 1]], every=60)

    with pytest.raises(InvalidArgument, match=r"'often' of queue 'default' has no end.*until="):
        penstock.run_all()


def test_a_schedule_with_an_end_needs_none(penstock: TestPenstock) -> None:
    penstock.set_clock(datetime(2026, 1, 1, tzinfo=UTC))
    ends_at = penstock.now + timedelta(seconds=185)
    penstock.schedules("default").add("often", "add", [[1, 1]], every=60, ends_at=ends_at)

    assert len(penstock.run_all().done) == 3


def test_a_paused_schedule_sends_nothing(penstock: TestPenstock) -> None:
    penstock.schedules("default").add("often", "add", [[1, 1]], every=60)
    penstock.schedules("default").pause("often")

    assert penstock.run_all(until=3600).ran == []


def test_a_schedule_that_cannot_send_does_not_hold_up_others(penstock: TestPenstock) -> None:
    penstock.jobs("default").configure(max_length=1)
    penstock.jobs("default").add("nobody runs this")
    penstock.schedules("default").add("often", "add", [[1, 1]], every=60)
    shop.pack.options(delay=600).send(1)

    summary = penstock.run_all(add, shop, until=3600)

    assert len(summary.done) == 1
    assert penstock.sent(add) == []


def test_jobs_without_end_are_too_many(penstock: TestPenstock) -> None:
    @job
    def again() -> None:
        again.send()

    again.send()

    with pytest.raises(RunTooLong, match=r"has run 20 attempts.*type 'again'.*until="):
        penstock.run_all(again, limit=20)

    assert [info.state for info in penstock.pending()] == ["ready"]


def test_a_job_without_a_function_stays(penstock: TestPenstock) -> None:
    left = penstock.jobs("default").add("elsewhere", {"to": "x"})
    add.send(1, 1)

    penstock.run_all()

    assert [info.id for info in penstock.pending()] == [left.id]


def test_a_run_without_any_function_is_refused(penstock: TestPenstock) -> None:
    with pytest.raises(HandlerNotFound, match=r"run_all\(function\), run_all\(module\)"):
        penstock.run_all(sys)


def test_functions_of_a_module_run_where_the_module_is_named(penstock: TestPenstock) -> None:
    shop.pack.send(3)

    assert len(penstock.run_all(shop).done) == 1


def test_functions_that_are_registered_run_beside_those_of_the_test(penstock: TestPenstock) -> None:
    penstock.register(shop)
    shop.pack.send(3)
    add.send(1, 1)

    assert len(penstock.run_all().done) == 2


def test_mocks_in_the_module_of_a_test_are_no_functions(penstock: TestPenstock) -> None:
    assert callable(call.anything)  # as a module that uses mocks has it

    assert penstock.run_all().ran == []


@handler("mail")
def on_mail(task: bytes, context: Context) -> None: ...


def plain() -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [(on_mail, "on_mail handles plain tasks.*penstock.worker"), (plain, "plain is no job.*@pen")],
)
def test_what_is_no_job_is_refused(penstock: TestPenstock, function: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        penstock.run_all(function)
    with pytest.raises(InvalidArgument, match=message):
        penstock.register(function)


def test_a_named_backoff_is_asked_how_long_to_wait(penstock: TestPenstock) -> None:
    @backoff("steady")
    def steady(failures: int) -> float:
        return 100.0 * failures

    @job(attempts=3, backoff="named:steady")
    def fail() -> None:
        raise ValueError

    began_at = penstock.now
    fail.send()

    penstock.run_all(fail, steady)

    assert penstock.now == began_at + timedelta(seconds=300)


def test_retry_waits_as_long_as_it_says_and_is_no_error_to_raise(penstock: TestPenstock) -> None:
    @job(attempts=2)
    def busy() -> str:
        if current().attempt == 1:
            raise Retry(after=3600)
        return "at last"

    began_at = penstock.now
    sent = busy.send()

    penstock.run_all(busy, raise_errors=True)

    assert sent.result(timeout=5) == "at last"
    assert penstock.now == began_at + timedelta(hours=1)


def test_the_error_of_a_job_can_be_raised(penstock: TestPenstock) -> None:
    @job(attempts=1)
    def fail() -> None:
        raise LookupError("lost")

    sent = fail.send()

    with pytest.raises(LookupError, match="lost"):
        penstock.run_all(fail, raise_errors=True)

    assert sent.state == "dead"


def test_a_job_can_fail_the_test(penstock: TestPenstock) -> None:
    @job
    def check() -> None:
        pytest.fail("this must not be")

    sent = check.send()

    with pytest.raises(pytest.fail.Exception, match="this must not be"):
        penstock.run_all(check)

    assert sent.state == "ready"


def test_a_job_that_wants_to_exit_has_failed(penstock: TestPenstock) -> None:
    @job(attempts=1)
    def leave() -> None:
        sys.exit(3)

    @job(attempts=1)
    async def leave_later() -> None:
        await asyncio.sleep(0)
        sys.exit(3)

    jobs = [leave.send(), leave_later.send()]

    summary = penstock.run_all(leave, leave_later)

    assert summary.dead == [each.id for each in jobs]


def test_progress_and_log_are_kept(penstock: TestPenstock) -> None:
    @job
    def work() -> None:
        current().progress(1, 4, {"at": "start"})
        assert penstock.job(current().job).progress.percent == 25  # type: ignore[union-attr]
        current().log("step %d", 1)

    sent = work.send()

    penstock.run_all(work, raise_errors=True)

    assert sent.progress is not None
    assert sent.progress.data == {"at": "start"}
    assert [line for _, line in sent.log()] == ["step 1"]


def test_a_job_sees_that_it_is_cancelled(penstock: TestPenstock) -> None:
    seen: list[bool] = []

    @job(attempts=5)
    def work() -> None:
        seen.append(current().cancelled)
        penstock.job(current().job).cancel()
        seen.append(current().cancelled)
        raise ValueError("stopped half-way")

    sent = work.send()

    summary = penstock.run_all(work)

    assert seen == [False, True]
    assert summary.cancelled == [sent.id]
    assert sent.state == "cancelled"


def test_a_worker_that_is_failed_under_its_job_goes_on_as_another(penstock: TestPenstock) -> None:
    @job
    def work() -> int:
        if current().attempt == 1:
            penstock.fail_worker(penstock.workers()[0].id)
        return current().attempt

    sent = work.send()

    summary = penstock.run_all(work)

    assert (summary.ran, summary.done) == ([sent.id] * 2, [sent.id])
    assert sent.result(timeout=5) == 2


def test_a_job_past_its_timeout_has_failed(penstock: TestPenstock) -> None:
    @job(attempts=1, timeout=60)
    def slow() -> None:
        penstock.advance(61)

    sent = slow.send()

    summary = penstock.run_all(slow)

    assert isinstance(summary.errors[sent.id][0], JobTimeout)
    assert sent.info().reason == "timeout"


def test_a_coroutine_past_its_timeout_is_cancelled(penstock: TestPenstock) -> None:
    @job(attempts=1, timeout=0.01)
    async def wait() -> None:
        await asyncio.Event().wait()

    sent = wait.send()

    penstock.run_all(wait)

    assert sent.info().reason == "timeout"


def test_a_job_may_move_the_clock_past_many_leases(penstock: TestPenstock) -> None:
    @job
    def long() -> None:
        penstock.advance(timedelta(days=1))

    jobs = long.send_many([()] * 3)

    summary = penstock.run_all(long)

    assert summary.done == [each.id for each in jobs]


def test_a_result_that_cannot_be_written_fails_the_attempt(penstock: TestPenstock) -> None:
    @job(attempts=1)
    def strange() -> object:
        return object()

    sent = strange.send()

    summary = penstock.run_all(strange)

    assert isinstance(summary.errors[sent.id][0], Unserialisable)


def test_what_belongs_into_a_process_runs_here(penstock: TestPenstock) -> None:
    @job(process=True)
    def heavy(size: int) -> bytes:
        return b"!" * size

    sent = heavy.send(3)

    penstock.run_all(heavy)

    assert sent.result(timeout=5) == b"!!!"


def test_coroutine_functions_run_on_one_loop_and_send_here(penstock: TestPenstock) -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    @job
    async def first() -> str:
        loops.append(asyncio.get_running_loop())
        await second.asend()
        return current().job

    @job
    async def second() -> None:
        loops.append(asyncio.get_running_loop())

    sent = first.send()

    penstock.run_all(first, second)

    assert sent.result(timeout=5) == sent.id
    assert len(loops) == 2
    assert loops[0] is loops[1]


def test_a_coroutine_that_is_cancelled_from_within_has_failed(penstock: TestPenstock) -> None:
    @job(attempts=1)
    async def give_up() -> None:
        raise asyncio.CancelledError

    sent = give_up.send()

    assert penstock.run_all(give_up).dead == [sent.id]


def test_after_a_run_no_job_is_running_here(penstock: TestPenstock) -> None:
    add.send(1, 1)

    penstock.run_all()

    assert penstock.workers() == []
    with pytest.raises(NoJob):
        current()


def test_several_queues_take_turns(penstock: TestPenstock) -> None:
    order: list[str] = []

    @job(queue="mail")
    def mail() -> None:
        order.append("mail")

    @job(queue="video")
    def video() -> None:
        order.append("video")

    mail.send_many([()] * 2)
    video.send_many([()] * 2)

    penstock.run_all(mail, video)

    assert order == ["mail", "video", "mail", "video"]


def test_what_a_job_of_one_queue_sends_to_another_runs_now(penstock: TestPenstock) -> None:
    @job(queue="last")
    def relay(left: int) -> None:
        if left:
            first.send(left - 1)

    @job(queue="first")
    def first(left: int) -> None:
        relay.send(left)

    began_at = penstock.now
    first.send(3)

    summary = penstock.run_all(first, relay)

    assert len(summary.done) == 8
    assert penstock.now == began_at


@job(queue="pools")
def ask_for_resources() -> str:
    return str(current().resources)


def test_middleware_is_run_and_resources_are_what_the_test_says(penstock: TestPenstock) -> None:
    seen: list[str] = []

    @middleware
    def around(context: Any) -> Iterator[None]:
        seen.append(context.type)
        yield

    penstock.resources = "a pool"
    sent = ask_for_resources.send()

    penstock.run_all(ask_for_resources, around)

    assert sent.result(5) == "a pool"
    assert seen == ["ask_for_resources"]
