"""How many jobs start in a time: a bucket of tokens for a queue or a key."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock
    from tests.contract.job_workers import Hand

HOUR_S = 3600.0


def test_a_rate_lets_a_burst_through_and_then_one_at_a_time(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(9), key="k")
    mail.limit("k", rate=2, per=HOUR_S, burst=3)

    assert hand.take_named(9) == [0, 1, 2]
    claim = hand.claim(9)

    assert claim.word == "empty"
    assert HOUR_S * 1000 / 2 - 60_000 < claim.wait_ms <= HOUR_S * 1000 / 2


def test_a_rate_without_a_burst_lets_as_many_through_at_once(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(9))
    mail.limit(rate=4, per=HOUR_S)

    assert hand.take_named(9) == [0, 1, 2, 3]
    claim = hand.claim()

    assert claim.word == "limited"
    assert 0 < claim.wait_ms <= HOUR_S * 1000 / 4


@pytest.mark.parametrize("key", ["", "k"])
def test_a_token_comes_back_after_its_time_and_not_before(
    mail: penstock.Jobs, hand: Hand, key: str
) -> None:
    jobs = mail.add_many("email", range(3), key="k")
    mail.limit(key, rate=20, burst=1)

    ran: list[int] = []
    while len(ran) < 3:
        ran += hand.wait_and_run_all()

    starts = [job.info().started_at for job in jobs]
    assert ran == [0, 1, 2]
    assert all(later - earlier >= 0.049 for earlier, later in pairwise(starts))


def test_a_worker_is_told_when_the_next_token_is_there(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(2), key="k")
    mail.limit("k", rate=10, burst=1)
    assert len(hand.take(2)) == 1

    claim = hand.claim()

    assert claim.word in ("empty", "ok")
    assert claim.found or 0 <= claim.wait_ms <= 100


def test_a_free_slot_that_is_missing_is_waited_for_and_not_looked_for(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(3), key="k")
    mail.limit("k", concurrency=1, rate=1000)
    assert len(hand.take(3)) == 1

    wait_for(lambda: hand.claim(3).wait_ms == -1, timeout_s=5)


def test_of_keys_whose_tokens_are_all_back_nothing_is_kept(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email")
    mail.limit("*", rate=1000, burst=1)
    for number in range(300):
        mail.add("email", key=f"k{number}")

    while hand.take(10):
        pass

    key = f"{hand.keys.tag}:buckets"
    assert 0 < ps.store.call(key, "HLEN", key) < 150


def test_a_token_is_not_given_back_with_the_job_that_used_it(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(3), key="k")
    mail.limit("k", rate=2, per=HOUR_S)
    taken = hand.take(3)
    assert len(taken) == 2

    hand.stop(*taken)

    assert hand.claim(3).word == "empty"


def test_a_lifted_rate_lets_everything_through(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(150), key="k")
    mail.limit("k", rate=1, per=HOUR_S)
    assert hand.take_named(200) == [0]

    mail.limit("k")

    taken: list[int] = []
    while names := hand.take_named(200):
        taken += names
    assert taken == list(range(1, 150))
