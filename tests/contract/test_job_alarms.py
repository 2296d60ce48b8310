"""Somebody always knows when to get up for what falls due, also if all are busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.store.commands.jobs import pass_jobs
from tests.contract.conftest import Ear
from tests.contract.job_workers import Hand
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    import penstock


@pytest.fixture
def idler(ps: penstock.Penstock, hand: Hand) -> Hand:
    """Waits to be woken, once the other worker has all there is."""
    return Hand(ps, "idler")


@pytest.fixture
def ear(ps: penstock.Penstock, idler: Hand) -> Iterator[Ear]:
    ear = Ear(ps, f"{idler.keys.wake}{idler.id}")
    yield ear
    ear.close()


def test_of_a_retry_by_a_worker_that_takes_nothing_more_an_idle_one_is_told(
    mail: penstock.Jobs, hand: Hand, idler: Hand, ear: Ear
) -> None:
    mail.add("email", attempts=3)
    held = hand.take_one()
    assert idler.claim().wait_ms == -1

    hand.fail(held, delay_ms=60_000)

    assert ear.hear_the_rest() == [b""]
    assert 0 < idler.claim().wait_ms <= 60_000


def test_of_a_retry_that_somebody_gets_up_for_anyway_nobody_is_told(
    mail: penstock.Jobs, hand: Hand, idler: Hand, ear: Ear
) -> None:
    mail.add("email", attempts=3)
    held = hand.take_one()
    mail.add("email", delay=10)
    assert 0 < idler.claim().wait_ms <= 10_000
    ear.hear_the_rest()

    hand.fail(held, delay_ms=60_000)

    assert ear.hear_the_rest() == []


def test_a_pause_leaves_no_alarm_behind_that_nobody_hears(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, idler: Hand
) -> None:
    mail.add("email", delay=60)
    assert hand.claim().wait_ms > 0
    assert idler.claim().wait_ms > 0
    mail.pause()
    assert (hand.claim().word, idler.claim().word) == ("paused", "paused")
    mail.resume()

    assert Hand(ps, "third").claim().wait_ms > 0


def test_a_busy_worker_is_told_of_schedules_alone(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email")
    mail.add("email", delay=0.5)
    ps.schedules("mail").add("hourly", "email", every=3600)

    claim = hand.claim()

    assert len(claim.found) == 1
    assert 1000 < claim.wait_ms <= 3_600_000


def test_a_busy_worker_can_fire_what_is_due(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email")
    ps.schedules("mail").add("pulse", "email", every=1)
    hand.take_one()

    def due() -> list[str]:
        return ps.store.run(pass_jobs(hand.keys, hand.id, is_busy=True))[1]

    wait_for(lambda: due() == ["pulse"])
    assert ps.store.run(pass_jobs(hand.keys, hand.id, is_busy=False)) == (-1, [])
