"""What Kue's own tests promise of workers, connections and shutdown: statements 25 to 48 of
seed-systems 3.2. test_kue_statements has the others, and why some have no test.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.errors import JobFailed
from tests.contract.job_workers import Hand
from tests.servers import RedisServer, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker
    from tests.servers import RedisCluster
    from tests.stored import Stored


@penstock.job(queue="mail", type="stuck", timeout=0.05)
async def stuck() -> None:
    await asyncio.sleep(60)


@penstock.job(queue="mail", type="quick")
def quick(name: str) -> str:
    return name


def test_25_a_stuck_job_fails_because_its_time_is_over(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(stuck)
    job = stuck.on(ps).send()

    with pytest.raises(JobFailed, match=r"\(timeout\): penstock.errors.JobTimeout"):
        job.result(20)


class Gate:
    """Jobs that wait for each other, and how many ran at once."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.running = self.most = 0
        self._lock = threading.Lock()

    def function(self) -> penstock.JobFunction[[], None]:
        @penstock.job(queue="mail", type="pass")
        def pass_gate() -> None:
            with self._lock:
                self.running += 1
                self.most = max(self.most, self.running)
            assert self.is_open.wait(20)
            with self._lock:
                self.running -= 1

        return pass_gate


def test_26_concurrency_2_runs_two_at_once(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    gate = Gate()
    function = gate.function()
    serve(function, concurrency=2)
    jobs = function.on(ps).send_many([()] * 4)

    wait_for(lambda: gate.running == 2)
    gate.is_open.set()

    assert ps.wait(jobs, 20)[1] == []
    assert gate.most == 2


def test_27_concurrency_1_runs_one_after_the_other(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    gate = Gate()
    gate.is_open.set()
    function = gate.function()
    serve(function, concurrency=1)
    jobs = function.on(ps).send_many([()] * 5)

    assert ps.wait(jobs, 20)[1] == []
    assert gate.most == 1


def test_28_after_a_timeout_the_slot_takes_the_next_job(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(stuck, quick, concurrency=1)
    stuck.on(ps).send()

    assert quick.on(ps).send("next").result(20) == "next"


def test_29_a_timeout_of_one_type_does_not_hold_up_another(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(stuck, concurrency=1)
    serve(quick, concurrency=1)
    failing = stuck.on(ps).send()

    assert quick.on(ps).send("other").result(20) == "other"
    assert ps.wait([failing], 20) == ([failing], [])


def test_30_complete_and_failed_jobs_are_removed_together(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(6))
    for number, job in enumerate(hand.take(6)):
        hand.finish(job) if number % 2 else hand.fail(job)

    assert (mail.remove("done"), mail.remove("dead")) == (3, 3)

    assert sum(mail.counts().values()) == 0


def test_31_a_job_that_succeeds_at_the_fifth_run_has_failed_four_times(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    @penstock.job(queue="mail", type="flaky", attempts=5, backoff="none")
    def flaky() -> int:
        attempt = penstock.current().attempt
        if attempt < 5:
            raise ValueError
        return attempt

    serve(flaky)
    job = flaky.on(ps).send()

    assert job.result(20) == 5
    assert [attempt.number for attempt in job.attempts()] == [1, 2, 3, 4]
    assert job.info().failures == 4


def test_32_a_client_is_made_from_a_url_with_a_database_0_by_default(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    with penstock.connect(any_store.url, namespace=namespace) as ps:
        assert ps.settings.address.db == 0
        ps.jobs("mail").add("email")
        assert ps.queues() == ["mail"]
    if isinstance(any_store, RedisServer):
        with penstock.connect(f"{any_store.url}?db=3", namespace=namespace) as elsewhere:
            assert elsewhere.settings.address.db == 3
            assert elsewhere.queues() == []


def test_33_namespaces_have_counts_and_workers_of_their_own(
    any_store: RedisServer | RedisCluster, namespace: str, mail: penstock.Jobs
) -> None:
    with penstock.connect(any_store.url, namespace=f"{namespace}-2") as other:
        mail.add("email", 1)
        other.jobs("mail").add("email", 2)

        assert mail.counts()["ready"] == other.jobs("mail").counts()["ready"] == 1
        assert Hand(other).run_all() == [2]
        assert (mail.counts()["ready"], other.jobs("mail").counts()["done"]) == (1, 1)


def test_35_stopping_the_worker_of_one_type_leaves_others_running(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(stuck)
    serve(quick)
    quick.on(ps).send("before").result(20)

    worker.stop()
    worker.join()

    assert quick.on(ps).send("after").result(20) == "after"
    waiting = stuck.on(ps).send()
    wait_for(lambda: waiting.explain().reasons[0].code == "no_worker_for_type")


def test_36_after_a_pause_the_remaining_jobs_run(
    ps: penstock.Penstock, mail: penstock.Jobs, serve: Callable[..., RunningWorker]
) -> None:
    serve(quick)
    quick.on(ps).send("before").result(20)
    mail.pause()
    jobs = quick.on(ps).send_many([("a",), ("b",)])

    assert ps.wait(jobs, 0.05) == ([], jobs)
    mail.resume()

    assert [job.result(20) for job in jobs] == ["a", "b"]


@pytest.fixture
def has_begun() -> threading.Event:
    """Set when the stubborn job really runs: "running" also says one that a worker holds ahead."""
    return threading.Event()


@pytest.fixture
def stubborn(has_begun: threading.Event) -> penstock.JobFunction[[], None]:
    """Ends only when it is told that its result is of no use any more."""

    @penstock.job(queue="mail", type="stubborn")
    def run() -> None:
        has_begun.set()
        wait_for(lambda: penstock.current().cancelled, timeout_s=60)

    return run


def test_37_a_job_that_outlasts_the_stop_and_must_not_run_twice_is_dead(
    ps: penstock.Penstock,
    serve: Callable[..., RunningWorker],
    stubborn: penstock.JobFunction[[], None],
    has_begun: threading.Event,
) -> None:
    worker = serve(stubborn, grace_s=0.05)
    job = stubborn.options(at_most_once=True).on(ps).send()
    assert has_begun.wait(20)

    worker.stop()
    worker.join()

    assert (job.state, job.info().reason) == ("dead", "lost")


def test_38_a_job_that_outlasts_the_stop_waits_again_at_no_cost(
    ps: penstock.Penstock,
    serve: Callable[..., RunningWorker],
    stubborn: penstock.JobFunction[[], None],
    has_begun: threading.Event,
) -> None:
    worker = serve(stubborn, grace_s=0.05)
    job = stubborn.on(ps).send()
    assert has_begun.wait(20)

    worker.stop()
    worker.join()

    info = job.info()
    assert (info.state, info.failures, info.crashes) == ("ready", 0, 0)


def test_48_all_keys_of_a_queue_share_one_slot_of_a_cluster(
    ps: penstock.Penstock, namespace: str, mail: penstock.Jobs, hand: Hand, stored: Stored
) -> None:
    mail.limit("k", concurrency=1)
    mail.add_many("email", range(3), key="k", tags=["x"], tenant="t", unique="u", search=True)
    mail.add("email", delay=60, attempts=2)
    mail.add("email", key="k")
    ps.schedules("mail").add("hourly", "email", every=3600)
    process = hand.take_one()
    hand.note(process, 50, b"a line")
    hand.fail(process)

    tags = {key.partition("}")[0] for key in stored.everything()}

    assert tags == {f"{{{namespace}", f"{{{namespace}:mail"}
