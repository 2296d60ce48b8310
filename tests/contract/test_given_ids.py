"""Ids that the caller gives, and gives again when the job that had one is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import penstock
from tests.job_invariants import check_jobs

if TYPE_CHECKING:
    from tests.contract.job_workers import Hand

QUEUE = "mail"


def test_a_job_under_the_id_of_one_that_was_removed_has_its_own_place(
    ps: penstock.Penstock, hand: Hand
) -> None:
    mail, number = ps.jobs(QUEUE), penstock.new_job_id()
    mail.add("email", "old", id=number, priority="critical").remove()
    urgent = mail.add("email", "urgent", priority="high")

    again = mail.add("email", "new", id=number, priority="low")

    check_jobs(ps.store, ps.keys.queue(QUEUE))
    assert [hand.claim(1).found[0].id for _ in range(2)] == [urgent.id, again.id]


def test_a_job_under_the_id_of_one_that_was_removed_is_given_back_once(
    ps: penstock.Penstock, hand: Hand
) -> None:
    mail, number = ps.jobs(QUEUE), penstock.new_job_id()
    mail.add("email", "old", id=number, tenant="acme").remove()
    mail.add("email", "new", id=number, tenant="zeta")

    [job] = hand.claim(10).found
    hand.stop(job)

    check_jobs(ps.store, ps.keys.queue(QUEUE))
    assert [job.id for job in hand.claim(10).found] == [number]
