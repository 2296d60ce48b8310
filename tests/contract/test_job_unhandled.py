"""Jobs that came up when a worker asked that does not handle them: one that does is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.model.jobs import Report
from penstock.store.commands.jobs import pass_jobs
from tests.contract.conftest import Ear
from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    from collections.abc import Iterator

    import penstock


@pytest.fixture
def mailer(ps: penstock.Penstock) -> Hand:
    """Handles mail, and has put a fax aside."""
    mailer = Hand(ps, "mailer", ["email"])
    ps.jobs("mail").add("fax", 1)
    assert mailer.claim().word == "empty"
    return mailer


@pytest.fixture
def ear(ps: penstock.Penstock, mailer: Hand) -> Iterator[Ear]:
    """Of a worker that handles faxes and waits, and was told nothing: others were woken."""
    keys = Hand(ps, "faxer", ["fax"]).keys
    ps.store.call(keys.idle, "SADD", keys.idle, "faxer")
    ear = Ear(ps, f"{keys.wake}faxer")
    yield ear
    ear.close()


def test_a_wake_up_goes_on_to_a_worker_that_handles_what_was_put_aside(
    mailer: Hand, ear: Ear
) -> None:
    assert mailer.claim().word == "empty"

    assert ear.hear_the_rest() == [b""]


def test_so_it_does_from_a_worker_that_found_enough_to_do(
    mail: penstock.Jobs, mailer: Hand, ear: Ear
) -> None:
    mail.add("email", 1)
    ear.hear_the_rest()
    store, idle = mailer._store, mailer.keys.idle
    store.call(idle, "SADD", idle, "faxer")

    assert [job.type for job in mailer.claim().found] == ["email"]

    assert ear.hear_the_rest() == [b""]


def test_nobody_is_woken_for_a_type_that_is_paused(
    mail: penstock.Jobs, mailer: Hand, ear: Ear
) -> None:
    mail.pause_type("fax")

    assert mailer.claim().word == "empty"

    assert ear.hear_the_rest() == []


def test_a_worker_that_has_no_time_passes_on_what_was_put_aside(mailer: Hand, ear: Ear) -> None:
    mailer._store.run(pass_jobs(mailer.keys, mailer.id, is_busy=True))

    assert ear.hear_the_rest() == [b""]


def test_a_slot_that_is_free_again_is_for_what_was_put_aside(
    mail: penstock.Jobs, mailer: Hand, ear: Ear
) -> None:
    mail.add("email", 1)
    held = mailer.take_one()
    mail.limit(concurrency=1)
    ear.hear_the_rest()
    store, idle = mailer._store, mailer.keys.idle
    store.call(idle, "SADD", idle, "faxer")

    mailer.report(Report(held.process, "done"))

    assert ear.hear_the_rest() == [b""]
