"""Schedules that are changed while they are fired, or by two at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidArgument
from penstock.model.schedules import encode_schedule, make_schedule
from penstock.store.commands import job_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    import penstock
    from penstock.store.command import Operation
    from penstock.store.commands.job_rules import StoredSchedule

QUEUE = "mail"
LONG_AGO_MS = 1_000


@pytest.fixture
def overdue(ps: penstock.Penstock) -> StoredSchedule:
    """A schedule of which a slot has passed that nobody has fired."""
    ps.schedules(QUEUE).add("nightly", "email", every=3600, misfire="all")
    slots = f"{ps.keys.queue(QUEUE).tag}:slots"
    ps.store.call(slots, "ZADD", slots, LONG_AGO_MS, "nightly")
    return read(ps)


def read(ps: penstock.Penstock, name: str = "nightly") -> StoredSchedule:
    _, [stored] = ps.store.run(job_rules.list_schedules(ps.keys.queue(QUEUE), [name]))
    return stored


def test_a_schedule_that_is_added_again_stays_due(
    ps: penstock.Penstock, overdue: StoredSchedule
) -> None:
    ps.schedules(QUEUE).add("nightly", "email", {"new": True}, every=3600, misfire="all")

    assert read(ps).slot_ms == LONG_AGO_MS
    assert read(ps).definition != overdue.definition


def test_a_schedule_with_other_times_is_due_at_the_next_of_them(
    ps: penstock.Penstock, overdue: StoredSchedule
) -> None:
    state = ps.schedules(QUEUE).add("nightly", "email", every=1800, misfire="all")

    slot_ms = read(ps).slot_ms
    assert slot_ms is not None and slot_ms > LONG_AGO_MS
    assert state.next_at == slot_ms / 1000


def test_what_passed_while_a_schedule_was_paused_is_not_made_up_for(
    ps: penstock.Penstock, overdue: StoredSchedule
) -> None:
    ps.schedules(QUEUE).pause("nightly")
    ps.schedules(QUEUE).resume("nightly")

    slot_ms = read(ps).slot_ms
    assert slot_ms is not None and slot_ms > LONG_AGO_MS


def test_a_schedule_that_is_over_can_be_added_again_as_it_is(ps: penstock.Penstock) -> None:
    ended_at = datetime.now(UTC) - timedelta(hours=1)
    over = make_schedule("nightly", queue="mail", type="email", every=60, ends_at=ended_at)
    keys = ps.keys.queue("mail")
    ps.jobs("mail").add("email")
    ps.store.run_once(
        lambda o: job_rules.put_schedule(keys, o, "nightly", encode_schedule(over), None)
    )

    state = ps.schedules("mail").add("nightly", "email", every=60, ends_at=ended_at)

    assert state.next_at is None
    with pytest.raises(InvalidArgument, match="would never fire"):
        ps.schedules("mail").add("nightly", "email", every=90, ends_at=ended_at)


def test_a_schedule_that_cannot_be_read_can_be_replaced(ps: penstock.Penstock) -> None:
    ps.schedules(QUEUE).add("nightly", "email", every=3600)
    schedules = f"{ps.keys.queue(QUEUE).tag}:schedules"
    ps.store.call(schedules, "HSET", schedules, "nightly", b"nonsense")

    ps.schedules(QUEUE).add("nightly", "email", every=3600)

    assert ps.schedules(QUEUE).get("nightly").schedule.every_ms == 3_600_000


def test_a_schedule_that_was_fired_since_it_was_read_is_not_set_back(
    ps: penstock.Penstock, overdue: StoredSchedule, operations: Iterator[Operation]
) -> None:
    keys = ps.keys.queue(QUEUE)
    assert ps.store.run(job_rules.fire_schedule(keys, next(operations), overdue, 10**13, []))

    answer = ps.store.run(
        job_rules.put_schedule(keys, next(operations), *overdue, read=overdue.as_read)
    )

    assert answer is None
    assert read(ps).slot_ms == 10**13


def test_a_slot_that_passed_while_it_was_worked_out_is_not_stored(
    ps: penstock.Penstock, overdue: StoredSchedule, operations: Iterator[Operation]
) -> None:
    keys = ps.keys.queue(QUEUE)

    answer = ps.store.run(
        job_rules.put_schedule(
            keys, next(operations), "hourly", b"new", LONG_AGO_MS, read=job_rules.NO_SCHEDULE
        )
    )

    assert answer is None
    assert [state.schedule.name for state in ps.schedules(QUEUE).list()] == ["nightly"]


def test_the_client_that_brought_the_queue_into_being_is_not_refused(
    ps: penstock.Penstock, operations: Iterator[Operation]
) -> None:
    keys = ps.keys.queue(QUEUE)

    answer = ps.store.run(
        job_rules.put_schedule(
            keys, next(operations), "hourly", b"new", LONG_AGO_MS, "i1", job_rules.NO_SCHEDULE
        )
    )

    assert answer is True
