"""Moving many jobs of a queue at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    import penstock
    from penstock.model.jobs import JobState
    from tests.contract.job_workers import Hand


def test_a_caller_that_moves_many_jobs_is_told_how_far_it_is(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [{}] * 1100)
    seen: list[int] = []

    assert mail.cancel("ready", on_progress=seen.append) == 1100
    assert mail.remove("cancelled", on_progress=seen.append) == 1100

    assert seen == 2 * [250, 500, 750, 1000, 1100]


def test_dead_jobs_of_a_type_and_a_tenant_run_again(mail: penstock.Jobs, hand: Hand) -> None:
    for tenant in ("a", "b"):
        for type_ in ("email", "report"):
            mail.add_many(type_, [{}] * 3, tenant=tenant)
    for job in hand.take(12):
        hand.fail(job)

    assert mail.retry(type="email", tenant="a") == 3
    assert mail.counts(tenant="a")["ready"] == 3
    assert mail.counts(type="email")["dead"] == 3


@pytest.mark.parametrize("state", ["running", "done", "dead", "cancelled"])
def test_only_waiting_jobs_are_cancelled_together(
    mail: penstock.Jobs, hand: Hand, state: JobState
) -> None:
    mail.add("email")

    with pytest.raises(InvalidArgument, match=f"only waiting jobs .*, not {state} ones; give one"):
        mail.cancel(state)


def test_running_jobs_are_not_removed_together(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email")
    hand.take_one()

    with pytest.raises(InvalidArgument, match="running jobs cannot be removed; cancel each"):
        mail.remove("running")

    assert mail.counts()["running"] == 1


def test_a_job_that_may_start_already_keeps_its_place_when_it_is_promoted(
    mail: penstock.Jobs, hand: Hand
) -> None:
    first, second = mail.add("email"), mail.add("email")

    first.promote()
    first.reschedule(0)

    assert [job.id for job in hand.take(5)] == [first.id, second.id]
    assert first.info().updated_at == first.info().started_at
