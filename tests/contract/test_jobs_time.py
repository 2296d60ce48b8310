"""What happens when: delays, expiry, what falls due, and keys that are taken for a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.errors import IllegalMove, InvalidArgument
from tests.contract.job_workers import Hand, now_s
from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock

HOUR_S = 3600.0


def test_a_delayed_job_waits_for_its_time(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", "later", delay=HOUR_S)

    info = job.info()
    assert info.state == "scheduled"
    assert info.due_at - info.created_at == HOUR_S
    claim = hand.claim()
    assert claim.word == "empty"
    assert 0 < claim.wait_ms <= HOUR_S * 1000


@pytest.mark.parametrize("delay", [0.03, timedelta(milliseconds=30)], ids=["seconds", "timedelta"])
def test_a_delayed_job_runs_when_its_time_has_come_and_not_before(
    mail: penstock.Jobs, hand: Hand, delay: float
) -> None:
    job = mail.add("email", "soon", delay=delay)

    wait_for(hand.take)

    info = job.info()
    assert info.started_at >= info.due_at
    assert round(info.due_at - info.created_at, 3) == 0.03


def test_the_smallest_delay_is_a_delay_and_none_is_none(mail: penstock.Jobs) -> None:
    info = mail.add("email", delay=1e-9).info()

    assert round(info.due_at - info.created_at, 3) == 0.001
    assert mail.add("email", delay=0).state == "ready"


def test_a_time_that_has_passed_is_now(mail: penstock.Jobs) -> None:
    assert mail.add("email", run_at=datetime.now(UTC) - timedelta(days=1)).state == "ready"


def test_a_time_zone_makes_no_difference(mail: penstock.Jobs) -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    elsewhere = at.astimezone(tz=None)

    jobs = [mail.add("email", run_at=instant) for instant in (at, elsewhere)]

    assert [job.info().due_at for job in jobs] == [at.timestamp()] * 2


def test_due_jobs_are_promoted_in_the_order_in_which_they_are_due(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    jobs = [
        mail.add("email", name, run_at=in_an_hour + timedelta(milliseconds=after_ms))
        for name, after_ms in (("c", 3), ("a", 1), ("b", 2))
    ]
    mail.add("email", "never", run_at=in_an_hour)
    mail.add("email", "ready")
    due = ps.keys.queue("mail").due
    for job in jobs:  # as if two hours had passed for them
        ps.store.call(due, "ZINCRBY", due, -2 * 3_600_000, str(job._number))

    assert hand.run_all() == ["ready", "a", "b", "c"]


def test_due_jobs_run_by_priority_first(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", "low", delay=0.001, priority="low")
    last = mail.add("email", "high", delay=0.002, priority="high")
    wait_for(lambda: now_s(mail) > last.info().due_at)

    assert hand.run_all() == ["high", "low"]


def test_more_due_jobs_than_one_step_promotes_all_run_in_order(
    mail: penstock.Jobs, hand: Hand
) -> None:
    jobs = mail.add_many("email", range(450), delay=0.001)
    wait_for(lambda: now_s(mail) > jobs[0].info().due_at + 0.1)

    taken: list[int] = []
    while names := hand.take_named(1000):
        taken += names

    assert taken == list(range(450))


def test_of_two_workers_one_is_told_when_to_look_for_what_is_due_soonest(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    mail.add("email", delay=HOUR_S)
    waits = [Hand(ps, f"w{number}").claim().wait_ms for number in range(4)]

    assert [wait_ms > 0 for wait_ms in waits] == [True, True, False, False]
    mail.add("email", delay=HOUR_S / 2)
    assert 0 < Hand(ps, "w4").claim().wait_ms <= HOUR_S / 2 * 1000


def test_promote_lets_a_scheduled_job_run_now(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", "now", delay=HOUR_S)

    job.promote()

    assert job.state == "ready"
    assert job.info().due_at <= now_s(mail)
    assert hand.run_all() == ["now"]


def test_reschedule_moves_a_waiting_job_and_leaves_no_second_copy(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", 1)

    job.reschedule(HOUR_S)
    assert (job.state, hand.run_all()) == ("scheduled", [])
    job.reschedule(2 * HOUR_S)
    assert 2 * HOUR_S - 60 < job.info().due_at - now_s(mail) <= 2 * HOUR_S
    job.reschedule(timedelta(0))
    job.reschedule(0)

    assert hand.run_all() == [1]


@pytest.mark.parametrize("act", ["promote", "reschedule", "reprioritise"])
def test_a_job_that_runs_or_has_ended_cannot_be_moved_in_time(
    mail: penstock.Jobs, hand: Hand, act: str
) -> None:
    job = mail.add("email")
    arguments = {"promote": (), "reschedule": (5,), "reprioritise": ("high",)}[act]
    process = hand.take_one()

    with pytest.raises(IllegalMove, match=f"job {job.id} is running; when and how urgently"):
        getattr(job, act)(*arguments)
    hand.finish(process)
    with pytest.raises(IllegalMove, match=f"job {job.id} is done; .* while it is scheduled or re"):
        getattr(job, act)(*arguments)


def test_a_job_that_was_not_started_in_time_is_dead(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", "late", expires=0.001)
    mail.add("email", "next")
    wait_for(lambda: now_s(mail) > job.info().created_at + 0.005)

    assert hand.run_all() == ["next"]

    info = job.info()
    assert (info.state, info.reason, info.failures) == ("dead", "expired", 0)
    assert "not started before it expired" in str(job.explain())


def test_the_time_to_expiry_counts_from_when_the_job_could_run(
    mail: penstock.Jobs, hand: Hand
) -> None:
    def is_in_time() -> bool:
        job = mail.add("email", delay=0.06, expires=0.05)
        wait_for(lambda: now_s(mail) >= job.info().due_at)
        return bool(hand.take())

    wait_for(is_in_time)


def test_an_expired_job_that_is_told_to_run_again_does(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", expires=0.05)
    wait_for(lambda: now_s(mail) > job.info().due_at + 0.05)
    assert hand.take() == []

    wait_for(lambda: job.retry() == "ready" and hand.take())


def test_a_retry_is_not_held_to_the_expiry_of_the_first_start(
    mail: penstock.Jobs, hand: Hand
) -> None:
    def is_tried_again() -> bool:
        job = mail.add("email", expires=0.05, attempts=2)
        for process in hand.take():
            hand.fail(process, delay_ms=60)
            wait_for(lambda: now_s(mail) >= job.info().due_at)
        return bool(hand.take())

    wait_for(is_tried_again)


@pytest.mark.parametrize("how", ["crash", "die", "leave"])
def test_what_has_started_in_time_is_started_again_whatever_becomes_of_its_worker(
    how: str, ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    def is_tried_again() -> bool:
        job = mail.add("email", expires=0.05)
        worker = Hand(ps, f"worker-{job.id}")
        for process in worker.take():
            wait_for(lambda: now_s(mail) > job.info().due_at + 0.06)
            worker.crash(process) if how == "crash" else getattr(worker, how)()
            return bool(hand.take())
        return False

    wait_for(is_tried_again)


def test_what_was_given_back_before_it_began_is_held_to_its_expiry(
    mail: penstock.Jobs, hand: Hand
) -> None:
    def has_expired() -> bool:
        job = mail.add("email", expires=0.05)
        for process in hand.take():
            wait_for(lambda: now_s(mail) > job.info().due_at + 0.05)
            hand.stop(process)
            assert hand.take() == []
        return job.info().attempts_made == 0 and job.info().reason == "expired"

    wait_for(has_expired)


def test_the_history_tells_how_long_each_attempt_waited_and_ran(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    worker = Hand(ps, "worker")
    job = mail.add("email")
    worker.take_one()
    wait_for(lambda: now_s(mail) > job.info().started_at + 0.1)
    returned_at = now_s(mail)
    worker.die()
    again = hand.take_one()
    waited_ms = 1000 * (now_s(mail) - returned_at)
    hand.finish(again)

    lost, done = mail.history()
    assert (lost.outcome, done.outcome) == ("lost", "done")
    assert lost.ran_us >= 100_000
    assert done.waited_ms <= waited_ms + 1


def test_a_failed_job_is_due_again_after_the_delay(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", 1, attempts=2)
    hand.fail(hand.take_one(), delay_ms=60_000)

    info = job.info()
    assert info.state == "scheduled"
    assert round(info.due_at - info.updated_at) == 60
    assert hand.run_all() == []
    job.promote()
    assert hand.run_all() == [1]


def test_a_window_keeps_a_key_taken_for_a_time_whatever_becomes_of_the_job(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", 1, unique="k", unique_for=HOUR_S)
    assert hand.run_all() == [1]

    assert not mail.add("email", 2, unique="k", unique_for=HOUR_S).is_new
    job.remove()
    assert mail.add("email", 3, unique="k", unique_for=HOUR_S).is_new


def test_when_a_window_is_over_the_key_is_free(mail: penstock.Jobs) -> None:
    first = mail.add("email", 1, unique="k", unique_for=0.02)
    assert not mail.add("email", 2, unique="k", unique_for=0.02).is_new

    wait_for(lambda: mail.add("email", 3, unique="k", unique_for=0.02).is_new)

    assert first.state == "ready"
    assert mail.counts()["ready"] == 2


def test_debounce_keeps_the_last_data_and_waits_anew(mail: penstock.Jobs, hand: Hand) -> None:
    first = mail.add("email", "first", unique="k", debounce=HOUR_S, tags=["a"])
    due_at = first.info().due_at
    wait_for(lambda: now_s(mail) > first.info().created_at + 0.002)

    last = mail.add("email", "the last one", unique="k", debounce=HOUR_S, tags=["b"])

    assert (last.id, last.is_new) == (first.id, False)
    info = first.info()
    assert json.loads(info.data) == "the last one"
    assert info.tags == ("b",)
    assert info.due_at > due_at
    assert mail.counts()["scheduled"] == mail.counts(tag="b")["scheduled"] == 1
    assert mail.counts(tag="a")["scheduled"] == 0
    first.promote()
    assert hand.run_all() == ["the last one"]


def test_debounce_ends_when_the_job_is_ready(mail: penstock.Jobs, hand: Hand) -> None:
    first = mail.add("email", 1, unique="k", debounce=HOUR_S)
    first.promote()

    second = mail.add("email", 2, unique="k", debounce=HOUR_S)

    assert second.is_new
    second.promote()
    assert hand.run_all() == [1, 2]


def test_many_at_once_are_debounced_to_the_last(mail: penstock.Jobs, hand: Hand) -> None:
    old = mail.add("email", "old", unique="k", debounce=HOUR_S)
    mail.configure(max_bytes=20)

    mail.add_many("email", ["in between, and long", "b"], unique="k", debounce=HOUR_S)
    new = mail.add_many("email", ["c", "d"], unique="l", debounce=HOUR_S)

    assert [json.loads(job.info().data) for job in (old, new[0], new[1])] == ["b", "d", "d"]
    assert mail.counts()["scheduled"] == 2
    # Of 20 bytes, six are used: two strings of three.
    mail.add("email", b"x" * 14)


@pytest.mark.stores("debian")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"debounce": 5}, "debounce needs unique"),
        ({"debounce": 5, "unique": "k", "delay": 5}, "leave out delay and run_at"),
        ({"unique_for": 5}, "unique_for needs unique"),
        ({"unique_for": "ever", "unique": "k"}, "give 'queued', 'done' or a time in seconds"),
        ({"delay": 5, "run_at": datetime.now(UTC)}, "give one of them"),
        ({"run_at": datetime(2030, 1, 1)}, "give a datetime with a time zone"),
    ],
)
def test_times_that_contradict_each_other_are_refused(
    mail: penstock.Jobs, options: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        mail.add("email", **options)  # type: ignore[arg-type]
