"""Jobs that are not to run any more: cancelled, removed, or deleted with their queue."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import IllegalMove, InvalidArgument, JobCancelled, JobNotFound
from penstock.model.jobs import Report
from penstock.store.commands.jobs import find_cancelled
from tests.contract.job_workers import Hand, written
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.jobs import JobState
    from tests.contract.conftest import Ear
    from tests.running_worker import RunningWorker
    from tests.stored import Stored


@pytest.mark.parametrize("delay", [0, 60])
def test_a_waiting_job_is_cancelled_at_once(mail: penstock.Jobs, hand: Hand, delay: float) -> None:
    job = mail.add("email", delay=delay)

    assert job.cancel() == "cancelled"

    assert job.state == "cancelled"
    assert job.info().finished_at > 0
    assert hand.run_all() == []
    with pytest.raises(JobCancelled, match=f"job {job.id} was cancelled, so it has no result"):
        job.result(5)


def test_a_running_job_is_asked_to_end_and_its_worker_is_told(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, listen: Callable[[str], Ear]
) -> None:
    job = mail.add("email")
    process = hand.take_one()
    ear = listen(hand.keys.cancel_job)

    assert job.cancel() == "running"

    assert ear.hear_the_rest() == [f"hand {process.process}".encode()]
    assert job.info().is_cancel_asked
    assert [reason.code for reason in job.explain().reasons] == ["running", "cancel_asked"]
    assert ps.store.run(find_cancelled(hand.keys, hand.id)) == [process.process]
    assert hand.end(process)
    assert job.state == "cancelled"
    assert job.info().attempts_made == 1


def test_an_attempt_that_was_never_begun_is_not_counted(mail: penstock.Jobs, hand: Hand) -> None:
    waiting = mail.add("email", attempts=2)
    waiting.cancel()
    failed = mail.add("email", attempts=2)
    hand.fail(hand.take_one(), delay_ms=60_000)
    failed.cancel()

    assert (waiting.info().attempts_made, failed.info().attempts_made) == (0, 1)


@pytest.mark.parametrize("way", ["fail", "crash", "stop", "die", "leave"])
def test_a_job_asked_to_end_is_cancelled_however_it_ends(
    ps: penstock.Penstock, mail: penstock.Jobs, way: str
) -> None:
    hand = Hand(ps, "w1")
    job = mail.add("email", attempts=5)
    process = hand.take_one()
    job.cancel()

    getattr(hand, way)(*(() if way in ("die", "leave") else (process,)))

    info = job.info()
    assert (info.state, info.is_cancel_asked) == ("cancelled", False)
    entries = mail.history()
    assert info.attempts_made == sum(entry.attempt > 0 for entry in entries)
    assert [(entry.outcome, entry.state) for entry in entries] == [("cancelled", "cancelled")]
    assert Hand(ps, "w2").run_all() == []


def test_a_job_that_was_done_before_it_heard_is_done(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    process = hand.take_one()
    job.cancel()

    hand.finish(process, "done anyway")

    assert job.result(5) == "done anyway"


def test_a_cancelled_job_can_run_again(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", 1)
    job.cancel()

    job.retry()

    assert hand.run_all() == [1]


@pytest.mark.parametrize("ending", ["done", "dead"])
def test_what_has_ended_cannot_be_cancelled(mail: penstock.Jobs, hand: Hand, ending: str) -> None:
    job = mail.add("email")
    hand.end_as(hand.take_one(), ending)

    with pytest.raises(IllegalMove, match=f"job {job.id} is {ending}; waiting and running jobs ca"):
        job.cancel()


def test_cancelling_twice_is_as_cancelling_once(mail: penstock.Jobs, hand: Hand) -> None:
    waiting, running = mail.add_many("email", [1, 2])
    waiting.cancel()
    process = hand.take_one()
    running.cancel()
    finished_at = waiting.info().finished_at

    assert (waiting.cancel(), running.cancel()) == ("cancelled", "running")

    assert waiting.info().finished_at == finished_at
    hand.end(process)
    assert mail.counts()["cancelled"] == 2


def test_a_coroutine_that_is_cancelled_is_ended_where_it_waits(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    begun = threading.Event()

    @penstock.job(queue="mail", type="wait")
    async def wait() -> None:
        begun.set()
        await asyncio.sleep(60)

    serve(wait)
    job = wait.on(ps).send()
    assert begun.wait(20)

    job.cancel()

    with pytest.raises(JobCancelled):
        job.result(20)


def test_a_function_in_a_thread_sees_that_it_is_to_end(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    begun = threading.Event()

    @penstock.job(queue="mail", type="wait")
    def wait() -> None:
        begun.set()
        wait_for(lambda: penstock.current().cancelled)
        raise RuntimeError("ended early")

    serve(wait)
    job = wait.on(ps).send()
    assert begun.wait(20)

    job.cancel()

    with pytest.raises(JobCancelled):
        job.result(20)


def test_cancelling_one_job_leaves_the_others_of_the_worker_alone(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    begun = threading.Semaphore(0)
    may_go_on = threading.Event()

    @penstock.job(queue="mail", type="wait")
    async def wait(name: str) -> str:
        begun.release()
        await asyncio.to_thread(may_go_on.wait, 20)
        return name

    serve(wait, concurrency=2)
    a, b = wait.on(ps).send_many([("a",), ("b",)])
    assert begun.acquire(timeout=20) and begun.acquire(timeout=20)

    a.cancel()
    with pytest.raises(JobCancelled):
        a.result(20)
    may_go_on.set()

    assert b.result(20) == "b"


@pytest.mark.parametrize("state", ["ready", "scheduled"])
def test_waiting_jobs_are_cancelled_together(
    mail: penstock.Jobs, hand: Hand, state: JobState
) -> None:
    delay = 60 if state == "scheduled" else 0
    mail.add_many("email", range(3), tags=["x"], delay=delay)
    mail.add_many("email", range(2), delay=delay)

    assert mail.cancel(state, tag="x") == 3

    assert (mail.counts()["cancelled"], mail.counts()[state]) == (3, 2)


@pytest.mark.parametrize("state", ["running", "done", "dead", "cancelled", "stuck"])
def test_cancelling_what_does_not_wait_is_refused(mail: penstock.Jobs, state: JobState) -> None:
    with pytest.raises(InvalidArgument, match="ready"):
        mail.cancel(state)


@pytest.mark.parametrize("state", ["ready", "scheduled", "done", "dead", "cancelled"])
def test_a_removed_job_leaves_nothing_behind(
    mail: penstock.Jobs, hand: Hand, stored: Stored, state: JobState
) -> None:
    mail.add("email", "first")
    assert hand.run_all() == ["first"]
    mail.remove("done")
    before = written(stored)
    job = mail.add(
        *("email", {"a": "some words"}),
        delay=60 if state == "scheduled" else 0,
        unique="k",
        tags=["x"],
        search=True,
        attempts=2,
    )
    if state in ("done", "dead", "cancelled"):
        process = hand.take_one()
        hand.note(process, 50, b"a line")
        hand.fail(process)
        hand.end_as(hand.take_one(), state)
    assert job.state == state

    job.remove()

    with pytest.raises(JobNotFound, match=f"queue 'mail' has no job {job.id}; check the id"):
        job.info()
    assert hand.run_all() == []
    after = written(stored)
    assert set(after) - set(before) <= {f"{hand.keys.tag}:history"}
    assert after.keys() >= before.keys()
    assert mail.counts() == dict.fromkeys(mail.counts(), 0)


def test_a_running_job_is_not_removed(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    hand.take_one()

    with pytest.raises(IllegalMove, match=f"job {job.id} is running; cancel it first"):
        job.remove()
    with pytest.raises(InvalidArgument, match="running"):
        mail.remove("running")


def test_jobs_of_a_state_are_removed_together(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(600))
    mail.add_many("fax", range(3))
    while taken := hand.take(1000):
        hand.report(*(_success(job.process) for job in taken))

    assert mail.remove("done", type="fax") == 3
    assert mail.remove("done") == 600

    assert mail.counts()["done"] == 0


@pytest.mark.parametrize("act", ["cancel", "retry", "remove", "promote", "info", "explain"])
def test_a_job_that_is_gone_is_not_found(mail: penstock.Jobs, act: str) -> None:
    job = mail.add("email")
    job.remove()

    with pytest.raises(JobNotFound, match=f"has no job {job.id}; check the id"):
        getattr(job, act)()


def test_deleting_a_queue_takes_everything_but_what_runs(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, stored: Stored
) -> None:
    mail.add("email", "runs")
    process = hand.take_one()
    mail.add_many("email", range(1200))
    mail.add("email", delay=60)
    mail.add("email", unique="k", tags=["x"], tenant="t", search=True)
    mail.limit("k", concurrency=1)

    deleted = mail.delete()
    assert (deleted.removed, deleted.running) == (1202, 1)
    assert ps.queues() == ["mail"]
    hand.finish(process)
    mail.delete()
    hand.die()

    assert ps.queues() == []
    assert written(stored) == {}


def _success(process: int) -> Report:
    return Report(process, "done")
