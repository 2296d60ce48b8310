"""A job that cannot be read is set aside, and the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import fsck
from penstock.codec.forms import DAMAGED
from penstock.codec.ids import id_number
from penstock.errors import JobNotFound
from tests.job_invariants import check_jobs

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from penstock.store.keys import QueueKeys
    from tests.contract.job_workers import Hand

GARBAGE = {
    "empty": lambda text: b"",
    "cut off": lambda text: text[: len(text) // 2],
    "garbage": lambda text: b"\xff" * 80,
    "text": lambda text: b"nonsense " * 20,
    "another layout": lambda text: b"\x09" + text[1:],
    "longer than it was": lambda text: text + b"more",
}


def spoil(
    ps: penstock.Penstock, key: str, job: penstock.Job[Any], change: Callable[[bytes], bytes]
) -> bytes:
    """Put something else in the place of what is stored of a job; returns what it is."""
    stored = ps.store.call(key, "HGET", key, str(id_number(job.id))) or b""
    spoilt = change(stored)
    ps.store.call(key, "HSET", key, str(id_number(job.id)), spoilt)
    return spoilt


def kept(ps: penstock.Penstock, keys: QueueKeys, job: penstock.Job[Any]) -> dict[str, Any]:
    """What was set aside of a job."""
    stored = ps.store.call(keys.damaged, "HGET", keys.damaged, str(id_number(job.id)))
    assert stored is not None
    return DAMAGED.open(stored)


@pytest.mark.parametrize("how", sorted(GARBAGE.keys() - {"longer than it was"}))
def test_a_record_that_cannot_be_read_is_set_aside_and_the_others_are_handed_out(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, keys: QueueKeys, how: str
) -> None:
    first, second, third = mail.add_many("email", [1, 2, 3])
    spoilt = spoil(ps, keys.jobs, second, GARBAGE[how])

    claim = hand.claim(10)

    assert [job.id for job in claim.found] == [first.id, third.id]
    assert claim.damaged == [second.id]
    aside = kept(ps, keys, second)
    assert (aside["place"], aside["record"], aside["facts"]) == (b"line", spoilt, b"")


@pytest.mark.parametrize("table", ["jobs", "facts"])
@pytest.mark.parametrize("how", GARBAGE)
def test_a_job_that_was_tried_before_is_set_aside_with_its_facts(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, keys: QueueKeys, table: str, how: str
) -> None:
    job, other = mail.add_many("email", [1, 2], attempts=3)
    hand.fail(hand.take_one())
    spoil(ps, keys.named(table), job, GARBAGE[how])
    stored = [
        ps.store.call(key, "HGET", key, str(id_number(job.id))) for key in (keys.jobs, keys.facts)
    ]

    claims = [hand.claim(10) for _ in range(2)]

    if (table, how) == ("facts", "longer than it was"):
        return  # what follows the facts is the outcome, which may be anything
    assert [each.id for claim in claims for each in claim.found] == [other.id]
    assert [id for claim in claims for id in claim.damaged] == [job.id]
    assert [kept(ps, keys, job)[name] for name in ("record", "facts")] == stored


def test_a_job_without_a_record_is_set_aside(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, keys: QueueKeys
) -> None:
    job, other = mail.add_many("email", [1, 2], attempts=3)
    hand.fail(hand.take_one())
    ps.store.call(keys.jobs, "HDEL", keys.jobs, str(id_number(job.id)))

    claims = [hand.claim(10) for _ in range(2)]

    assert [each.id for claim in claims for each in claim.found] == [other.id]
    assert [id for claim in claims for id in claim.damaged] == [job.id]


def test_a_scheduled_job_that_cannot_be_read_is_set_aside_when_it_is_due(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, keys: QueueKeys
) -> None:
    job, other = mail.add_many("email", [1, 2], delay=3600)
    spoil(ps, keys.facts, job, GARBAGE["cut off"])
    for each in (job, other):
        ps.store.call(keys.due, "ZADD", keys.due, 1, str(id_number(each.id)))

    claim = hand.claim(10)

    assert ([each.id for each in claim.found], claim.damaged) == ([other.id], [job.id])
    assert kept(ps, keys, job)["place"] == b"due"


def test_what_a_worker_holds_and_cannot_be_read_is_refused_and_set_aside(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, keys: QueueKeys
) -> None:
    job, other = mail.add_many("email", [1, 2])
    held, fine = hand.take(2)
    spoil(ps, keys.facts, job, GARBAGE["garbage"])

    assert not hand.finish(held)
    assert hand.finish(fine)

    assert other.state == "done"
    assert kept(ps, keys, job)["place"] == b"running"
    assert ps.queue("mail").inspect().running == 0


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "stopped"])
def test_a_worker_that_goes_leaves_what_cannot_be_read_aside(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, keys: QueueKeys, is_lost: bool
) -> None:
    job, other = mail.add_many("email", [1, 2])
    hand.take(2)
    spoil(ps, keys.facts, job, GARBAGE["empty"])

    hand.die() if is_lost else hand.leave()

    assert other.state == "ready"
    assert kept(ps, keys, job)["facts"] == b""
    assert fsck.repair(ps, fsck.check(ps)).violations[0].kind == "job_is_damaged"
    check_jobs_but_damaged(ps, keys)


def test_a_finished_job_that_cannot_be_read_is_set_aside_when_it_would_be_purged(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, keys: QueueKeys
) -> None:
    job, _ = mail.add_many("email", [1, 2])
    for held in hand.take(2):
        hand.finish(held)
    spoil(ps, keys.facts, job, GARBAGE["cut off"])
    mail.configure(keep_count=0)

    assert mail.purge() == 2

    assert kept(ps, keys, job)["place"] == b"finished"
    fsck.repair(ps, fsck.check(ps))
    check_jobs_but_damaged(ps, keys)


@pytest.mark.parametrize("how", sorted(GARBAGE.keys() - {"longer than it was"}))
@pytest.mark.parametrize("table", ["jobs", "facts"])
def test_fsck_names_what_cannot_be_read_and_repair_sets_it_aside(
    ps: penstock.Penstock, mail: penstock.Jobs, keys: QueueKeys, table: str, how: str
) -> None:
    job = mail.add("email", "one", tags=["red"], search=True, unique="key")
    mail.add("email", "two", tags=["red"])
    spoil(ps, keys.named(table), job, GARBAGE[how])
    found = fsck.check(ps)

    report = fsck.repair(ps, found)

    [in_place] = [it for it in found.violations if it.kind == "job_is_damaged"]
    assert in_place.is_repairable
    assert in_place.message.startswith(f"job {job.id} cannot be read and ")
    [left] = report.violations
    assert (left.kind, left.is_repairable) == ("job_is_damaged", False)
    assert f"job {job.id} cannot be read and was set aside: its record " in left.message
    damaged = mail.get_damaged(job.id)
    assert damaged is not None
    damaged.remove()
    assert fsck.check(ps).violations == []
    assert mail.get_damaged(job.id) is None


@pytest.mark.parametrize("table", ["jobs", "facts"])
def test_what_cannot_be_read_is_not_found_by_clients_and_in_nobodys_way(
    ps: penstock.Penstock, mail: penstock.Jobs, keys: QueueKeys, table: str
) -> None:
    job, other = mail.add_many("email", [1, 2])
    spoil(ps, keys.named(table), job, GARBAGE["cut off"] if table == "jobs" else lambda _: b"x")

    with pytest.raises(JobNotFound):
        mail.get(job.id)
    assert [each.id for each in mail.page("ready").jobs] == [other.id]
    assert mail.cancel("ready") == 1


def check_jobs_but_damaged(ps: penstock.Penstock, keys: QueueKeys) -> None:
    """Everything but that a job is kept aside is right again."""
    ps.store.call(keys.damaged, "DEL", keys.damaged)
    check_jobs(ps.store, keys)
