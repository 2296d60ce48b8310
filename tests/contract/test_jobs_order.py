"""In which order jobs run: by priority, then as they were sent, wherever they have been since."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from penstock.model.jobs import PRIORITIES
from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    import penstock
    from penstock.model.jobs import Priority


def test_the_lower_number_runs_first_and_names_stand_for_numbers(
    mail: penstock.Jobs, hand: Hand
) -> None:
    given: list[Priority] = ["low", "normal", "medium", "high", "critical", 7, -7, -(2**31) + 1]
    for priority in given:
        mail.add("email", priority, priority=priority)

    assert hand.run_all() == [-(2**31) + 1, "critical", "high", -7, "medium", "normal", 7, "low"]


@pytest.mark.parametrize(("name", "number"), list(PRIORITIES.items()))
def test_a_named_priority_is_the_number(mail: penstock.Jobs, name: Priority, number: int) -> None:
    assert mail.add("email", priority=name).info().priority == number


def test_jobs_of_one_level_run_in_the_order_in_which_they_were_sent(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(5))
    mail.add("fax", 5)
    mail.add_many("email", range(6, 9))

    assert hand.run_all() == list(range(9))


def test_one_claim_takes_jobs_of_several_levels_in_their_order(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", ["b1", "b2"])
    mail.add_many("email", ["a1", "a2"], priority="high")
    mail.add_many("email", ["c1", "c2"], priority="low")

    assert hand.take_named(5) == ["a1", "a2", "b1", "b2", "c1"]


def test_an_urgent_job_overtakes_whatever_waits(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", [1, 2, 3])
    assert hand.take_named() == [1]

    mail.add("email", "urgent", priority="critical")

    assert hand.run_all() == ["urgent", 2, 3]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_jobs_given_back_regain_their_place_in_whatever_order_that_happens(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, order: tuple[int, ...]
) -> None:
    mail.add_many("email", range(8))
    workers = [Hand(ps, f"w{number}") for number in range(3)]
    held = [worker.take(2) for worker in workers]

    for number in order:
        workers[number].stop(*held[number])

    assert hand.run_all() == list(range(8))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_jobs_of_lost_workers_regain_their_place_in_whatever_order_they_are_found(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, order: tuple[int, ...]
) -> None:
    mail.add_many("email", range(8))
    workers = [Hand(ps, f"w{number}") for number in range(3)]
    for worker in workers:
        worker.take(2)

    for number in order:
        assert workers[number].die() == (2, 0)

    assert hand.run_all() == list(range(8))


def test_jobs_of_several_levels_and_tenants_each_go_back_to_their_own_line(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    for name in ("a", "b"):
        mail.add("email", f"{name} urgent", priority="high", tenant=name)
        mail.add("email", f"{name} plain", tenant=name)
    other = Hand(ps, "other")
    assert len(other.take(4)) == 4

    other.leave()

    assert sorted(hand.take_named(2)) == ["a urgent", "b urgent"]
    assert sorted(hand.take_named(2)) == ["a plain", "b plain"]


@pytest.mark.parametrize("removal", ["reprioritise", "remove", "cancel"])
def test_a_job_that_left_its_line_does_not_confuse_the_place_of_others(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, removal: str
) -> None:
    first, *_ = mail.add_many("email", [1, 2, 3, 4])
    workers = [Hand(ps, f"w{number}") for number in range(3)]
    held = [worker.take_one() for worker in workers]
    workers[0].stop(held[0])
    workers[1].stop(held[1])
    first.reprioritise("low") if removal == "reprioritise" else getattr(first, removal)()

    workers[2].stop(held[2])

    assert hand.run_all() == [2, 3, 4] + ([1] if removal == "reprioritise" else [])


def test_a_job_that_is_tried_again_goes_to_the_end_of_its_line(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", ["flaky", "b", "c"], attempts=2)
    mail.add("email", "low", priority="low")

    hand.fail(hand.take_one())

    assert hand.run_all() == ["b", "c", "flaky", "low"]


def test_a_job_with_another_priority_goes_to_the_end_of_its_new_line(
    mail: penstock.Jobs, hand: Hand
) -> None:
    jobs = mail.add_many("email", ["a", "b", "c"])
    mail.add("email", "high", priority="high")

    jobs[2].reprioritise("high")
    jobs[0].reprioritise(3)

    assert jobs[2].info().priority == -10
    assert hand.run_all() == ["high", "c", "b", "a"]


def test_a_scheduled_job_keeps_a_priority_that_it_was_given_meanwhile(
    mail: penstock.Jobs, hand: Hand
) -> None:
    later = mail.add("email", "later", delay=60)
    mail.add("email", "now")

    later.reprioritise("critical")
    assert later.state == "scheduled"
    later.promote()

    assert hand.run_all() == ["later", "now"]


def test_a_promoted_job_goes_to_the_end_of_its_line(mail: penstock.Jobs, hand: Hand) -> None:
    later = mail.add("email", "later", delay=60)
    mail.add_many("email", ["a", "b"])

    later.promote()
    mail.add("email", "c")

    assert hand.run_all() == ["a", "b", "later", "c"]


def test_a_worker_is_handed_only_the_types_that_it_handles(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    for number in range(3):
        mail.add("email", f"email {number}")
        mail.add("fax", f"fax {number}")

    assert Hand(ps, "faxes", ["fax"]).run_all() == ["fax 0", "fax 1", "fax 2"]
    assert Hand(ps, "emails", ["email", "sms"]).run_all() == ["email 0", "email 1", "email 2"]


def test_what_others_could_not_take_keeps_its_order(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    faxes = Hand(ps, "faxes", ["fax"])
    mail.add_many("email", [1, 2, 3])
    assert faxes.take() == []
    mail.add_many("email", [4, 5])

    assert hand.run_all() == [1, 2, 3, 4, 5]


def test_what_others_could_not_take_keeps_its_priority(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    faxes = Hand(ps, "faxes", ["fax"])
    mail.add_many("email", ["b1", "b2"])
    assert faxes.take() == []
    mail.add("email", "a", priority="high")
    assert faxes.take() == []
    mail.add("email", "now", priority="critical")

    assert hand.run_all() == ["now", "a", "b1", "b2"]


def test_a_job_given_back_stands_before_later_ones_that_others_could_not_take(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [1, 2])
    first = hand.take_one()
    assert Hand(ps, "faxes", ["fax"]).take() == []

    hand.stop(first)

    assert hand.run_all() == [1, 2]


def test_jobs_of_a_paused_type_wait_and_all_others_run(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", ["e1", "e2"])
    mail.add("fax", "f1")

    mail.pause_type("email")
    assert hand.run_all() == ["f1"]
    mail.add("email", "e0", priority="high")
    assert hand.run_all() == []
    mail.resume_type("email")

    assert hand.run_all() == ["e0", "e1", "e2"]


def test_a_thousand_jobs_that_a_worker_cannot_take_do_not_hide_one_that_it_can(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add_many("email", range(2500))
    mail.add("fax", "f1")
    faxes = Hand(ps, "faxes", ["fax"])

    assert faxes.claim().word == "again"
    assert faxes.take_named() == ["f1"]
