"""Who gets a turn: tenants in proportion to their shares, and the old before the urgent."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidArgument
from tests.contract.job_workers import Hand, now_s
from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock


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


def test_a_tenant_with_a_larger_share_starts_more_jobs_in_a_round(
    mail: penstock.Jobs, hand: Hand
) -> None:
    send(mail, a=6, b=6, c=3)
    mail.share("a", 3)
    mail.share("b", 2)

    order = hand.run_all()

    assert Counter(name[0] for name in order[:12]) == {"a": 6, "b": 4, "c": 2}
    assert [name for name in order if name[0] == "b"] == ["b0", "b1", "b2", "b3", "b4", "b5"]


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
    send(mail, a=40, b=40)
    assert hand.take_named(2) == ["a0", "b0"]

    mail.share("b", 2)
    of_b = sum(name[0] == "b" for name in hand.take_named(30))
    assert of_b in (19, 20, 21)
    mail.share("b", 1)

    of_b = sum(name[0] == "b" for name in hand.take_named(30))
    assert of_b in (14, 15, 16)


@pytest.mark.parametrize("size", [96, 100, 200])
def test_who_asks_for_many_gets_as_many_of_each_tenant(
    mail: penstock.Jobs, hand: Hand, size: int
) -> None:
    send(mail, a=400, b=400, c=400)
    mail.share("c", 2)

    taken = Counter(name[0] for _ in range(3) for name in hand.take_named(size))

    # A turn takes size / 12 jobs at once, so that is how far they may be apart.
    assert abs(taken["a"] - taken["b"]) <= size // 12
    assert abs(taken["a"] + taken["b"] - taken["c"]) <= 2 * (size // 12)


def test_who_got_more_in_a_turn_waits_longer_for_the_next(mail: penstock.Jobs, hand: Hand) -> None:
    send(mail, a=200, b=200)

    # 23 turns of two jobs and one of one, which would always be the same tenant's.
    for _ in range(8):
        assert len(hand.take_named(47)) == 47

    left = [mail.counts(tenant=tenant)["ready"] for tenant in ("a", "b")]
    assert abs(left[0] - left[1]) <= 2


def test_to_leave_and_come_again_gains_nothing(mail: penstock.Jobs, hand: Hand) -> None:
    send(mail, b=100, c=100)

    taken = []
    for number in range(30):
        send(mail, a=1)
        taken += hand.take_named(1 + number % 2)

    assert 0.9 < Counter(name[0] for name in taken)["a"] / (len(taken) / 3) <= 1.1


@pytest.mark.parametrize("tenants", [31, 32, 33, 64, 65, 100])
@pytest.mark.parametrize("size", [1, 7, 15, 23])
def test_many_tenants_take_turns_however_many_are_asked_for(
    mail: penstock.Jobs, hand: Hand, tenants: int, size: int
) -> None:
    names = [f"t{number:03}" for number in range(tenants)]
    send(mail, **dict.fromkeys(names, 3))

    taken: list[str] = []
    while found := hand.take_named(size):
        taken += found

    assert [name[:-1] for name in taken] == names * 3
    assert [name[-1] for name in taken] == ["0"] * tenants + ["1"] * tenants + ["2"] * tenants


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


@pytest.mark.parametrize("tenants", [1, 31, 32, 33, 64, 96, 97])
@pytest.mark.parametrize("size", [1, 32, 64, 200])
def test_tenants_that_all_leave_at_once_leave_nothing_behind(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, tenants: int, size: int
) -> None:
    names = [f"t{number:03}" for number in range(tenants)]
    send(mail, **dict.fromkeys(names, 1))

    taken: list[str] = []
    while found := hand.take_named(size):
        taken += found

    assert sorted(taken) == [f"{name}0" for name in names]
    for kind in ("levels", "ring:0"):
        key = f"{hand.keys.tag}:{kind}"
        assert ps.store.call(key, "EXISTS", key) == 0


def test_turns_are_among_jobs_of_equal_priority_only(mail: penstock.Jobs, hand: Hand) -> None:
    send(mail, a=2)
    mail.add_many("email", ["b high 0", "b high 1"], tenant="b", priority="high")

    assert hand.run_all() == ["b high 0", "b high 1", "a0", "a1"]


def test_a_share_is_from_1_to_1000(mail: penstock.Jobs) -> None:
    for weight in (0, -1, 1001, 1.5, True, "2"):
        with pytest.raises(InvalidArgument, match="whole number from 1 to 1000"):
            mail.share("a", weight)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [0, 0.0, timedelta()])
def test_ageing_in_no_time_is_refused_and_none_ends_it(mail: penstock.Jobs, seconds: Any) -> None:
    mail.configure(ageing_s=60)

    with pytest.raises(
        InvalidArgument, match=r"give seconds above 0, or None \(the default\) for no"
    ):
        mail.configure(ageing_s=seconds)
    assert mail.rules().settings == {"ageing_s": 60.0}

    mail.configure(ageing_s=None)
    assert mail.rules().settings == {}


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
    return (now_s(mail) - job.info().due_at) * 1000


def test_the_ring_goes_with_its_last_line(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    send(mail, a=2, b=1)
    assert hand.take_named(1) == ["a0"]
    mail.cancel("ready", tenant="b")

    assert hand.take_named(5) == ["a1"]
    assert hand.take_named(1) == []

    for key in (f"{hand.keys.tag}:ring:0", f"{hand.keys.tag}:levels"):
        assert ps.store.call(key, "EXISTS", key) == 0
