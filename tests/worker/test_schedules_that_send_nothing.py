"""Schedules that have fallen due and cannot send anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.servers import wait_for
from tests.worker.job_kinds import in_thread

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    import pytest

    import penstock
    from tests.running_worker import RunningWorker


def test_a_schedule_that_cannot_send_does_not_keep_its_worker_busy(
    ps: penstock.Penstock,
    serve: Callable[..., RunningWorker],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ps.jobs("mail").configure(max_length=1)
    ps.jobs("mail").add("nobody runs this")
    ps.schedules("mail").add("often", in_thread.type, every=1)

    def refusals() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "could not be fired" in record.msg]

    serve(in_thread)

    # A worker that has just begun looks twice: at once, and when it hears wake-ups.
    wait_for(lambda: len(refusals()) >= 4)
    first, *_, fourth = refusals()[:4]
    assert fourth.created - first.created > 0.5


def test_a_schedule_sends_for_as_many_missed_slots_as_there_is_room_for(
    ps: penstock.Penstock, serve: Callable[..., RunningWorker]
) -> None:
    mail = ps.jobs("mail")
    mail.configure(max_length=3)
    data = [["describe itself"]]
    ps.schedules("mail").add("often", in_thread.type, data, every=3600, misfire="all")
    slots = f"{ps.keys.queue('mail').tag}:slots"
    missed = int(ps.store.call(slots, "ZSCORE", slots, "often")) - 8 * 3_600_000
    ps.store.call(slots, "ZADD", slots, missed, "often")

    serve(in_thread)

    wait_for(lambda: mail.counts()["done"] == 8)
