"""Faults on demand: workers that die, replies that get lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from penstock import current, job
from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from penstock.testing import TestPenstock

LEASE = timedelta(seconds=3)


@job(attempts=1)
def work() -> int:
    return current().attempt


def test_a_job_survives_a_worker_that_dies_before_it_runs(penstock: TestPenstock) -> None:
    sent = work.send()
    penstock.crash(sent)

    summary = penstock.run_all()

    assert (summary.ran, summary.crashed, summary.retried) == ([sent.id] * 2, [sent.id], [sent.id])
    assert summary.done == [sent.id]
    assert sent.info().crashes == 1


def test_a_job_survives_a_worker_that_dies_before_it_reports(penstock: TestPenstock) -> None:
    effects: list[int] = []

    @job
    def charge() -> None:
        effects.append(current().attempt)

    sent = charge.send()
    penstock.crash(sent, at="end")

    summary = penstock.run_all(charge)

    assert effects == [1, 2]
    assert summary.done == [sent.id]


def test_a_job_that_kills_three_workers_is_poison(penstock: TestPenstock) -> None:
    sent = work.send()
    penstock.crash(sent, times=5)

    summary = penstock.run_all()

    assert summary.crashed == [sent.id] * 3
    assert summary.dead == [sent.id]
    assert (sent.info().reason, sent.info().crashes) == ("poison", 3)
    assert [attempt.outcome for attempt in sent.attempts()] == ["lost"] * 3


def test_a_dead_worker_is_recovered_when_its_lease_has_run_out(penstock: TestPenstock) -> None:
    began_at = penstock.now
    lost, other = work.send(), work.send()
    penstock.crash(lost)

    at_once = penstock.run_all(until=LEASE)
    later = penstock.run_all()

    assert at_once.ran == [lost.id, other.id]
    assert later.done == [lost.id]
    assert LEASE < penstock.now - began_at < LEASE + timedelta(seconds=1)


def test_a_worker_dies_in_its_time_also_after_a_long_wait(penstock: TestPenstock) -> None:
    sent = work.options(delay=timedelta(days=7)).send()
    penstock.crash(sent)

    summary = penstock.run_all()

    assert summary.done == [sent.id]
    assert penstock.now.timestamp() - sent.info().created_at < 7 * 86_400 + 4


def test_a_dead_worker_is_also_recovered_by_a_later_run(penstock: TestPenstock) -> None:
    sent = work.send()
    penstock.crash(sent)
    penstock.run_all(until=0)

    penstock.advance(60)

    assert sent.state == "running"
    assert penstock.run_all(until=0).done == [sent.id]


def test_workers_die_by_type_and_by_function(penstock: TestPenstock) -> None:
    @job(queue="elsewhere", type="work")
    def namesake() -> None: ...

    by_type = namesake.send()
    by_function = work.send()
    penstock.crash("work", times=2)
    penstock.crash(work)

    summary = penstock.run_all(work, namesake)

    assert sorted(summary.crashed) == sorted([by_type.id, by_function.id, by_function.id])
    assert sorted(summary.done) == sorted([by_type.id, by_function.id])


def test_a_job_that_may_run_only_once_is_dead_when_its_worker_is(penstock: TestPenstock) -> None:
    sent = work.options(at_most_once=True).send()
    penstock.crash(sent)

    summary = penstock.run_all()

    assert summary.dead == [sent.id]
    assert sent.info().reason == "lost"


@pytest.mark.parametrize("script", ["send_jobs", "start_jobs", "report_jobs", "note_job"])
def test_a_lost_reply_has_no_second_effect(penstock: TestPenstock, script: str) -> None:
    ran: list[str] = []

    @job
    def note() -> None:
        ran.append(current().job)
        current().log("once")

    penstock.lose_reply(script, times=2)
    jobs = [note.send(), note.send()]

    summary = penstock.run_all(note)

    assert summary.done == ran == [each.id for each in jobs]
    assert [info.id for info in penstock.sent()] == ran
    assert [[line for _, line in each.log()] for each in jobs] == [["once"], ["once"]]


def test_a_schedule_whose_reply_got_lost_fires_once(penstock: TestPenstock) -> None:
    penstock.schedules("default").add("nightly", "work", [[]], every=3600)
    penstock.lose_reply("fire_schedule")

    assert len(penstock.run_all(until=3600).done) == 1


def test_the_reply_to_a_plain_task_can_be_lost_too(penstock: TestPenstock) -> None:
    penstock.lose_reply("enqueue_tasks")

    penstock.queue("mail").enqueue(b"hello")

    assert penstock.queue("mail").count() == 1


def test_faults_that_make_no_sense_are_refused(penstock: TestPenstock) -> None:
    with pytest.raises(InvalidArgument, match=r"no script 'report_job'; .* such as 'send_jobs'"):
        penstock.lose_reply("report_job")
    with pytest.raises(InvalidArgument, match="at is 'middle'"):
        penstock.crash("work", at="middle")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="times is 0"):
        penstock.crash("work", times=0)
    for nonsense in (5, None, print):
        with pytest.raises(InvalidArgument, match="name a job, a function that is one, or a type"):
            penstock.crash(nonsense)  # type: ignore[arg-type]


def test_a_type_that_nobody_knows_is_found_when_it_is_run(penstock: TestPenstock) -> None:
    work.send()
    penstock.crash("wrok")

    with pytest.raises(InvalidArgument, match=r"of type 'wrok', but none was sent .* have work$"):
        penstock.run_all()


def test_a_type_of_which_a_job_was_sent_may_have_its_function_in_a_later_run(
    penstock: TestPenstock,
) -> None:
    @job(type="other")
    def other() -> None: ...

    sent = other.send()
    penstock.crash("other")

    assert penstock.run_all().crashed == []
    assert penstock.run_all(other).crashed == [sent.id]
