"""Jobs that fail: attempts, what is recorded of each, and the ways to the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.errors import JobFailed
from penstock.model.jobs import MAX_LAPSES
from penstock.store.kinds import KINDS
from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.running_worker import RunningWorker


def test_a_job_is_tried_as_often_as_it_may_and_then_dead(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", 1, attempts=3)

    for number in (1, 2, 3):
        taken = hand.take_one()
        assert (taken.failures, taken.attempts) == (number - 1, 3)
        hand.fail(taken, f"error {number}")

    info = job.info()
    assert (info.state, info.reason, info.failures, info.crashes) == ("dead", "failed", 3, 0)
    assert info.error is not None
    assert (info.error.type, info.error.message) == ("ValueError", "error 3")
    assert hand.run_all() == []


def test_a_job_is_tried_once_unless_it_says_otherwise(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")

    hand.fail(hand.take_one())

    assert job.state == "dead"


def test_every_attempt_that_failed_is_kept_with_its_error(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", attempts=3)
    for number in (1, 2):
        hand.fail(hand.take_one(), f"error {number}")
    hand.finish(hand.take_one(), "at last")

    first, second = job.attempts()

    assert (first.number, first.outcome, first.worker) == (1, "failed", "hand")
    assert first.started_at <= first.ended_at <= second.started_at
    assert first.error is not None and second.error is not None
    assert (first.error.type, first.error.message, first.error.traceback) == (
        *("ValueError", "error 1"),
        "Traceback",
    )
    assert second.error.message == "error 2"
    assert job.result(5) == "at last"


def test_the_last_20_attempts_are_kept(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", attempts=25)
    for number in range(1, 26):
        hand.fail(hand.take_one(), f"error {number}")

    attempts = job.attempts()

    assert [attempt.number for attempt in attempts] == list(range(6, 26))
    assert job.info().failures == 25


def test_crashes_are_counted_apart_and_use_up_no_attempt(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = mail.add("email", attempts=2)
    hand = Hand(ps, "w1")
    hand.fail(hand.take_one())
    hand.crash(hand.take_one())
    hand.take_one()
    hand.die()

    info = job.info()

    assert (info.state, info.failures, info.crashes) == ("ready", 1, 2)
    assert [attempt.outcome for attempt in job.attempts()] == ["failed", "crashed", "lost"]
    assert [attempt.number for attempt in job.attempts()] == [1, 2, 3]


def test_a_job_that_kills_its_worker_three_times_is_dead_as_poison(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = mail.add("email", attempts=100)
    for number in range(3):
        assert job.state == "ready"
        worker = Hand(ps, f"w{number}")
        worker.take_one()
        worker.die()

    info = job.info()
    assert (info.state, info.reason, info.crashes) == ("dead", "poison", 3)
    assert "taken its worker down three times" in str(job.explain())


def test_a_lapsed_lease_alone_is_no_crash_and_uses_up_no_attempt(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = mail.add("email", attempts=2)
    for number in range(4):
        worker = Hand(ps, f"w{number}")
        assert worker.take_one().lapses == number
        assert worker.lapse() == (1, 0)

    info = job.info()
    assert (info.state, info.failures, info.crashes, info.lapses) == ("ready", 0, 0, 4)
    assert info.attempts_made == 4
    outcomes = [(attempt.number, attempt.outcome) for attempt in job.attempts()]
    assert outcomes == [(n, "lapsed") for n in (1, 2, 3, 4)]
    assert [entry.outcome for entry in mail.history()] == ["lapsed"] * 4
    error = job.attempts()[0].error
    assert error is not None
    assert "lease had lapsed, and nobody has reported its death" in error.message


def test_lapses_and_crashes_have_limits_of_their_own(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    hand.crash(hand.take_one())
    hand.crash(hand.take_one())
    for number in range(MAX_LAPSES - 1):
        worker = Hand(ps, f"w{number}")
        worker.take_one()
        assert worker.lapse() == (1, 0)
    assert job.state == "ready"

    hand.crash(hand.take_one())

    info = job.info()
    assert (info.reason, info.crashes, info.lapses) == ("poison", 3, MAX_LAPSES - 1)


def test_a_job_under_which_leases_lapse_again_and_again_is_dead_and_says_why(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = mail.add("email")
    for number in range(MAX_LAPSES):
        worker = Hand(ps, f"w{number}")
        worker.take_one()
        worker.lapse()

    info = job.info()
    assert (info.state, info.reason, info.crashes) == ("dead", "lapsed", 0)
    assert "lease of the worker that held it lapsed 10 times" in str(job.explain())
    with pytest.raises(JobFailed, match=r"is dead \(lapsed\): .*lease had lapsed"):
        job.result(5)
    assert job.retry()
    assert job.info().lapses == 0


def test_a_worker_that_finds_its_lease_lapsed_says_that_it_lived(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = mail.add("email")
    worker = Hand(ps, "frozen")
    worker.take_one()
    session = ps.worker("frozen")
    session.id = worker.id
    session._queues["mail"] = KINDS["jobs"]

    session.abandon()

    [attempt] = job.attempts()
    assert attempt.outcome == "lapsed"
    assert attempt.error is not None
    assert "did not answer until its lease had lapsed, but lived" in attempt.error.message


def test_a_job_that_lapsed_twice_is_handed_out_alone(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email", "suspect")
    mail.add_many("email", ["b", "c"])
    for number in range(2):
        worker = Hand(ps, f"w{number}")
        assert worker.take_named() == ["suspect"]
        worker.lapse()

    assert hand.take_named(3) == ["suspect"]
    assert hand.take_named(3) == ["b", "c"]


def test_what_must_run_at_most_once_is_dead_when_the_lease_of_its_worker_lapses(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = mail.add("email", at_most_once=True)
    worker = Hand(ps, "w1")
    worker.take_one()

    assert worker.lapse() == (0, 1)

    assert (job.state, job.info().reason, job.info().lapses) == ("dead", "lost", 1)
    assert "died or lost its lease, and it must not run twice" in str(job.explain())


def test_the_record_of_a_poisonous_job_says_what_killed_its_process(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    for _ in range(3):
        hand.crash(hand.take_one())

    error = job.info().error
    assert error is not None
    assert "signal 9 (SIGKILL), peak memory 7 MiB" in error.message
    with pytest.raises(JobFailed, match=r"is dead \(poison\): JobCrashed: .*SIGKILL"):
        job.result(5)


def test_a_job_that_crashed_twice_is_handed_out_alone(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add("email", "suspect")
    mail.add_many("email", ["b", "c"])
    for number in range(2):
        worker = Hand(ps, f"w{number}")
        assert worker.take_named() == ["suspect"]
        worker.die()
    hand = Hand(ps, "w2")

    [suspect] = hand.take(3)
    assert hand.take_named(2) == ["b", "c"]
    hand.finish(suspect)

    assert mail.counts()["done"] == 1


def test_a_suspect_job_does_not_run_beside_others_that_came_before_it(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add_many("email", ["a", "suspect", "c"])
    for number in range(2):
        worker = Hand(ps, f"w{number}")
        first, second = worker.take(2)
        worker.finish(first) if number else worker.stop(first)
        assert second.data == b'"suspect"'
        worker.die()
    mail.add("email", "urgent", priority="high")
    hand = Hand(ps, "w2")

    assert hand.take_named(3) == ["urgent"]
    assert hand.take_named(3) == ["suspect"]
    assert hand.take_named(3) == ["c"]


def test_what_must_run_at_most_once_is_dead_when_its_worker_dies(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    job = mail.add("email", at_most_once=True)
    worker = Hand(ps, "w1")
    worker.take_one()

    assert worker.die() == (0, 1)

    assert (job.state, job.info().reason) == ("dead", "lost")


def test_what_must_run_at_most_once_is_dead_when_its_process_dies(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", at_most_once=True)

    hand.crash(hand.take_one())

    assert (job.state, job.info().reason) == ("dead", "lost")


def test_what_must_run_at_most_once_is_not_given_back_by_a_worker_that_goes(
    mail: penstock.Jobs, hand: Hand
) -> None:
    once = mail.add("email", at_most_once=True)
    again = mail.add("email")
    assert len(hand.take(2)) == 2

    assert hand.leave() == (1, 1)

    assert (once.state, once.info().reason, again.state) == ("dead", "lost", "ready")


def test_what_must_run_at_most_once_and_was_not_begun_can_be_given_back(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email", 1, at_most_once=True)

    hand.stop(hand.take_one())

    assert hand.run_all() == [1]


def test_what_must_run_at_most_once_is_dead_when_it_fails(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", 1, at_most_once=True)

    hand.fail(hand.take_one())

    assert (job.state, job.info().reason) == ("dead", "failed")


def test_a_job_that_says_trying_again_is_of_no_use_is_dead_at_once(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", attempts=5)

    hand.reject(hand.take_one())

    info = job.info()
    assert (info.state, info.reason, info.failures) == ("dead", "rejected", 1)
    assert "its own code said" in str(job.explain())


def test_exceptions_decide_whether_a_job_is_tried_again(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    settings: Any = {"queue": "mail", "attempts": 2, "backoff": "none"}

    @penstock.job(type="any", **settings)
    def fail() -> None:
        raise ValueError("any")

    @penstock.job(type="rejects", **settings)
    def reject() -> None:
        raise penstock.Reject("bad address")

    @penstock.job(type="dead_on", dead_on=(KeyError,), **settings)
    def fail_for_good() -> None:
        raise KeyError("for good")

    @penstock.job(type="retry_on", retry_on=(KeyError,), **settings)
    def fail_otherwise() -> None:
        raise ValueError("not on the list")

    @penstock.job(type="retries", **settings)
    def ask_for_later() -> str:
        if penstock.current().attempt == 1:
            raise penstock.Retry(after=0.01)
        return "later"

    functions = (fail, reject, fail_for_good, fail_otherwise, ask_for_later)
    serve(*functions, concurrency=4)
    jobs = [function.on(ps).send() for function in functions]
    ps.wait(jobs, 20)

    found = [(job.info().reason, job.info().failures) for job in jobs]
    assert found == [("failed", 2), ("rejected", 1), ("rejected", 1), ("rejected", 1), ("", 1)]
    assert jobs[4].result(5) == "later"
