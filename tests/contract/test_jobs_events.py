"""What listeners hear about jobs: each kind of event, once, with the right fields."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from penstock.codec.ids import id_text
from penstock.codec.notices import open_event, open_notice
from penstock.codec.progress import open_progress
from penstock.model.jobs import JOB_EVENT_KINDS, JobEvent
from tests.contract.job_workers import Hand, now_s
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    import penstock
    from tests.contract.conftest import Ear


@pytest.fixture
def hear(hand: Hand, listen: Callable[[str], Ear]) -> Callable[[], list[JobEvent]]:
    """What has happened since it was last asked."""
    ear = listen(hand.keys.events)
    return lambda: [open_event("mail", message) for message in ear.hear_the_rest()]


def kinds(events: list[JobEvent]) -> list[tuple[str, str]]:
    return [(event.kind, event.id) for event in events]


def test_a_job_is_enqueued_started_and_done(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    job = mail.add("email")
    hand.finish(hand.take_one())

    enqueued, started, done = hear()

    info = job.info()
    assert enqueued == JobEvent("enqueued", "mail", job.id, "email", info.created_at, 0)
    assert started == JobEvent("started", "mail", job.id, "email", info.started_at, 0, "hand")
    assert done == JobEvent("done", "mail", job.id, "email", info.finished_at, 0, "hand")


def test_every_job_of_a_batch_is_heard_of(
    mail: penstock.Jobs, hear: Callable[[], list[JobEvent]]
) -> None:
    jobs = mail.add_many("email", range(5))

    assert kinds(hear()) == [("enqueued", job.id) for job in jobs]


def test_progress_says_what_was_reported(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    mail.add("email")
    process = hand.take_one()
    hear()

    hand.note(process, 50, data={"page": 3})

    [event] = hear()
    assert (event.kind, event.worker) == ("progress", "hand")
    progress = open_progress(event.detail)
    assert (progress.percent, progress.data) == (50, {"page": 3})


def test_a_log_line_alone_is_no_event(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    mail.add("email")
    process = hand.take_one()
    hear()

    hand.note(process, None, b"a line")

    assert hear() == []


@pytest.mark.parametrize("delay_ms", [0, 60_000])
def test_a_job_that_is_tried_again_is_retried_with_the_error(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]], delay_ms: int
) -> None:
    job = mail.add("email", attempts=2)
    process = hand.take_one()
    hear()

    hand.fail(process, "first", delay_ms)

    [event] = hear()
    assert (event.kind, event.id, event.attempt) == ("retried", job.id, 1)
    assert json.loads(event.detail) == ["ValueError", "first", "Traceback"]


def test_a_job_whose_worker_died_is_retried(
    ps: penstock.Penstock, mail: penstock.Jobs, hear: Callable[[], list[JobEvent]]
) -> None:
    job = mail.add("email")
    other = Hand(ps, "other")
    other.take_one()
    hear()

    other.die()

    [event] = hear()
    assert (event.kind, event.id, event.attempt) == ("retried", job.id, 1)
    assert b"the worker ended by signal 9 (SIGKILL)" in event.detail


def test_a_job_whose_worker_lapsed_is_retried(
    ps: penstock.Penstock, mail: penstock.Jobs, hear: Callable[[], list[JobEvent]]
) -> None:
    job = mail.add("email")
    other = Hand(ps, "other")
    other.take_one()
    hear()

    other.lapse()

    [event] = hear()
    assert (event.kind, event.id, event.attempt) == ("retried", job.id, 1)
    assert b"SIGKILL" not in event.detail


def test_a_job_given_back_is_no_event(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    mail.add("email")
    process = hand.take_one()
    hear()

    hand.stop(process)

    assert hear() == []


def test_a_dead_job_says_why(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    job = mail.add("email")
    process = hand.take_one()
    hear()

    hand.reject(process)

    [event] = hear()
    assert (event.kind, event.id, event.attempt, event.detail) == ("dead", job.id, 1, b"rejected")


def test_a_cancelled_job_is_heard_of_when_it_has_ended(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    running, waiting = mail.add_many("email", range(2))
    process = hand.take_one()
    hear()

    waiting.cancel()
    running.cancel()
    assert kinds(hear()) == [("cancelled", waiting.id)]
    hand.end(process)

    assert kinds(hear()) == [("cancelled", running.id)]


def test_a_job_is_promoted_by_its_time_and_by_hand(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    by_hand = mail.add("email", delay=60)
    by_time = mail.add("email", delay=0.001)
    by_hand.promote()
    wait_for(lambda: now_s(mail) > by_time.info().due_at)
    assert len(hand.take(2)) == 2

    promoted = [pair for pair in kinds(hear()) if pair[0] == "promoted"]

    assert promoted == [("promoted", by_hand.id), ("promoted", by_time.id)]


@pytest.mark.parametrize("end", ["remove", "delete"])
def test_a_removed_job_is_heard_of(
    mail: penstock.Jobs, hear: Callable[[], list[JobEvent]], end: str
) -> None:
    job = mail.add("email")
    hear()

    job.remove() if end == "remove" else mail.delete()

    assert kinds(hear()) == [("removed", job.id)]


def test_a_dead_job_that_runs_again_is_enqueued_again(
    mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    job = mail.add("email")
    hand.fail(hand.take_one())
    hear()

    job.retry()

    assert kinds(hear()) == [("enqueued", job.id)]


def test_a_request_that_is_refused_is_no_event(
    ps: penstock.Penstock, mail: penstock.Jobs, hand: Hand, hear: Callable[[], list[JobEvent]]
) -> None:
    mail.add("email", unique="k")
    process = hand.take_one()
    hear()

    assert not mail.add("email", unique="k").is_new
    assert not Hand(ps, "other").finish(process)

    assert hear() == []


def test_a_listener_hears_what_happens_from_the_call_on(mail: penstock.Jobs) -> None:
    mail.add("email", "before")
    events = mail.events(timeout_s=5)

    job = mail.add("email")
    job.cancel()

    assert kinds([next(events), next(events)]) == [("enqueued", job.id), ("cancelled", job.id)]


def test_a_listener_hears_only_the_kinds_that_it_names(mail: penstock.Jobs, hand: Hand) -> None:
    events = mail.events("done", "dead")

    mail.add("email")
    hand.run_all()

    assert next(events).kind == "done"


def test_listening_ends_when_nothing_comes_for_the_given_time(mail: penstock.Jobs) -> None:
    mail.add("email")

    assert list(mail.events(timeout_s=0.05)) == []


def test_listening_ends_also_while_something_else_happens(mail: penstock.Jobs) -> None:
    events = mail.events("dead", timeout_s=1)

    with ThreadPoolExecutor(1) as listener:
        heard = listener.submit(list, events)
        wait_for(lambda: mail.add("email").is_new and heard.done())

    assert heard.result() == []


def test_every_kind_is_one_of_those_above() -> None:
    assert set(JOB_EVENT_KINDS) == {
        *("enqueued", "started", "progress", "retried", "done", "dead"),
        *("cancelled", "promoted", "removed"),
    }


def test_how_a_job_ends_is_told_only_where_somebody_waits(
    mail: penstock.Jobs, hand: Hand, listen: Callable[[str], Ear]
) -> None:
    heard = mail.add("email")._number
    mail.add("email", id=id_text(heard + 1))  # as another process would have made it
    ear = listen(hand.keys.ending_channel(heard))

    for job in hand.take(2):
        hand.finish(job)

    [message] = ear.hear_the_rest()
    assert open_notice(message)[:2] == (heard, "d")
