"""Flow control: how many jobs run at once, and how many start in a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.client import fsck
from penstock.errors import InvalidArgument, QueueNotFound, WrongKind
from penstock.model.jobs import Report
from tests.contract.job_workers import Hand, now_s, written
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.jobs import HandedOut
    from tests.contract.conftest import Ear
    from tests.servers import RedisCluster, RedisServer
    from tests.stored import Stored

HOUR_S = 3600.0


def test_a_queue_runs_no_more_jobs_at_once_than_its_limit(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", range(5))
    mail.limit(concurrency=2)

    first, _ = hand.take(5)
    claim = Hand(ps, "other").claim(5)
    assert (claim.word, claim.wait_ms) == ("limited", -1)
    hand.finish(first)

    assert hand.take_named(5) == [2]


def test_a_key_runs_no_more_jobs_at_once_than_its_limit(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", "first")
    mail.limit("smtp", concurrency=2)
    mail.add_many("email", ["s1", "s2", "s3", "s4"], key="smtp")
    mail.add_many("email", ["o1"], key="other")

    taken = hand.take(9)
    assert [job.data for job in taken] == [b'"first"', b'"s1"', b'"s2"', b'"o1"']
    assert hand.claim(9).word == "empty"
    hand.finish(taken[1])

    assert hand.take_named(9) == ["s3"]


def test_the_limit_of_every_key_counts_each_key_by_itself(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", "no key")
    mail.limit("*", concurrency=1)
    mail.limit("b", concurrency=2)
    for number in range(3):
        for key in ("a", "b", "c"):
            mail.add("email", f"{key}{number}", key=key)

    assert hand.take_named(9) == ["no key", "a0", "b0", "c0", "b1"]


@pytest.mark.parametrize("way", ["finish", "fail", "stop", "crash", "end", "die"])
def test_however_a_job_ends_its_slot_is_free(
    ps: penstock.Penstock, mail: penstock.Jobs, way: str
) -> None:
    hand, other = Hand(ps, "w1"), Hand(ps, "w2")
    mail.add("email", "a", key="k")
    mail.limit("k", concurrency=1)
    mail.add_many("email", ["b", "c"], key="k")
    [a] = hand.take(3)
    assert other.take(3) == []

    getattr(hand, way)(*(() if way == "die" else (a,)))

    again = ["a"] if way in ("stop", "crash", "die") else []
    assert other.run_all() == [*again, "b", "c"]


def test_what_a_limit_holds_back_keeps_its_order(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", ["a", "b", "c", "d"], key="k")
    mail.limit("k", concurrency=1)
    [a] = hand.take(4)
    hand.stop(a)

    assert hand.take_named(4) == ["a"]
    hand.die()

    assert Hand(ps, "other").run_all() == ["a", "b", "c", "d"]


def test_what_a_limit_holds_back_keeps_its_priority(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", ["a", "b", "c"], key="k")
    mail.limit("k", concurrency=1)
    [a] = hand.take(3)
    mail.add("email", "urgent", key="k", priority="high")
    assert hand.take(3) == []

    hand.finish(a)

    assert hand.run_all() == ["urgent", "b", "c"]


LEAVING: dict[str, Callable[[penstock.Job[object]], object]] = {
    "cancelled": lambda job: job.cancel(),
    "removed": lambda job: job.remove(),
    "rescheduled": lambda job: job.reschedule(HOUR_S),
    "reprioritised": lambda job: job.reprioritise("low"),
}


@pytest.mark.parametrize("way", LEAVING)
def test_a_held_back_job_that_goes_does_not_hold_up_those_behind_it(
    mail: penstock.Jobs, hand: Hand, way: str
) -> None:
    _, b, c, _ = mail.add_many("email", ["a", "b", "c", "d"], key="k")
    mail.limit("k", concurrency=1)
    [a] = hand.take(4)
    LEAVING[way](b)
    LEAVING[way](c)

    hand.finish(a)

    assert hand.run_all() == ["d"] + (["b", "c"] if way == "reprioritised" else [])


def test_a_held_back_job_that_expires_does_not_hold_up_those_behind_it(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email", "a", key="k")
    mail.limit("k", concurrency=1)
    late = mail.add("email", "b", key="k", expires=0.001)
    mail.add("email", "c", key="k")
    a = hand.take_one()
    assert hand.claim().word == "empty"
    wait_for(lambda: now_s(mail) > late.info().created_at + 0.005)
    hand.finish(a)

    assert hand.wait_and_run_all() == ["c"]
    assert late.state == "dead"


def test_a_held_back_job_that_nobody_handles_does_not_hold_up_those_behind_it(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    emails = Hand(ps, "emails", ["email"])
    mail.add("email", "a", key="k")
    mail.limit("k", concurrency=1)
    a = emails.take_one()
    mail.add("fax", "b", key="k")
    mail.add("email", "c", key="k")
    faxes = Hand(ps, "faxes", ["fax"])
    assert not faxes.claim(3).found
    faxes.die()

    emails.finish(a)

    assert emails.wait_and_run_all() == ["c"]


def test_limits_can_be_changed_while_jobs_wait(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(10), key="k")
    mail.limit("k", concurrency=1)
    assert hand.take_named(10) == [0]

    mail.limit("k", concurrency=3)
    assert hand.take_named(10) == [1, 2]
    mail.limit("k", concurrency=1)
    assert hand.take(10) == []
    mail.limit("k")

    assert hand.take_named(10) == list(range(3, 10))


def test_the_limit_of_every_key_can_be_changed_while_jobs_wait(
    mail: penstock.Jobs, hand: Hand
) -> None:
    for key in ("a", "b"):
        mail.add_many("email", [f"{key}{number}" for number in range(4)], key=key)
    mail.limit("*", concurrency=1)
    assert hand.take_named(8) == ["a0", "b0"]

    mail.limit("*", concurrency=2)
    assert sorted(hand.take_named(8)) == ["a1", "b1"]
    mail.limit("*")

    assert sorted(hand.take_named(8)) == ["a2", "a3", "b2", "b3"]


def test_the_limit_of_every_key_can_be_lifted_however_many_keys_it_holds_back(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.limit("*", rate=1, per=86_400, burst=1)
    for number in range(1001):
        mail.add_many("email", range(2), key=f"k{number}")
    assert len(_run_what_may(mail, hand)) == 1001

    mail.limit("*")

    assert len(_run_what_may(mail, hand)) == 1001


def _run_what_may(mail: penstock.Jobs, hand: Hand) -> list[HandedOut]:
    """Also what is let go only a few at a time."""
    run: list[HandedOut] = []
    claim = hand.claim(100)
    while claim.found or claim.wait_ms == 0:
        reports = [Report(job.process, "done", payload=b"jnull") for job in claim.found]
        assert hand.report(*reports) == []
        run += claim.found
        claim = hand.claim(100)
    return run


def test_a_raised_limit_wakes_a_worker(
    mail: penstock.Jobs, hand: Hand, listen: Callable[[str], Ear]
) -> None:
    mail.add_many("email", [1, 2], key="k")
    mail.limit("k", concurrency=1)
    assert hand.take_named(2) == [1]
    ear = listen(hand.keys.wake + hand.id)
    assert hand.claim().word == "empty"

    mail.limit("k", concurrency=2)

    assert ear.hear_the_rest() == [b""]


def test_a_paused_queue_hands_out_nothing_and_what_runs_goes_on(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add_many("email", [1, 2])
    process = hand.take_one()

    mail.pause()
    assert hand.claim().word == "paused"
    assert hand.finish(process)
    mail.resume()

    assert hand.run_all() == [2]


def test_a_pause_outlives_the_client_that_asked_for_it(
    any_store: RedisServer | RedisCluster, namespace: str, mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email", 1)
    with penstock.connect(any_store.url, namespace=namespace) as other:
        other.jobs("mail").pause_type("email")

    assert hand.run_all() == []
    mail.resume_type("email")
    assert hand.run_all() == [1]


@pytest.mark.stores("debian")
@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"concurrency": 0}, "give a whole number from 1 up, or leave it out for no limit"),
        ({"concurrency": 1.5}, "give a whole number from 1 up"),
        ({"rate": 0}, "rate is 0; give a number above 0"),
        ({"rate": float("nan")}, "rate is nan; give a number above 0"),
        ({"rate": float("inf")}, "rate is inf; give a number above 0"),
        ({"rate": True}, "rate is True; give a number above 0"),
        ({"rate": 10**400}, "rate is 1000.*; give a number above 0, up to a billion"),
        ({"rate": 1, "per": 0}, "per is 0; give the seconds that a rate is for, 0.001 or more"),
        ({"rate": 1, "burst": True}, "burst is True; give a number above 0"),
        ({"rate": 1, "burst": -1}, "burst is -1; give a number above 0"),
        ({"burst": 5}, "burst is for a rate"),
    ],
    ids=str,
)
def test_a_limit_that_makes_no_sense_is_refused(
    mail: penstock.Jobs, limit: dict[str, float], message: str
) -> None:
    mail.add("email")

    with pytest.raises(InvalidArgument, match=message):
        mail.limit("k", **limit)  # type: ignore[arg-type]


RULES: dict[str, Callable[[penstock.Jobs], None]] = {
    "limit": lambda jobs: jobs.limit("k", concurrency=1),
    "share": lambda jobs: jobs.share("acme", 2),
    "default share": lambda jobs: jobs.share("acme", 1),
    "pause_type": lambda jobs: jobs.pause_type("email"),
}


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_a_rule_can_be_set_before_the_first_job_is_sent(
    ps: penstock.Penstock, mail: penstock.Jobs, rule: Callable[[penstock.Jobs], None]
) -> None:
    rule(mail)

    assert ps.queues() == ["mail"]
    assert ps.queue("mail").inspect().kind == "jobs"
    assert fsck.check(ps).violations == []


def test_rules_hold_for_jobs_that_come_after_them(mail: penstock.Jobs, hand: Hand) -> None:
    mail.limit(concurrency=1)
    mail.share("a", 2)
    mail.pause_type("fax")

    mail.add("fax", "f")
    mail.add_many("email", ["b0", "b1"], tenant="b")
    mail.add_many("email", ["a0", "a1"], tenant="a")

    assert len(hand.take(5)) == 1
    assert (mail.rules().shares, mail.rules().paused_types) == ({"a": 2}, ["fax"])


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_a_queue_that_was_configured_and_is_given_a_rule_leaves_nothing_behind_when_deleted(
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    stored: Stored,
    rule: Callable[[penstock.Jobs], None],
) -> None:
    mail.configure(keep_s=5)
    rule(mail)

    ps.queue("mail").delete()

    assert written(stored) == {}


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_a_queue_of_plain_tasks_has_no_rules_for_jobs(
    ps: penstock.Penstock,
    mail: penstock.Jobs,
    stored: Stored,
    rule: Callable[[penstock.Jobs], None],
) -> None:
    ps.queue("mail").enqueue(b"a")
    before = written(stored)

    with pytest.raises(WrongKind, match="queue 'mail' holds plain tasks"):
        rule(mail)

    assert written(stored) == before


def test_only_in_a_queue_that_exists_is_there_a_rule_to_lift(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    with pytest.raises(QueueNotFound, match="there is no queue 'mail', so it has no rule"):
        mail.limit("k")
    with pytest.raises(QueueNotFound, match="there is no queue 'mail', so it has no rule"):
        mail.resume_type("email")

    assert ps.queues() == []
