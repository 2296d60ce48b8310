"""How long finished jobs are kept: by age, count and bytes, without being asked, bit by bit."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument, JobNotFound
from penstock.model.jobs import EndedAttempt, Report
from penstock.store.commands.job_records import purge_jobs
from tests.contract.job_workers import age_job
from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock
    from penstock.model.job_rules import JobQueueSettings
    from tests.contract.job_workers import Hand
    from tests.stored import Stored


def end_all(hand: Hand, outcome: str = "done", payload: bytes = b"") -> None:
    """Let everything that waits end that way."""
    while taken := hand.take(1000):
        reports = [Report(job.process, outcome, payload=payload) for job in taken]  # type: ignore[arg-type]
        hand.report(*reports)


def test_a_finished_job_can_be_looked_at(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", 1)
    end_all(hand)

    info = job.info()

    assert (info.state, info.data, info.attempts_made) == ("done", b"1", 1)
    assert info.created_at <= info.started_at <= info.finished_at == info.updated_at


def test_nothing_young_goes_by_default(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(30))
    end_all(hand)

    assert mail.purge() == 0

    assert mail.counts()["done"] == 30


def test_by_default_what_went_well_is_kept_for_a_day_and_what_died_for_a_month(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    done, dead = mail.add("email"), mail.add("email")
    hand.finish(hand.take_one())
    hand.fail(hand.take_one())
    day_ms = 24 * 3600 * 1000

    age_job(ps, done, day_ms - 60_000)
    age_job(ps, dead, 30 * day_ms - 60_000)
    assert mail.purge() == 0
    age_job(ps, done, day_ms + 60_000)
    assert mail.purge() == 1
    age_job(ps, dead, 30 * day_ms + 60_000)

    assert mail.purge() == 1
    assert mail.counts() == dict.fromkeys(mail.counts(), 0)


def test_jobs_older_than_their_time_go_with_the_requests_of_workers(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(keep_s=0.001)
    mail.add_many("email", range(60))
    end_all(hand)

    wait_for(lambda: hand.claim().word == "empty" and mail.counts()["done"] == 0)


def test_a_worker_with_nothing_to_do_purges_until_all_is_gone(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(250))
    while held := hand.take(50):
        for job in held:
            hand.finish(job)
    mail.configure(keep_s=0)

    waits = []
    while mail.counts()["done"]:
        waits.append(hand.claim().wait_ms)

    assert len(waits) <= 4
    assert set(waits[:2]) == {100}
    assert hand.claim().wait_ms == -1


@pytest.mark.parametrize("outcome", ["done", "final"])
def test_no_more_than_so_many_are_kept_and_the_oldest_go(
    mail: penstock.Jobs, hand: Hand, outcome: str
) -> None:
    mail.configure(keep_count=5)
    jobs = mail.add_many("email", range(20))
    for _ in jobs:
        hand.report(Report(hand.take_one().process, outcome))  # type: ignore[arg-type]

    mail.purge()

    page = mail.page("done" if outcome == "done" else "dead")
    assert [job.id for job in page.jobs] == [job.id for job in jobs[-5:]]


def test_no_more_than_so_many_bytes_are_kept_results_included(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(keep_bytes=1000)
    mail.add_many("email", [b"x" * 100] * 10)
    end_all(hand, payload=b"r" + b"y" * 99)

    mail.purge()

    assert mail.counts()["done"] == 5


def test_nothing_is_kept_if_nothing_is_to_be(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(keep_count=0)
    mail.add_many("email", range(3))
    end_all(hand)

    mail.purge()

    assert mail.counts()["done"] == 0


@pytest.mark.parametrize("settings", [{"keep_count": 0}, {"keep_bytes": 0}], ids=str)
def test_one_step_removes_no_more_than_it_may(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, settings: JobQueueSettings
) -> None:
    mail.add_many("email", range(30))
    end_all(hand)
    mail.add_many("email", range(30))
    end_all(hand, "final")
    mail.configure(**settings)

    purged: list[tuple[int, int]] = []
    while not purged or purged[-1][0]:
        purged.append(ps.store.run_once(lambda o: purge_jobs(hand.keys, o, 20)))

    assert purged == [(20, 40), (20, 20), (20, 0), (0, 0)]


def test_a_job_that_is_not_to_be_kept_goes_when_it_is_done(
    mail: penstock.Jobs, hand: Hand, stored: Stored
) -> None:
    done, dead = mail.add_many("email", [1, 2], keep=False, tags=["x"], search=True)
    hand.finish(hand.take_one())
    hand.fail(hand.take_one())

    with pytest.raises(JobNotFound):
        done.info()
    assert dead.state == "dead"
    assert mail.counts(tag="x") | {"dead": 0} == dict.fromkeys(mail.counts(), 0)
    assert len(stored.hash(f"{hand.keys.tag}:jobs")) == 1


def test_jobs_that_wait_or_run_are_never_purged(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(keep_s=0, keep_dead_s=0, keep_count=0, keep_bytes=0)
    mail.add_many("email", range(3))
    mail.add("email", delay=60)
    hand.take_one()

    mail.purge()

    counts = mail.counts()
    assert (counts["ready"], counts["running"], counts["scheduled"]) == (2, 1, 1)


def test_the_history_has_an_entry_for_each_attempt_that_ended(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", b"12345", tenant="acme", attempts=2, priority="high")
    hand.fail(hand.take_one())
    hand.finish(hand.take_one())

    failed, done = mail.history()

    assert replace(failed, place="", waited_ms=0, ended_at=0) == EndedAttempt(
        place="",
        job=job.id,
        type="email",
        tenant="acme",
        attempt=1,
        outcome="failed",
        waited_ms=0,
        ran_us=20,
        cpu_us=10,
        worker="hand",
        bytes=5,
        ended_at=0,
        created_at=job.info().created_at,
        priority=-10,
        state="ready",
        error_type="ValueError",
    )
    assert (done.attempt, done.outcome, done.state, done.error_type) == (2, "done", "done", "")
    assert 0 <= done.waited_ms < 60_000
    assert time.time() + 60 > done.ended_at >= failed.ended_at > time.time() - 60


def test_the_history_outlives_the_jobs_and_has_a_length(mail: penstock.Jobs, hand: Hand) -> None:
    mail.configure(history_length=100)
    for _ in range(3):
        mail.add_many("email", range(100))
        end_all(hand)
    mail.remove("done")

    assert 100 <= len(mail.history()) < 300


@pytest.mark.parametrize(
    "outcome", ["done", "failed", "final", "crashed", "cancelled", "stopped", "lost"]
)
def test_the_history_says_how_an_attempt_ended(
    mail: penstock.Jobs, hand: Hand, outcome: str
) -> None:
    mail.add("email")
    process = hand.take_one().process
    if outcome == "lost":
        hand.die()
    else:
        hand.report(Report(process, outcome))  # type: ignore[arg-type]

    history = [attempt.outcome for attempt in mail.history()]

    assert history == {"stopped": [], "final": ["failed"]}.get(outcome, [outcome])


@pytest.mark.stores("debian")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep_s": -1}, "keep_s is -1; give seconds from 0"),
        ({"keep_s": float("nan")}, "keep_s is nan; give seconds"),
        ({"keep_count": 1.5}, "keep_count is 1.5; give a whole number from 0 up"),
        ({"max_length": 0}, "max_length is 0; give a whole number from 1 up"),
        ({"max_bytes": -1}, "max_bytes is -1; give a whole number from 1 up"),
        ({"history_length": 0}, "history_length is 0; give a whole number from 1 up"),
        ({"colour": 1}, "a queue of jobs has no setting 'colour'; it has max_length"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(
    mail: penstock.Jobs, settings: JobQueueSettings, message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        mail.configure(**settings)
