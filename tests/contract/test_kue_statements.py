"""What Kue's own tests promise, one test each, in their order (seed-systems 3.2); those of backoff
and log in test_kue_backoff, from 25 on in test_kue_workers.

Kue's word and ours: inactive is ready, active is running, complete is done, failed is dead, delayed
is scheduled, ttl is timeout.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.codec.notices import open_event
from penstock.errors import JobFailed
from tests.contract import test_kue_backoff, test_kue_workers
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.jobs import JobEvent
    from tests.contract.conftest import Ear
    from tests.contract.job_workers import Hand
    from tests.running_worker import RunningWorker

NOT_APPLICABLE = {
    34: "there is no singleton to free; tests/worker has that a stopped worker leaves nothing",
    39: "a second stop is no error here: it ends the worker at once, see tests/worker",
    40: "the pytest plugin penstock.testing runs jobs on a real Redis instead, see tests/testing",
    41: "HTTP belongs to the web part; add_many answers in order, see test_jobs_sending",
    42: "HTTP belongs to the web part; the moves behind it are in test_jobs_bad_input",
    43: "HTTP belongs to the web part; the search behind it is in test_jobs_looking",
    44: "HTTP belongs to the web part; the pages behind it are in test_jobs_looking",
    45: "there is no promoter and no lock: a worker that claims promotes, in the same step",
    46: "there is no sweeper and no acknowledgement: a worker ends its own job, a lease the worker",
    47: "ids are 13 characters that sort as they were made, so nothing need be put before them",
}
"""Statement -> why it has no test here."""


def test_every_statement_has_a_test_or_a_reason_for_none() -> None:
    names = [*globals(), *vars(test_kue_backoff), *vars(test_kue_workers)]
    tested = {int(found[1]) for name in names if (found := re.match(r"test_(\d\d)_", name))}

    assert not tested & NOT_APPLICABLE.keys()
    assert tested | NOT_APPLICABLE.keys() == set(range(1, 49))


@pytest.fixture
def hear(hand: Hand, listen: Callable[[str], Ear]) -> Callable[[], list[JobEvent]]:
    """What has happened in the queue since it was last asked."""
    ear = listen(hand.keys.events)
    return lambda: [open_event("mail", message) for message in ear.hear_the_rest()]


def test_01_saving_gives_a_new_id(mail: penstock.Jobs) -> None:
    first, second = mail.add("email"), mail.add("email")

    assert first.id != second.id
    assert re.fullmatch("[0-9a-z]{13}", first.id)


@penstock.job(queue="mail", type="echo")
def echo(value: Any) -> Any:
    return value


def test_02_the_processed_job_records_its_worker(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    worker = serve(echo)
    job = echo.on(ps).send(1)

    job.result(20)

    assert job.info().worker == worker.id


def test_03_the_producer_hears_that_it_is_complete(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(echo)
    job = echo.on(ps).send(1)

    assert ps.wait([job], 20) == ([job], [])
    assert job.state == "done"


def test_04_the_result_arrives_with_it(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(echo)

    assert echo.on(ps).send({"finalResult": [123]}).result(20) == {"finalResult": [123]}


@penstock.job(queue="mail", type="step")
def step(data: Any = None) -> None:
    penstock.current().progress(1, 2, data)


def test_05_progress_1_of_2_is_50(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(step)
    job = step.on(ps).send()

    job.result(20)

    assert job.progress is not None
    assert job.progress.percent == 50


def test_06_progress_carries_data(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(step)
    job = step.on(ps).send({"notifyTime": "00:00:00"})

    job.result(20)

    assert job.progress is not None
    assert job.progress.data == {"notifyTime": "00:00:00"}


def test_07_of_two_attempts_the_first_failure_is_an_attempt_and_the_second_the_end(
    mail: penstock.Jobs, hand: Hand
) -> None:
    job = mail.add("email", attempts=2)

    hand.fail(hand.take_one(), "first")
    [attempt] = job.attempts()
    assert attempt.number == 1
    assert attempt.error is not None and attempt.error.message == "first"
    hand.fail(hand.take_one(), "second")

    with pytest.raises(JobFailed, match="second"):
        job.result(20)


def test_08_the_queue_tells_the_same_with_the_id(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    job = mail.add("email", attempts=2)
    hand.fail(hand.take_one(), "first")
    hand.fail(hand.take_one(), "second")

    retried, dead = (event for event in hear() if event.kind in ("retried", "dead"))

    assert (retried.id, retried.kind, retried.attempt) == (job.id, "retried", 1)
    assert b"first" in retried.detail
    assert (dead.id, dead.kind, dead.attempt) == (job.id, "dead", 2)


def test_09_the_queue_tells_which_job_is_complete_and_it_has_the_result(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    mail.add("email")
    hand.finish(hand.take_one(), {"a": 1})

    *_, done = hear()

    assert done.kind == "done"
    assert ps.job(done.id).result(5) == {"a": 1}


def test_10_a_delayed_job_runs_after_its_delay(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    serve(echo)
    job = echo.options(delay=0.1).on(ps).send(1)

    job.result(20)

    info = job.info()
    assert 0.1 <= round(info.started_at - info.created_at, 3) < 5


def test_11_the_due_time_is_now_and_the_delay(mail: penstock.Jobs) -> None:
    info = mail.add("email", delay=1500).info()

    assert info.due_at == info.created_at + 1500


def test_12_changing_the_delay_before_promotion_moves_the_due_time(mail: penstock.Jobs) -> None:
    job = mail.add("email", delay=1500)
    before = job.info().due_at

    job.reschedule(3000)

    assert 1499 < job.info().due_at - before < 1560


def test_13_a_fixed_backoff_counts_from_the_failure(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    @penstock.job(queue="mail", type="fail", attempts=2, backoff=penstock.fixed(60))
    def fail() -> None:
        raise ValueError

    serve(fail)
    job = fail.on(ps).send()
    wait_for(lambda: job.state == "scheduled")

    [attempt] = job.attempts()
    assert round(job.info().due_at - attempt.ended_at, 3) == 60


def test_14_a_delay_can_be_a_date(mail: penstock.Jobs) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=5)

    assert mail.add("email", run_at=at).info().due_at == at.timestamp()


def test_15_becoming_due_is_an_event(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    job = mail.add("email", delay=0.001)
    wait_for(hand.take)

    assert [event.kind for event in hear() if event.id == job.id] == [
        *("enqueued", "promoted", "started")
    ]


def test_16_attempts_made_and_remaining_are_all_at_each_run(
    mail: penstock.Jobs, hand: Hand
) -> None:
    mail.add("email", attempts=5)

    for made in range(5):
        job = hand.take_one()
        assert (job.failures, job.attempts - job.failures) == (made, 5 - made)
        hand.fail(job)

    assert hand.take() == []


def test_23_enqueueing_is_an_event_with_id_and_type(
    mail: penstock.Jobs, hear: Callable[[], list[JobEvent]]
) -> None:
    job = mail.add("email-to-be")

    [event] = hear()
    assert (event.kind, event.id, event.type) == ("enqueued", job.id, "email-to-be")


def test_24_removing_is_an_event_with_id_and_type(
    mail: penstock.Jobs, hear: Callable[[], list[JobEvent]]
) -> None:
    job = mail.add("email-not-to-be")
    job.remove()

    *_, event = hear()
    assert (event.kind, event.id, event.type) == ("removed", job.id, "email-not-to-be")
