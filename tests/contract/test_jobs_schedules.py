"""Schedules: one worker fires each slot once, and missed ones as was asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock import exponential, fixed
from penstock.codec.heads import pack_head
from penstock.codec.values import words_of
from penstock.errors import InvalidArgument, InvalidName, ScheduleNotFound, WrongKind
from penstock.model.job_options import MAX_WORDS, make_options
from penstock.model.schedules import decode_schedule
from penstock.store.commands.job_rules import list_schedules
from penstock.worker.schedules import scheduled_jobs
from tests.contract.job_slots import HOUR_MS, fall_due, fire, read
from tests.contract.job_workers import Hand, written

if TYPE_CHECKING:
    from penstock.client.schedules import Schedules
    from tests.stored import Stored


@pytest.fixture
def schedules(ps: penstock.Penstock) -> Schedules:
    return ps.schedules("mail")


def test_a_schedule_says_when_it_is_due_next(schedules: Schedules) -> None:
    state = schedules.add("hourly", "email", {"to": "ann"}, cron="0 * * * *", priority="high")

    assert state.next_at is not None
    at = datetime.fromtimestamp(state.next_at, UTC)
    assert (at.minute, at.second) == (0, 0)
    assert timedelta() < at - datetime.now(UTC) <= timedelta(hours=1)
    assert schedules.get("hourly") == state
    assert [each.schedule.name for each in schedules.list()] == ["hourly"]


def test_a_worker_that_asks_is_told_which_schedules_are_due(
    ps: penstock.Penstock, schedules: Schedules, hand: Hand
) -> None:
    schedules.add("hourly", "email", every=3600)
    claim = hand.claim()
    assert claim.schedules == []
    assert 0 < claim.wait_ms <= HOUR_MS

    fall_due(ps)

    claim = hand.claim()
    assert claim.schedules == ["hourly"]
    assert claim.wait_ms == -1  # who was told looks again when it has fired


def test_a_slot_sends_one_job_with_the_options_of_the_schedule(
    ps: penstock.Penstock, schedules: Schedules, mail: penstock.Jobs
) -> None:
    schedules.add(
        *("hourly", "email", {"to": "ann"}),
        every=3600,
        priority="high",
        tags=["x"],
        attempts=3,
        search=True,
    )
    slot = fall_due(ps)

    assert fire(ps, *read(ps))

    [job] = mail.page("ready").jobs
    assert (job.type, json.loads(job.data)) == ("email", {"to": "ann"})
    assert (job.priority, job.tags, job.attempts) == (-10, ("x",), 3)
    assert [found.id for found in mail.search("ann")] == [job.id]
    assert schedules.get("hourly").next_at == (slot + HOUR_MS) / 1000


@pytest.mark.stores("debian")
@pytest.mark.parametrize(
    "options",
    [
        {"timeout": timedelta(seconds=5)},
        {"expires": timedelta(hours=1)},
        {"delay": timedelta(milliseconds=1500)},
        {"debounce": timedelta(seconds=5), "unique": "k"},
        {"unique": "k", "unique_for": timedelta(hours=1)},
        {"attempts": 3, "backoff": exponential(1, 60, 0.5)},
        {"attempts": 3, "backoff": fixed(timedelta(seconds=3))},
        {"attempts": 3, "backoff": timedelta(seconds=3)},
        {"attempts": 3, "backoff": "named:patient"},
        {"tags": {"x"}},
        {"tags": ("x", "y"), "timeout": None},
        {"search": ("to",)},
    ],
    ids=str,
)
def test_a_scheduled_job_has_the_options_that_it_would_have_if_it_were_sent(
    ps: penstock.Penstock, options: dict[str, Any]
) -> None:
    ps.schedules("mail").add("hourly", "email", {"to": "ann"}, every=3600, **options)
    [_, [schedule]] = ps.store.run(list_schedules(ps.keys.queue("mail")))

    [fired] = scheduled_jobs(decode_schedule(schedule.definition), 1)

    meant = make_options("email", options)  # type: ignore[arg-type]
    words = words_of({"to": "ann"}, meant.search, MAX_WORDS)
    head = pack_head(replace(meant, tags=tuple(sorted(meant.tags))), words)
    assert (fired.head, fired.delay_ms, fired.window_ms) == (head, meant.delay_ms, meant.window_ms)


@penstock.job(queue="mail", attempts=5, timeout=30, priority="high", search=["to"])
def email(to: str, copies: int = 1) -> None: ...


def test_a_schedule_of_a_function_sends_what_the_function_sends(
    ps: penstock.Penstock, schedules: Schedules, mail: penstock.Jobs
) -> None:
    sent = email.on(ps).send(to="ann").info()
    schedules.add("hourly", email, {"to": "bob"}, every=3600)

    scheduled = schedules.run("hourly").info()

    assert (sent.type, sent.attempts, sent.timeout_s, sent.priority) == ("email", 5, 30.0, -10)
    for name in ("type", "attempts", "timeout_s", "priority"):
        assert getattr(scheduled, name) == getattr(sent, name)
    assert [job.id for job in mail.search("bob")] == [scheduled.id]


def test_options_of_a_schedule_go_before_those_of_its_function(schedules: Schedules) -> None:
    schedules.add("hourly", email, {"to": "bob"}, every=3600, attempts=2)

    job = schedules.run("hourly").info()

    assert (job.attempts, job.timeout_s, job.priority) == (2, 30.0, -10)


def test_a_type_by_its_name_has_only_the_options_that_are_given(schedules: Schedules) -> None:
    schedules.add("hourly", "email", {"to": "bob"}, every=3600, attempts=2)

    job = schedules.run("hourly").info()

    assert (job.attempts, job.priority) == (2, 0)


def test_a_function_is_scheduled_only_in_its_own_queue_and_with_what_it_takes(
    ps: penstock.Penstock, schedules: Schedules, stored: Stored
) -> None:
    with pytest.raises(InvalidArgument, match=r"belongs to queue 'mail', .*schedules\('mail'\)"):
        ps.schedules("other").add("hourly", email, {"to": "ann"}, every=3600)
    with pytest.raises(InvalidArgument, match="missing 1 required positional argument: 'to'"):
        schedules.add("hourly", email, every=3600)
    with pytest.raises(InvalidName, match="a job type name is text, not function"):
        schedules.add("hourly", lambda: None, every=3600)  # type: ignore[arg-type]

    assert written(stored) == {}


def test_a_schedule_is_replaced_by_one_of_the_same_name(schedules: Schedules) -> None:
    schedules.add("report", "email", 1, every=3600)
    schedules.add("report", "fax", 2, cron="30 2 * * *", timezone="Europe/Berlin")

    [state] = schedules.list()

    assert (state.schedule.type, state.schedule.cron) == ("fax", "30 2 * * *")


def test_a_schedule_can_be_run_at_once(
    schedules: Schedules, hand: Hand, mail: penstock.Jobs
) -> None:
    state = schedules.add("hourly", "email", "now", every=3600)

    job = schedules.run("hourly")

    assert hand.run_all() == ["now"]
    assert job.state == "done"
    assert schedules.get("hourly") == state


def test_a_schedule_that_is_not_there_is_not_found(schedules: Schedules) -> None:
    for act in (schedules.get, schedules.remove, schedules.run, schedules.pause, schedules.resume):
        with pytest.raises(ScheduleNotFound, match="queue 'mail' has no schedule 'x'; `penstock s"):
            act("x")
    assert schedules.list() == []


@pytest.mark.stores("debian")
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "has no time; give either cron, such as"),
        ({"cron": "* * * * *", "every": 5}, "has both cron and every"),
        ({"cron": "every day"}, "cron 'every day' cannot be read"),
        ({"cron": "61 * * * *"}, "cannot be read"),
        ({"cron": "0 0 31 2 *"}, "never fires, because no such day exists"),
        ({"cron": "* * * * * * *"}, "cannot be read"),
        ({"every": 0}, "give 1 to 31622400 seconds"),
        ({"every": float("nan")}, "every is nan s"),
        ({"every": float("inf")}, "every is inf s"),
        ({"every": 60, "timezone": "Mars/Olympus"}, "time zone 'Mars/Olympus' is not known here"),
        ({"every": 60, "misfire": "twice"}, "misfire is 'twice'; give 'skip', 'once' or 'all'"),
        ({"every": 60, "priority": "urgent"}, "there is no priority 'urgent'"),
        ({"every": 60, "colour": 1}, "a job has no option 'colour'"),
        ({"every": 60, "id": "06w53cqsa2thy"}, "every job of a schedule has an id of its own"),
        ({"every": 60, "run_at": datetime(2030, 1, 1, tzinfo=UTC)}, "a schedule says when"),
        ({"every": 60, "starts_at": datetime(2030, 1, 1)}, "has no time zone"),
        (
            {"every": 60, "ends_at": datetime(2020, 1, 1, tzinfo=UTC)},
            "never fire: no slot is left before its ends_at, 2020-01-01 00:00:00 UTC; give a later",
        ),
    ],
    ids=str,
)
def test_a_schedule_that_makes_no_sense_is_refused_and_nothing_is_written(
    schedules: Schedules, stored: Stored, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        schedules.add("s", "email", **given)

    assert written(stored) == {}


def test_a_queue_of_plain_tasks_has_no_schedules(
    ps: penstock.Penstock, schedules: Schedules
) -> None:
    ps.queue("mail").enqueue(b"a")

    with pytest.raises(WrongKind, match="queue 'mail' holds plain tasks"):
        schedules.add("hourly", "email", every=3600)
