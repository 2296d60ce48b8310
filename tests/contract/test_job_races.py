"""The defects of worqr and rrq that touch jobs (seed-systems 2.1 and 2.3), shown not to be ours."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock.model.jobs import Report
from penstock.store.commands import jobs, workers
from tests.contract.job_workers import MINUTE_MS, Hand
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    import penstock
    from penstock.store.command import Operation
    from penstock.store.keys import NamespaceKeys

ELSEWHERE = {
    "W1": "test_jobs_order:test_jobs_of_lost_workers_regain_their_place_in_whatever_order_they_are_"
    "found",
    "W7": "test_jobs_unique:test_of_many_senders_at_once_one_adds_the_job",
    "W8": "test_jobs_unique:test_however_a_job_ends_its_key_is_free",
    "W9": "test_jobs_sending:test_an_idle_worker_hears_of_a_new_job_at_once",
    "W12": "test_jobs_failure:test_a_job_that_kills_its_worker_three_times_is_dead_as_poison",
    "R1": "test_kue_races:test_k02_a_crash_right_after_the_claim_loses_nothing",
    "R9": "test_kue_races:test_k04_jobs_of_a_dead_worker_are_found_by_any_peer",
    "R12": "test_jobs_cancel:test_a_removed_job_leaves_nothing_behind",
    "R14": "test_jobs_cancel:test_a_function_in_a_thread_sees_that_it_is_to_end",
    "R15": "test_kue_races:test_k08_a_backoff_is_data_and_never_run",
}
"""Those that other files show. R3, R4 and R8 are about dependencies, which jobs do not have yet; R5
is about rrq's object store, R10 about its heartbeat; the other W are about plain tasks.
"""


@pytest.mark.parametrize("place", ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_is_shown_elsewhere_is_there(place: str) -> None:
    module, _, name = place.partition(":")

    assert callable(getattr(importlib.import_module(f"tests.contract.{module}"), name))


def test_w02_failing_one_worker_leaves_the_jobs_of_the_others_alone(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add_many("email", ["a", "b"])
    one, other = Hand(ps, "one"), Hand(ps, "other")
    one.take_one()
    held = other.take_one()

    assert one.die() == (1, 0)

    assert mail.counts()["running"] == 1
    assert other.finish(held)


def test_w03_a_job_taken_while_its_worker_is_failed_is_not_lost(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(300))
    doomed = Hand(ps, "doomed")

    def take_until_lost() -> None:
        while doomed.claim(3).word != "not_working":
            pass

    with ThreadPoolExecutor(1) as thread:
        taking = thread.submit(take_until_lost)
        wait_for(lambda: mail.counts()["running"] > 5)
        doomed.die()
        taking.result(20)

    assert mail.counts()["running"] == 0
    assert hand.take_named(1000)[:100] == list(range(100))


def test_w04_a_recovery_that_broke_off_is_done_again_by_a_peer(
    ps: penstock.Penstock, hand: Hand, names: NamespaceKeys, operations: Iterator[Operation]
) -> None:
    for queue in ("mail", "cards"):
        ps.jobs(queue).add("email", queue)
    dead = Hand(ps, "dead")
    ps.store.run(workers.start_work(names, "dead", "cards", "jobs"))
    cards = names.queue("cards")
    ps.store.run(jobs.join_jobs(cards, next(operations), "dead", None))
    ps.store.run(jobs.start_jobs(cards, next(operations), "dead", 1))
    dead.take_one()
    ps.store.run(workers.fail_worker(names, "dead", retry_ms=0))
    ps.store.run(jobs.leave_jobs(dead.keys, next(operations), "dead", is_lost=True))

    assert ps.store.run(workers.keep_worker_alive(names, hand.id, MINUTE_MS, 10)) == ["dead"]
    assert ps.fail_worker("dead") == (1, 0)

    assert [ps.jobs(queue).counts()["ready"] for queue in ("mail", "cards")] == [1, 1]
    assert [info.id for info in ps.workers()] == [hand.id]


@pytest.mark.parametrize("outcome", ["done", "failed", "final", "crashed", "stopped", "cancelled"])
def test_w05_who_does_not_hold_a_job_cannot_say_anything_about_it(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, outcome: str
) -> None:
    job = mail.add("email")
    process = hand.take_one()
    before = job.info()

    refused = Hand(ps, "other").report(Report(process.process, outcome))  # type: ignore[arg-type]

    assert refused == [process.process]
    assert job.info() == before
    assert hand.finish(process)


def test_w13_a_job_is_finished_once_however_often_it_is_reported(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    process = hand.take_one()

    assert [hand.finish(process, number) for number in range(3)] == [True, False, False]

    assert job.result(5) == 0
    assert mail.counts()["done"] == 1


def test_r06_removing_one_job_keeps_all_others_and_their_order(
    mail: penstock.Jobs, hand: Hand
) -> None:
    sent = mail.add_many("email", range(5))

    sent[2].remove()
    mail.add("email", 5)

    assert hand.run_all() == [0, 1, 3, 4, 5]


def test_r07_running_again_keeps_the_options(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add(
        *("email", 1),
        timeout=30,
        tags=["x"],
        tenant="t",
        key="k",
        priority="high",
        backoff=5,
        attempts=2,
    )
    first = hand.take_one()
    hand.reject(first)
    before = job.info()

    job.retry()

    again = hand.take_one()
    assert (again.id, again.timeout_ms, again.backoff) == (first.id, 30_000, "fixed:5000")
    after = job.info()
    for name in ("queue", "type", "data", "priority", "tenant", "tags", "key", "attempts"):
        assert getattr(after, name) == getattr(before, name)


def test_r13_a_log_has_a_length(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    process = hand.take_one()
    for start in range(0, 1200, 400):
        hand.note(process, None, *(b"line %d" % number for number in range(start, start + 400)))

    lines = [text for _, text in job.log()]

    assert lines == [f"line {number}" for number in range(200, 1200)]
    assert [text for _, text in job.log(offset=-2)] == ["line 1198", "line 1199"]
