"""What the history of a queue of jobs has: every attempt, and every job that ended without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.codec.attempts import pack_error
from penstock.model.jobs import JobError, Report
from tests.contract.job_workers import Hand, now_s
from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock
    from tests.stored import Stored


def endings(mail: penstock.Jobs) -> list[tuple[str, int, str, str | None]]:
    return [(one.job, one.attempt, one.outcome, one.state) for one in mail.history()]


def test_a_job_that_expires_leaves_an_entry(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", expires=0.001, tenant="acme", priority=3)
    wait_for(lambda: now_s(mail) > job.info().created_at + 0.005)
    assert (hand.take(), job.state) == ([], "dead")

    [entry] = mail.history()
    assert endings(mail) == [(job.id, 0, "expired", "dead")]
    assert (entry.tenant, entry.priority, entry.worker, entry.error_type) == ("acme", 3, "", "")
    assert (entry.ran_us, entry.cpu_us) == (0, 0)
    assert entry.waited_ms > 0


@pytest.mark.parametrize("delay", [0, 60])
def test_a_job_that_is_cancelled_while_it_waits_leaves_an_entry(
    mail: penstock.Jobs, delay: int
) -> None:
    job = mail.add("email", delay=delay)

    job.cancel()
    job.cancel()

    assert endings(mail) == [(job.id, 0, "cancelled", "cancelled")]
    assert mail.history()[0].created_at == job.info().created_at
    assert mail.history()[0].waited_ms < 60_000


def test_a_job_that_is_removed_while_it_waits_leaves_an_entry(mail: penstock.Jobs) -> None:
    job = mail.add("email")

    job.remove()

    assert endings(mail) == [(job.id, 0, "removed", "removed")]


def test_a_job_that_is_removed_when_it_has_ended_leaves_no_second_entry(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    hand.finish(hand.take_one())

    job.remove()

    assert endings(mail) == [(job.id, 1, "done", "done")]


def test_a_job_asked_to_end_that_is_given_back_leaves_an_entry(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    held = hand.take_one()
    job.cancel()

    hand.stop(held)

    assert endings(mail) == [(job.id, 0, "cancelled", "cancelled")]


def test_an_entry_says_which_state_followed(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", attempts=3)
    hand.fail(hand.take_one())
    hand.fail(hand.take_one(), delay_ms=60_000)
    mail.add("email")
    hand.crash(hand.take_one())
    hand.reject(hand.take_one())
    mail.add("email", keep=False)
    hand.finish(hand.take_one())

    assert [(one.outcome, one.state) for one in mail.history()] == [
        ("failed", "ready"),
        ("failed", "scheduled"),
        ("crashed", "ready"),
        ("failed", "dead"),
        ("done", "done"),
    ]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("ValueError", "ValueError"),
        ("shop.Größenfehler", "shop.Größenfehler"),
        ("x" * 255, "x" * 255),
        ("x" * 256, "x" * 255),
        ("x" * 254 + "ß", "x" * 254),
        ("", ""),
    ],
)
def test_an_entry_has_the_type_of_the_error(
    mail: penstock.Jobs, hand: Hand, given: str, kept: str
) -> None:
    mail.add("email")
    error = pack_error(JobError(given, 'said "no"', "a long story " * 10_000))

    hand.report(Report(hand.take_one().process, "failed", 20, 10, 0, "", error))

    assert [one.error_type for one in mail.history()] == [kept]


def test_what_is_no_error_has_no_type(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", attempts=2)
    hand.report(Report(hand.take_one().process, "failed", payload=b"no JSON"))
    hand.report(Report(hand.take_one().process, "done", payload=b'["a result"]'))

    assert [one.error_type for one in mail.history()] == ["", ""]


def test_a_deleted_queue_leaves_no_history(mail: penstock.Jobs, stored: Stored) -> None:
    mail.add("email")

    mail.delete()

    assert mail.history() == []
    assert [key for key in stored.types() if key.endswith("history")] == []
