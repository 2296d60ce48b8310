"""Whether each slot of each schedule was fired, once, and as its misfire policy says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.model.schedules import MISFIRE_GRACE_MS, decode_schedule, next_slot_ms
from tests.simulation.server import Violated

if TYPE_CHECKING:
    from tests.simulation.jobs_checks import Change


class SlotBooks:
    """Which slots have been dealt with."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}
        """queue and schedule -> the last slot that was fired"""
        self.fired = 0

    def check(self, change: Change) -> None:
        """Slots change by nothing but these, and each slot that is fired changes."""
        name = change.step.name
        old, new = change.old, change.new
        is_same = (old.slots, old.schedules) == (new.slots, new.schedules)
        if name == "put_schedule":
            self._put(change)
        elif name == "fire_schedule":
            if is_same and change.changed:
                raise Violated(
                    f"{change.step.arguments['name']!r} was fired again for a slot that is over"
                )
            if not is_same:
                self._fired(change)
        elif not is_same and name not in ("remove_schedule", "delete_jobs"):
            raise Violated(f"{name} changed the schedules of {change.queue}")

    def _put(self, change: Change) -> None:
        """One that is added again as it was before is due when it was."""
        name = change.step.arguments["name"]
        if name not in change.old.schedules:
            return
        old = decode_schedule(change.old.schedules[name])
        new = decode_schedule(change.new.schedules[name])
        is_same = (old.cron, old.every_ms) == (new.cron, new.every_ms)
        is_paused = old.is_paused or new.is_paused
        if is_same and not is_paused and change.old.slots[name] != change.new.slots[name]:
            raise Violated(
                f"{name!r} was due at {change.old.slots[name]} and is at {change.new.slots[name]}, "
                "though its times are the same"
            )

    def _fired(self, change: Change) -> None:
        arguments, now_ms = change.step.arguments, change.step.now_ms
        name = arguments["name"]
        schedule = decode_schedule(change.old.schedules[name])
        first, following = change.old.slots[name], change.new.slots.get(name)
        slots = [first]
        while (slot := next_slot_ms(schedule, slots[-1])) is not None and slot != following:
            if slot > now_ms:
                raise Violated(f"{name!r} goes on at {following}, and {slot} is passed over")
            slots.append(slot)
        if slots[-1] > now_ms:
            raise Violated(f"slot {slots[-1]} of {name!r} was fired at {now_ms}, before its time")
        sent = sum(old is None for old, _ in change.changed.values())
        least, most = 1, 1
        if schedule.is_paused:
            least = most = 0
        elif schedule.misfire == "all":
            least = most = len(slots)
        elif schedule.misfire == "skip" and now_ms - slots[-1] > MISFIRE_GRACE_MS:
            least = 0
        if "unique" in schedule.options:
            least = 0
        if not least <= sent <= most:
            raise Violated(
                f"{sent} jobs were sent for slots {slots} of {name!r}, and {least} to {most} "
                "should be"
            )
        if sent:
            self._note(change.queue, name, slots)

    def _note(self, queue: str, name: str, slots: list[int]) -> None:
        last = self._last.get((queue, name), 0)
        if slots[0] <= last:
            raise Violated(f"slot {slots[0]} of {name!r} in {queue} was fired after {last} was")
        self._last[queue, name] = slots[-1]
        self.fired += len(slots)
