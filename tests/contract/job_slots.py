"""Schedules that fall due when a test wants it, fired one request at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.schedules import decode_schedule, due_slots
from penstock.store.commands.job_rules import StoredSchedule, fire_schedule, list_schedules
from penstock.worker.schedules import scheduled_jobs

if TYPE_CHECKING:
    import penstock

HOUR_MS = 3_600_000


def fall_due(ps: penstock.Penstock, name: str = "hourly", ago_ms: int = 0) -> int:
    """Let the next slot of a schedule be the last full hour, or one before; returns it (ms)."""
    seconds, _ = ps.store.call(ps.keys.queue("mail").meta, "TIME")
    slot = (int(seconds) * 1000 - ago_ms) // HOUR_MS * HOUR_MS
    key = f"{ps.keys.queue('mail').tag}:slots"
    ps.store.call(key, "ZADD", key, "XX", slot, name)
    return slot


def read(ps: penstock.Penstock, name: str = "hourly") -> tuple[int, StoredSchedule]:
    """What somebody who wants to fire a schedule reads first."""
    now_ms, [stored] = ps.store.run(list_schedules(ps.keys.queue("mail"), [name]))
    return now_ms, stored


def fire(ps: penstock.Penstock, now_ms: int, stored: StoredSchedule) -> bool:
    """Fire what was read; False if somebody else was first."""
    schedule = decode_schedule(stored.definition)
    assert stored.slot_ms is not None
    slots, following = due_slots(schedule, stored.slot_ms, now_ms)
    groups = scheduled_jobs(schedule, len(slots))
    return ps.store.run_once(
        lambda o: fire_schedule(ps.keys.queue("mail"), o, stored, following, groups)
    )
