"""Dead and cancelled jobs that are told to run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import IllegalMove
from penstock.model.jobs import Report

if TYPE_CHECKING:
    import penstock
    from tests.contract.job_workers import Hand


def test_a_dead_job_can_run_again_with_all_its_attempts(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", 1, attempts=2)
    hand.fail(hand.take_one())
    hand.fail(hand.take_one())

    assert job.retry() == "ready"

    info = job.info()
    assert (info.failures, info.reason, info.error, info.finished_at) == (0, "", None, 0)
    assert len(job.attempts()) == 2
    hand.fail(hand.take_one())
    assert hand.run_all() == [1]


@pytest.mark.parametrize(
    ("which", "names"),
    [
        ({}, ["a", "b", "c"]),
        ({"type": "email"}, ["a", "b"]),
        ({"tenant": "acme"}, ["b", "c"]),
        ({"tag": "x"}, ["a"]),
        ({"type": "email", "tenant": "acme"}, ["b"]),
        ({"type": "other"}, []),
    ],
    ids=str,
)
def test_dead_jobs_can_be_chosen_to_run_again(
    mail: penstock.Jobs, hand: Hand, which: dict[str, str], names: list[str]
) -> None:
    mail.add("email", "a", tags=["x"])
    mail.add("email", "b", tenant="acme", tags=["y"])
    mail.add("fax", "c", tenant="acme")
    for job in hand.take(3):
        hand.fail(job)

    assert mail.retry(**which) == len(names)  # type: ignore[arg-type]

    assert sorted(hand.run_all()) == names
    assert mail.counts()["dead"] == 3 - len(names)


def test_many_dead_jobs_run_again_in_the_order_in_which_they_were_sent(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(1200))
    while taken := hand.take(1000):
        hand.report(*(_failure(job.process) for job in taken))
    assert mail.counts()["dead"] == 1200

    assert mail.retry() == 1200

    assert hand.take_named(1000) == list(range(1000))


@pytest.mark.parametrize("state", ["ready", "scheduled", "running", "done"])
def test_only_dead_and_cancelled_jobs_can_run_again(
    mail: penstock.Jobs, hand: Hand, state: str
) -> None:
    job = mail.add("email", delay=60 if state == "scheduled" else 0)
    if state in ("running", "done"):
        process = hand.take_one()
    if state == "done":
        hand.finish(process)

    with pytest.raises(IllegalMove, match=f"job {job.id} is {state}; dead and cancelled jobs can"):
        job.retry()

    assert job.state == state


def _failure(process: int) -> Report:
    return Report(process, "failed")
