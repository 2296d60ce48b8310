"""Fires schedules that have fallen due. Any worker may; each slot is fired once."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from penstock.codec.heads import pack_head
from penstock.codec.values import words_of
from penstock.connection.job_ids import new_ids
from penstock.errors import PenstockError, QueueFull
from penstock.model.job_options import MAX_WORDS, make_options
from penstock.model.schedules import decode_schedule, due_slots
from penstock.store.commands import job_rules
from penstock.store.commands.jobs import Group, IdTaken

if TYPE_CHECKING:
    from penstock.client.client import AsyncPenstock
    from penstock.model.schedules import Schedule
    from penstock.store.commands.job_rules import StoredSchedule
    from penstock.store.keys import QueueKeys

log = logging.getLogger("penstock.worker")


async def fire_schedules(client: AsyncPenstock, keys: QueueKeys, names: list[str]) -> int:
    """Send what these schedules send now; returns how many jobs.

    If there is no room for all slots that were missed, the first ones are fired, and the rest stays
    due.
    """
    now_ms, found = await client.store.run(job_rules.list_schedules(keys, names))
    sent = 0
    for stored in found:
        if stored.slot_ms is None or stored.slot_ms > now_ms:
            continue
        try:
            sent += await _fire(client, keys, stored, now_ms)
        except PenstockError as error:
            log.error(
                "a schedule could not be fired queue=%s schedule=%s error=%s",
                keys.queue,
                stored.name,
                error,
            )
    return sent


async def _fire(client: AsyncPenstock, keys: QueueKeys, stored: StoredSchedule, now_ms: int) -> int:
    schedule = decode_schedule(stored.definition)
    assert stored.slot_ms is not None
    slots, next_slot = due_slots(schedule, stored.slot_ms, now_ms)
    while True:
        groups = scheduled_jobs(schedule, len(slots))
        try:
            is_first = await client.store.run_once(
                partial(
                    job_rules.fire_schedule,
                    keys,
                    schedule=stored,
                    next_slot_ms=next_slot,
                    groups=groups,
                )
            )
        except IdTaken:
            continue
        except QueueFull:
            if len(slots) < 2:
                raise
            slots, next_slot = due_slots(schedule, stored.slot_ms, now_ms, len(slots) // 2)
            continue
        return len(slots) if is_first else 0


def scheduled_jobs(schedule: Schedule, count: int) -> list[Group]:
    """The jobs that a schedule sends for so many slots."""
    if count == 0:
        return []
    options = make_options(schedule.type, schedule.options)  # type: ignore[arg-type]
    head = pack_head(options, words_of(schedule.data, options.search, MAX_WORDS))
    members = [(number, schedule.data) for number in new_ids(count)]
    return [Group(head, options.delay_ms, options.run_at_ms, options.window_ms, members)]
