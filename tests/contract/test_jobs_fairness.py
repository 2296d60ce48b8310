"""Who gets a turn: tenants in proportion to their shares, and the old before the urgent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument, QueueNotFound
from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock
    from tests.contract.job_workers import Hand


def send(mail: penstock.Jobs, **counts: int) -> None:
    """So many jobs of each tenant, those of one tenant after those of another."""
    for tenant, count in counts.items():
        mail.add_many("email", [f"{tenant}{number}" for number in range(count)], tenant=tenant)


def test_tenants_take_turns(mail: penstock.Jobs, hand: Hand) -> None:
    send(mail, a=3, b=3, c=3)

    assert hand.run_all() == ["a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"]


def test_tenants_take_turns_also_inside_one_claim(mail: penstock.Jobs, hand: Hand) -> None:
    send(mail, a=3, b=3, c=3)

    assert hand.take_named(5) == ["a0", "b0", "c0", "a1", "b1"]
    assert hand.take_named(4) == ["c1", "a2", "b2", "c2"]


def test_a_tenant_with_a_larger_share_starts_more_jobs_in_its_turn(
    mail: penstock.Jobs, hand: Hand
) -> None:
    send(mail, a=6, b=6, c=3)
    mail.share("a", 3)
    mail.share("b", 2)

    assert hand.run_all() == [
        *("a0", "a1", "a2", "b0", "b1", "c0"),
        *("a3", "a4", "a5", "b2", "b3", "c1"),
        *("b4", "b5", "c2"),
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_shares_are_the_same_however_many_jobs_a_claim_asks_for(
    mail: penstock.Jobs, hand: Hand, size: int
) -> None:
    send(mail, a=6, b=2)
    mail.share("a", 3)

    taken: list[str] = []
    while names := hand.take_named(size):
        taken += names

    assert taken == ["a0", "a1", "a2", "b0", "a3", "a4", "a5", "b1"]


def test_a_share_changed_meanwhile_counts_from_the_next_turn(
    mail: penstock.Jobs, hand: Hand
) -> None:
    send(mail, a=4, b=4)
    assert hand.take_named(2) == ["a0", "b0"]

    mail.share("b", 2)
    assert hand.take_named(3) == ["a1", "b1", "b2"]
    mail.share("b", 1)

    assert hand.take_named(3) == ["a2", "b3", "a3"]


def test_no_slot_stays_empty_because_a_tenant_has_nothing(mail: penstock.Jobs, hand: Hand) -> None:
    send(mail, a=5, b=1)
    mail.share("b", 100)

    assert hand.run_all() == ["a0", "b0", "a1", "a2", "a3", "a4"]


def test_a_tenant_that_comes_later_waits_for_one_round_at_most(
    mail: penstock.Jobs, hand: Hand
) -> None:
    send(mail, a=100)
    assert len(hand.take(10)) == 10

    send(mail, b=2)

    assert hand.take_named(4) == ["a10", "b0", "a11", "b1"]


def test_jobs_without_a_tenant_are_a_tenant_of_their_own(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", ["0", "1"])
    send(mail, a=2)

    assert hand.run_all() == ["0", "a0", "1", "a1"]


def test_turns_are_among_jobs_of_equal_priority_only(mail: penstock.Jobs, hand: Hand) -> None:
    send(mail, a=2)
    mail.add_many("email", ["b high 0", "b high 1"], tenant="b", priority="high")

    assert hand.run_all() == ["b high 0", "b high 1", "a0", "a1"]


def test_a_share_is_from_1_to_1000_and_for_a_queue_that_exists(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    with pytest.raises(QueueNotFound, match="there is no queue 'mail'; send a job"):
        mail.share("a", 2)
    mail.add("email")
    for weight in (0, -1, 1001, 1.5, True, "2"):
        with pytest.raises(InvalidArgument, match="whole number from 1 to 1000"):
            mail.share("a", weight)  # type: ignore[arg-type]


def test_without_ageing_an_urgent_job_always_comes_first(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", "old and low", priority="low")
    mail.add_many("email", ["new", "newer"])

    assert hand.run_all() == ["new", "newer", "old and low"]


def test_with_ageing_a_job_gains_a_step_for_each_so_many_seconds_that_it_waits(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(ageing_s=0.001)
    old = mail.add("email", "old and low", priority="low")
    wait_for(lambda: _age_ms(mail, old) > 50)
    mail.add("email", "new and high", priority="high")

    assert hand.run_all() == ["old and low", "new and high"]


def test_with_ageing_too_the_urgent_one_of_two_new_jobs_comes_first(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(ageing_s=60)
    mail.add("email", "low", priority="low")
    mail.add("email", "high", priority="high")

    assert hand.run_all() == ["high", "low"]


def test_with_ageing_a_job_that_is_gone_does_not_hold_up_its_level(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.configure(ageing_s=0.001)
    gone = mail.add("email", "gone", priority="low")
    old = mail.add("email", "old and low", priority="low")
    wait_for(lambda: _age_ms(mail, old) > 50)
    gone.reschedule(3600)
    mail.add("email", "new and high", priority="high")

    assert hand.run_all() == ["old and low", "new and high"]


def _age_ms(mail: penstock.Jobs, job: penstock.Job[object]) -> float:
    """How long a job has waited, on the clock of the store."""
    seconds, microseconds = mail._store.call(mail._keys.meta, "TIME")
    return int(seconds) * 1000 + int(microseconds) / 1000 - job.info().due_at * 1000


def test_what_is_left_of_a_turn_goes_with_the_line(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.share("a", 3)
    send(mail, a=2, b=1)
    assert hand.take_named(1) == ["a0"]
    mail.cancel("ready", tenant="b")

    assert hand.take_named(5) == ["a1"]
    assert hand.take_named(1) == []

    key = f"{hand.keys.tag}:credits"
    assert ps.store.call(key, "HGETALL", key) == []
