"""Why a job is not running: each reason, and the words for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.store.commands import workers
from tests.contract.job_workers import MINUTE_MS, Hand
from tests.servers import wait_for

if TYPE_CHECKING:
    import penstock


def codes(job: penstock.Job[object]) -> list[str]:
    return [reason.code for reason in job.explain().reasons]


def test_without_a_worker_nothing_runs(mail: penstock.Jobs) -> None:
    job = mail.add("email")

    assert codes(job) == ["no_worker"]
    assert str(job.explain()) == f"job {job.id} is ready: no worker serves queue 'mail'"


def test_the_first_in_line_is_next(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")

    assert codes(job) == ["next"]
    assert "the first worker with a free slot starts it" in str(job.explain())


def test_others_are_before_it(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(3))
    job = mail.add("email")
    mail.add("email")

    assert codes(job) == ["behind"]
    assert "3 jobs of equal or higher priority will start before it" in str(job.explain())
    mail.add("email", priority="high")
    assert "4 jobs of equal or higher priority" in str(job.explain())


def test_nobody_handles_its_type(ps: penstock.Penstock, mail: penstock.Jobs) -> None:
    faxes = Hand(ps, "faxes", ["fax", "emails"])
    job = mail.add("email")

    assert codes(job) == ["no_worker_for_type"]
    assert faxes.take() == []
    assert codes(job) == ["no_worker_for_type"]
    assert "no live worker handles jobs of type 'email'" in str(job.explain())
    Hand(ps, "emails", ["email"])
    assert codes(job) == ["next"]


def test_its_queue_is_paused(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    mail.pause()

    assert codes(job) == ["paused"]
    assert "`penstock queue resume mail` lets it go on" in str(job.explain())


def test_its_type_is_paused(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    mail.pause_type("email")

    assert codes(job) == ["type_paused"]
    assert hand.take() == []
    assert codes(job) == ["type_paused"]
    assert "`penstock job resume-type mail email` lets them go on" in str(job.explain())


def test_all_workers_that_could_run_it_are_paused(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    Hand(ps, "faxes", ["fax"])
    Hand(ps, "night.0123abcd", ["email"])
    job, later = mail.add("email"), mail.add("email", delay=60)
    ps.pause_worker("hand")
    assert codes(job) == ["next"]

    ps.pause_worker("night.0123abcd")

    assert codes(job) == ["workers_paused"]
    assert codes(later) == ["due_at", "workers_paused"]
    assert "all workers that handle jobs of type 'email' are paused" in str(job.explain())
    assert "`penstock worker resume " in str(job.explain())
    ps.resume_worker("hand")
    assert codes(job) == ["next"]


def test_it_is_deep_in_its_line(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(10_000))
    near, far = mail.add("email"), mail.add("email")
    mail.add_many("email", range(3), priority="high")

    assert "is ready: 10,003 jobs of equal or higher priority will start" in str(near.explain())
    assert "more than 10,003 jobs of equal or higher priority will start" in str(far.explain())
    mail.pause()
    assert "more than 10,003 jobs of equal or higher priority will start" in str(far.explain())


def test_what_stands_in_line_is_not_before_a_job_that_was_put_aside(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    mail.pause_type("email")
    assert hand.take() == []
    mail.add_many("fax", range(10_001))

    assert codes(job) == ["type_paused"]


def test_it_has_expired_before_a_worker_came(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", expires=0.001)
    late = mail.add("email", delay=0.001, expires=0.001)
    wait_for(lambda: [codes(each)[0] for each in (job, late)] == ["expired", "expired"])

    assert codes(job) == codes(late) == ["expired"]
    assert "UTC and will be dead as soon as a worker comes to it" in str(job.explain())
    assert hand.take() == []
    assert job.state == "dead"


def test_it_is_not_due(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", delay=5 * 3600)

    assert codes(job) == ["due_at"]
    assert "UTC, in 5.0 h" in str(job.explain())


def test_it_waits_to_be_tried_again(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", attempts=2)
    hand.fail(hand.take_one(), delay_ms=60_000)

    assert codes(job) == ["due_at"]
    assert "it waits to be tried again until" in str(job.explain())


def test_it_is_due_and_nobody_has_asked(mail: penstock.Jobs) -> None:
    job = mail.add("email", delay=0.001)
    while codes(job)[0] == "due_at":
        pass

    assert codes(job) == ["no_worker", "due"]


def test_its_key_has_no_slot(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", key="k")
    mail.limit("k", concurrency=1)
    job = mail.add("email", key="k")
    hand.take(2)

    assert codes(job) == ["concurrency_limited"]
    assert "limit 'k' is reached: it lets 1 job run at a time, and 1 runs now" in str(job.explain())


def test_its_queue_has_no_slot(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email")
    mail.limit(concurrency=1)
    job = mail.add("email")
    hand.take(2)

    assert codes(job)[0] == "concurrency_limited"
    assert "the limit of the queue is reached: it lets 1 job run at a time" in str(job.explain())


def test_its_key_has_no_token(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add("email", key="k")
    mail.limit("*", rate=1, per=3600)
    job = mail.add("email", key="k")
    hand.take(2)

    assert codes(job) == ["rate_limited"]
    assert "limit '*' for key 'k' lets it start at" in str(job.explain())


def test_others_of_its_key_are_parked_before_it(mail: penstock.Jobs, hand: Hand) -> None:
    mail.limit("k", rate=1, per=3600, burst=1)
    jobs = mail.add_many("email", range(1000), key="k")
    assert len(hand.take(2)) == 1
    urgent = mail.add("email", key="k", priority="high")
    assert hand.take() == []

    first, last = str(urgent.explain()), str(jobs[-1].explain())

    assert codes(urgent) == ["rate_limited"]
    assert "limit 'k' lets it start at" in first
    assert codes(jobs[-1]) == ["rate_limited", "behind"]
    assert "limit 'k' lets the next job start at" in last
    assert "in 60 min, and after 999 jobs this one at about 2" in last
    assert "UTC, in 41.7 days; 999 jobs of equal or higher priority will start before" in last


def test_those_parked_before_it_count_also_while_it_stands_in_line(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.limit("k", concurrency=1)
    mail.add_many("email", range(6), key="k")
    low = mail.add("email", key="k", priority="low")
    assert len(hand.take(2)) == 1
    later, soon = mail.add("email", key="k"), mail.add("email", key="k", priority="high")

    assert codes(later) == ["concurrency_limited", "behind"]
    assert "6 jobs of equal or higher priority will start before it" in str(later.explain())
    assert codes(soon) == ["concurrency_limited"]
    assert "7 jobs of equal or higher priority will start before it" in str(low.explain())


def test_others_of_its_paused_type_were_put_aside_before_it(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.pause_type("email")
    job = mail.add_many("email", range(5))[-1]
    assert hand.take() == []

    assert codes(job) == ["type_paused", "behind"]
    assert "4 jobs of equal or higher priority will start before it" in str(job.explain())


def test_both_limits_hold_it_the_longer_one_first(mail: penstock.Jobs, hand: Hand) -> None:
    mail.limit("k", rate=1, per=3600, burst=1)
    mail.add("email", key="k")
    hand.take_one()
    job = mail.add("email", key="k")
    assert hand.take() == []
    mail.limit(concurrency=1)

    assert codes(job) == ["rate_limited", "concurrency_limited"]
    assert "limit 'k' lets it start at" in str(job.explain())
    assert "the limit of the queue is reached: it lets 1 job run" in str(job.explain())
    mail.limit("k", concurrency=1)
    assert codes(job) == ["concurrency_limited", "concurrency_limited"]
    assert "limit 'k' is reached" in str(job.explain())


def test_more_run_than_a_lowered_limit_lets(mail: penstock.Jobs, hand: Hand) -> None:
    mail.add_many("email", range(3), key="k")
    hand.take(3)
    mail.limit("k", concurrency=2)
    job = mail.add("email", key="k")

    assert "limit 'k' is reached: it lets 2 jobs run at a time, and 3 run" in str(job.explain())


def test_other_tenants_take_their_turns(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email", tenant="a")
    mail.add("email", tenant="b")
    mail.share("a", 3)

    assert codes(job) == ["tenant_share"]
    assert "2 tenants take turns; tenant 'a' may start 3 in a round" in str(job.explain())


def test_several_things_hold_it_back(mail: penstock.Jobs) -> None:
    mail.add("email", tenant="b")
    mail.add("email", tenant="a")
    job = mail.add("email", tenant="a")
    mail.pause()
    mail.pause_type("email")

    assert codes(job) == ["paused", "type_paused", "no_worker", "behind", "tenant_share"]


def test_it_runs(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    hand.take_one()

    assert codes(job) == ["running"]
    assert "worker 'hand' has been running it for 0." in str(job.explain())


def test_it_has_ended(mail: penstock.Jobs, hand: Hand) -> None:
    done, dead, cancelled = mail.add_many("email", range(3))
    for process, state in zip(hand.take(3), ("done", "dead", "cancelled"), strict=True):
        hand.end_as(process, state)

    assert [codes(job) for job in (done, dead, cancelled)] == [["done"], ["failed"], ["cancelled"]]
    assert "it was done at 2" in str(done.explain())
    assert (
        "it has failed as often as it may; the last error: ValueError: no; "
        f"`penstock job retry {dead.id}` runs it again"
    ) in str(dead.explain())
    assert "it was cancelled at 2" in str(cancelled.explain())


def test_no_worker_that_serves_it_is_alive(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    hand.expire(ago_s=8)

    assert codes(job) == ["no_living_worker"]
    text = str(job.explain())
    assert "no living worker serves queue 'mail': the lease of worker 'hand' lapsed 8." in text
    assert "`penstock worker run MODULE -q mail` starts one" in text
    Hand(ps, "alive")
    assert codes(job) == ["next"]


def test_the_worker_that_runs_it_may_be_dead(mail: penstock.Jobs, hand: Hand) -> None:
    job = mail.add("email")
    hand.take_one()
    hand.expire(ago_s=8)

    assert codes(job) == ["worker_lapsed"]
    text = str(job.explain())
    assert "the lease of worker 'hand' lapsed 8." in text
    assert "the next living worker gives the job back" in text


def test_a_worker_that_was_given_up_does_not_count(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email")
    ps.store.run(workers.fail_worker(ps.keys, hand.id, MINUTE_MS))

    assert codes(job) == ["no_living_worker"]
    assert "worker 'hand' was given up" in str(job.explain())


def test_all_slots_are_taken_by_jobs_that_may_wait_for_it(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    parent = mail.add("email")
    worker = Hand(ps, "busy", slots=1)
    worker.take_one()
    child = mail.add("email")

    assert codes(child) == ["slots_taken"]
    text = str(child.explain())
    assert f"the only slot of the workers that handle it is taken by job {parent.id}" in text
    assert "if one of them waits for the result of this one, neither can go on" in text
    Hand(ps, "free", slots=1)
    assert codes(child) == ["next"]


def test_a_job_that_is_held_and_was_not_begun_is_told_from_one_that_runs(
    ps: penstock.Penstock, mail: penstock.Jobs
) -> None:
    jobs = mail.add_many("email", range(3))
    worker = Hand(ps, "busy", slots=2)
    worker.take(3)

    assert [codes(job) for job in jobs] == [["running"], ["running"], ["prefetched"]]
    text = str(jobs[2].explain())
    assert "worker 'busy' holds it and has not begun it" in text
    assert f"all 2 slots of the worker are taken by jobs {jobs[0].id}, {jobs[1].id}" in text
