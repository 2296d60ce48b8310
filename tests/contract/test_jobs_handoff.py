"""An idle worker hears of a job, runs it and reports it in one thread; all else is as ever."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import JobCancelled, JobFailed, StoreError
from penstock.executors.job_context import JobContext
from penstock.worker.handlers import collect_handlers
from tests.job_invariants import check_jobs
from tests.running_worker import RunningWorker
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.worker.feed import Feed
    from tests.contract.conftest import Ear
    from tests.servers import RedisServer
    from tests.stored import Stored

# Threads of a worker. What it hears of comes on channels, which are others on a cluster.
pytestmark = pytest.mark.stores("debian", "cluster")

may_end = threading.Event()
began = threading.Event()
threads: list[str] = []
running: list[int] = []
most: list[int] = []


@pytest.fixture(autouse=True)
def _afresh() -> None:
    may_end.clear()
    began.clear()
    for seen in (threads, running, most):
        seen.clear()


@penstock.job(queue="mail", type="email")
def echo(number: int) -> int:
    threads.append(threading.current_thread().name)
    return number


@penstock.job(queue="mail", type="alone")
def alone(number: int) -> int:
    running.append(number)
    most.append(len(running))
    time.sleep(0.002)
    running.remove(number)
    return number


@penstock.job(queue="mail", type="patient")
def patient() -> str:
    began.set()
    may_end.wait(20)
    return "cancelled" if penstock.current().cancelled else "done"


@penstock.job(queue="mail", type="talkative")
def talkative() -> None:
    context = penstock.current()
    context.progress(50, 100, {"at": "half"})
    context.log("nearly done")


@penstock.job(queue="mail", type="failing")
def failing() -> None:
    raise ValueError("as it is meant to be")


@penstock.job(queue="mail", type="slow")
def slow() -> None:
    time.sleep(0.5)


@penstock.job(queue="mail", type="coroutine")
async def coroutine(number: int) -> int:
    threads.append(threading.current_thread().name)
    return number


def wait_until_it_waits(ps: penstock.Penstock, worker: RunningWorker) -> None:
    """The worker can be handed a job."""
    keys = ps.jobs("mail")._keys
    channel, offer = keys.hand + worker.id, "+" + worker.id
    is_sharded = ps.store.dialect.channels == "sharded_channels"
    ask = ("PUBSUB", "SHARDNUMSUB" if is_sharded else "NUMSUB", channel)
    wait_for(lambda: ps.store.call(keys.idle, *ask)[1] > 0)
    feed = worker.feed

    def is_quiet() -> bool:
        # When the handoff is new, the loop looks for what was missed, as soon as it has time.
        time.sleep(0.01)
        is_offered = bool(ps.store.call(keys.idle, "SISMEMBER", keys.idle, offer))
        return is_at_rest(feed) and is_offered

    wait_for(is_quiet)


def is_at_rest(feed: Feed) -> bool:
    """The loop has nothing to see to."""
    is_told = feed._exchange.is_due or feed._wait.must_look or feed._wait.is_woken
    is_told = is_told or feed._offers.must_review or feed.has_steps or bool(feed.outcomes)
    return feed.is_between_requests and not is_told


def test_a_job_needs_nothing_but_the_thread_that_runs_it(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(echo)
    wait_until_it_waits(ps, worker)
    assert worker._loop is not None
    mail.add("email", {"number": 0}).result(20)  # the first of a page has more to be seen to
    wait_until_it_waits(ps, worker)
    stuck = threading.Event()
    worker._loop.call_soon_threadsafe(stuck.wait, 20)
    try:
        for number in range(1, 6):
            assert mail.add("email", {"number": number}).result(20) == number
    finally:
        stuck.set()

    assert len(set(threads)) == 1
    wait_for(lambda: worker.feed.totals.finished == 6)
    check_jobs(ps.store, mail._keys)


@pytest.mark.parametrize("slots", [1, 3])
def test_no_more_run_at_once_than_there_are_slots(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker], slots: int
) -> None:
    """Jobs with tags are asked for, others are handed over."""
    wait_until_it_waits(ps, serve(alone, concurrency=slots))
    sent = []
    for number in range(60):
        options: Any = {"tags": ["asked-for"]} if number % 3 else {}
        sent.append(mail.add("alone", {"number": number}, **options))
        time.sleep(0.003 * (number % 2))

    assert [job.result(20) for job in sent] == list(range(60))
    assert max(most) <= slots
    check_jobs(ps.store, mail._keys)


def test_a_thread_that_waits_for_jobs_comes_when_it_is_needed(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(echo)
    for number in range(20):
        wait_until_it_waits(ps, worker)
        assert mail.add("email", {"number": number}, tags=["t"]).result(20) == number


def test_jobs_of_coroutines_are_handed_to_the_loop(
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    serve: Callable[..., RunningWorker],
    listen: Callable[[str], Ear],
) -> None:
    worker = serve(echo, coroutine)
    wait_until_it_waits(ps, worker)
    ear = listen(mail._keys.hand + worker.id)

    assert mail.add("coroutine", {"number": 1}).result(20) == 1
    assert mail.add("email", {"number": 2}).result(20) == 2
    assert any(ear.hear_the_rest())


def test_what_makes_no_sense_is_ignored(
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    serve: Callable[..., RunningWorker],
    listen: Callable[[str], Ear],
) -> None:
    worker = serve(echo)
    wait_until_it_waits(ps, worker)

    listen(mail._keys.hand + worker.id).hear_the_rest()  # which says something there

    assert mail.add("email", {"number": 3}).result(20) == 3
    assert worker.error is None


def test_a_handoff_that_was_cut_off_is_there_again(
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    serve: Callable[..., RunningWorker],
    stored: Stored,
) -> None:
    worker = serve(echo)
    for number in range(3):
        wait_until_it_waits(ps, worker)
        stored.on_each_server("CLIENT", "KILL", "TYPE", "pubsub")
        assert mail.add("email", {"number": number}).result(20) == number
    check_jobs(ps.store, mail._keys)


def test_a_cancel_that_comes_before_the_job_counts(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(patient)
    wait_until_it_waits(ps, worker)
    feed, take = worker.feed, worker.handoff._take
    is_heard_of, may_be_taken = threading.Event(), threading.Event()

    def take_late(message: bytes) -> Any:
        is_heard_of.set()
        may_be_taken.wait(20)
        return take(message)

    worker.handoff._take = take_late
    job = mail.add("patient")
    assert is_heard_of.wait(20)
    assert job.cancel() == "running"
    wait_for(lambda: feed._cancellations._processes)
    may_be_taken.set()

    with pytest.raises(JobCancelled):
        job.result(20)
    assert not began.is_set()


def test_a_cancel_reaches_a_job_that_runs(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(patient)
    wait_until_it_waits(ps, worker)
    job = mail.add("patient")
    assert began.wait(20)
    assert job.cancel() == "running"
    [context] = worker.feed.held.values()
    assert isinstance(context, JobContext)
    wait_for(lambda: context.is_cancel_asked)
    may_end.set()

    with pytest.raises(JobCancelled):
        job.result(20)


def test_what_a_job_says_and_how_it_fails_is_written_down(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(talkative, failing, slow, echo)
    wait_until_it_waits(ps, worker)
    job = mail.add("talkative")
    job.result(20)
    progress = job.info().progress
    assert progress is not None
    assert (progress.percent, progress.data) == (50, {"at": "half"})
    assert [text for _, text in job.log()] == ["nearly done"]

    wait_until_it_waits(ps, worker)
    with pytest.raises(JobFailed, match="as it is meant to be"):
        mail.add("failing").result(20)

    wait_until_it_waits(ps, worker)
    with pytest.raises(JobFailed, match="longer than its timeout"):
        mail.add("slow", timeout=0.05).result(20)
    assert mail.add("email", {"number": 4}).result(20) == 4
    check_jobs(ps.store, mail._keys)


def test_a_worker_that_was_given_up_waits_under_its_new_name(
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    serve: Callable[..., RunningWorker],
    listen: Callable[[str], Ear],
) -> None:
    worker = serve(echo, lease_ms=2000, heartbeat_ms=100)
    before = worker.id
    wait_until_it_waits(ps, worker)
    ps.fail_worker(before)
    wait_for(lambda: worker.id != before)
    wait_until_it_waits(ps, worker)
    ear = listen(mail._keys.hand + worker.id)

    assert mail.add("email", {"number": 5}).result(20) == 5
    assert any(ear.hear_the_rest())
    check_jobs(ps.store, mail._keys)


def test_a_store_that_refuses_a_report_is_asked_again_by_the_loop(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(echo)
    wait_until_it_waits(ps, worker)
    mail.add("email", {"number": 0}).result(20)
    wait_until_it_waits(ps, worker)
    refused = []

    def refuse(build: Any) -> None:
        refused.append(build)
        raise StoreError("not now")

    worker.handoff.send = refuse
    assert mail.add("email", {"number": 1}).result(20) == 1
    assert len(refused) == 1
    check_jobs(ps.store, mail._keys)


def test_a_job_handed_over_before_the_answer_to_a_report_leaves_room_for_others(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    """The store does not count on the worker any more then, which it has to know."""
    worker = serve(echo, patient, concurrency=2)
    wait_until_it_waits(ps, worker)
    handoff = worker.handoff
    assert mail.add("patient").state == "running"
    assert began.wait(20)
    # By the other thread, which waits for jobs afterwards.
    mail.add("email", {"number": 0}).result(20)
    wait_for(lambda: worker.worker._executor.threads._is_attended)  # type: ignore[union-attr]
    send, is_reported, may_go_on = handoff.send, threading.Event(), threading.Event()

    def send_slowly(build: Any) -> Any:
        try:
            return send(build)
        finally:
            is_reported.set()
            may_go_on.wait(20)

    handoff.send = send_slowly
    wait_for(lambda: len(worker.feed.held) == 1 and is_at_rest(worker.feed))
    may_end.set()
    assert is_reported.wait(20)
    handoff.send = send
    began.clear()
    may_end.clear()
    long = mail.add("patient")
    assert began.wait(20)
    may_go_on.set()

    assert mail.add("email", {"number": 1}).result(5) == 1
    may_end.set()
    long.result(20)


def test_what_waits_behind_a_job_that_was_handed_over_goes_back(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(echo, patient)
    wait_until_it_waits(ps, worker)
    pump, take = worker.pump, worker.handoff._take
    assert worker._loop is not None
    is_heard_of, may_be_taken = threading.Event(), threading.Event()

    def take_late(message: bytes) -> Any:
        is_heard_of.set()
        may_be_taken.wait(20)
        return take(message)

    worker.handoff._take = take_late
    long = mail.add("patient")
    assert is_heard_of.wait(20)
    behind = mail.add("email", {"number": 1})
    worker._loop.call_soon_threadsafe(pump.happen, pump.feed.look)
    wait_for(lambda: behind.state == "running")
    may_be_taken.set()
    assert began.wait(20)
    peer = serve(echo, name="peer")

    assert behind.result(5) == 1
    assert behind.info().worker == peer.id
    may_end.set()
    long.result(20)


def test_a_stop_does_not_wait_for_a_job_that_goes_back(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(echo, grace_s=15)
    wait_until_it_waits(ps, worker)
    feed, take = worker.feed, worker.handoff._take
    is_heard_of, may_go_on = threading.Event(), threading.Event()

    def take_slowly(message: bytes) -> Any:
        is_heard_of.set()
        may_go_on.wait(20)
        return take(message)

    worker.handoff._take = take_slowly
    job = mail.add("email", {"number": 1})
    assert is_heard_of.wait(20)
    worker.stop()
    wait_for(lambda: not feed.is_accepting)
    may_go_on.set()
    began_at = time.monotonic()
    worker.join()

    assert time.monotonic() - began_at < 10
    assert job.state == "ready"


def test_a_worker_that_has_ended_says_nothing_more(own_server: RedisServer, namespace: str) -> None:
    """Its last report waits for a store that is away, and would ask for jobs with it."""
    with penstock.connect(own_server.url, namespace=namespace) as ps:
        mail = ps.jobs("mail")
        before = set(threading.enumerate())  # a worker of another test may just be ending
        worker = RunningWorker(ps.settings, collect_handlers([echo]), grace_s=0.5).start()
        wait_until_it_waits(ps, worker)
        mail.add("email", {"number": 0}).result(20)
        wait_until_it_waits(ps, worker)
        [slot] = [it for it in set(threading.enumerate()) - before if it.name == "penstock-0"]
        handoff = worker.handoff
        send, is_reporting, may_report = handoff.send, threading.Event(), threading.Event()

        def send_late(build: Any) -> Any:
            is_reporting.set()
            may_report.wait(20)
            return send(build)

        handoff.send = send_late
        mail.add("email", {"number": 1})
        assert is_reporting.wait(20)
        own_server.kill()
        may_report.set()
        time.sleep(0.2)
        worker.stop()
        worker.stop()
        worker.join()

        slot.join(20)
        assert not slot.is_alive()
