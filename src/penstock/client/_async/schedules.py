"""Schedules of a queue: jobs that are sent again and again, by any worker of the queue."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from penstock.codec.values import pack_data
from penstock.errors import InvalidArgument, ProtocolError, ScheduleNotFound
from penstock.model.job_options import JobSettings, json_settings, make_options
from penstock.model.queues import check_payload
from penstock.model.schedules import (
    Misfire,
    Schedule,
    check_not_over,
    decode_schedule,
    encode_schedule,
    make_schedule,
    next_slot_ms,
)
from penstock.store.commands import job_rules

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from penstock.client._async.client import AsyncPenstock
    from penstock.client._async.job import AsyncJob
    from penstock.client.functions import JobFunction
    from penstock.store.commands.job_rules import StoredSchedule


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule, and when it is due next."""

    schedule: Schedule
    next_at: float | None
    """seconds since 1970; None: never again"""


class AsyncSchedules:
    """The schedules of one queue."""

    def __init__(self, client: AsyncPenstock, queue: str) -> None:
        self._client = client
        self._store = client.store
        self._keys = client.keys.queue(queue)
        self.queue = queue

    async def add(
        self,
        name: str,
        type: str | JobFunction[..., Any],
        data: object = None,
        *,
        cron: str | None = None,
        every: float | timedelta | None = None,
        timezone: str = "UTC",
        misfire: Misfire = "once",
        starts_at: datetime | None = None,
        ends_at: datetime | None = None,
        **options: Unpack[JobSettings],
    ) -> ScheduleState:
        """Send a job of this type at the times of `cron`, or `every` so many seconds. A schedule of
        the same name is replaced; if its times are the same, what is due already stays due.

        `misfire` says what happens to times at which no worker was there: `skip` them, run `once`
        for all of them, or run `all`. The other options are those of a job.

        Raises InvalidArgument for what is wrong, and for a schedule that is over before it begins.

        In the place of a type, a function that was made a job also brings the options that it was
        made with; those given here go before them.
        """
        packed = pack_data("the data of the job", data)
        kind: Any = type
        # JobFunction cannot be imported here, as it imports the client. What is neither such a
        # function nor text is refused as a name.
        if not isinstance(type, str) and hasattr(type, "settings_in"):
            options = type.settings_in(self.queue, options)
            type.signature.check_data(packed)
            kind = type.type
        _check_options(options)
        make_options(kind, options)  # refuses what is wrong before anything is written
        check_payload("data of a job", packed, self._client.settings.max_payload)
        schedule = make_schedule(
            name,
            queue=self.queue,
            type=kind,
            data=packed,
            cron=cron,
            every=every,
            timezone=timezone,
            misfire=misfire,
            starts_at=starts_at,
            ends_at=ends_at,
            options=json_settings(options),
        )
        while True:
            now_ms, stored = await self._read(name)
            # A stored schedule may be over: a program may add it again with each start.
            if stored is None or not _has_same_times(stored, schedule):
                check_not_over(schedule, now_ms)
            state = await self._put(schedule, stored, now_ms)
            if state is not None:
                return state

    async def list(self) -> list[ScheduleState]:
        """All schedules, by name."""
        _, found = await self._store.run(job_rules.list_schedules(self._keys))
        return sorted(map(_state, found), key=lambda state: state.schedule.name)

    async def get(self, name: str) -> ScheduleState:
        """One schedule. Raises ScheduleNotFound."""
        _, stored = await self._read(name)
        if stored is None:
            raise self._absent(name)
        return _state(stored)

    async def remove(self, name: str) -> None:
        """Remove a schedule; jobs that it has sent stay. Raises ScheduleNotFound."""
        if not await self._store.run_once(
            lambda operation: job_rules.remove_schedule(self._keys, operation, name)
        ):
            raise self._absent(name)

    async def run(self, name: str) -> AsyncJob[Any]:
        """Send its job now; when it is due next does not change."""
        schedule = (await self.get(name)).schedule
        options = make_options(schedule.type, schedule.options)  # type: ignore[arg-type]
        return await self._client.jobs(self.queue).send_one(options, schedule.data)

    async def pause(self, name: str) -> None:
        """Let its times pass without sending anything."""
        await self._change(name, is_paused=True)

    async def resume(self, name: str) -> None:
        """Send jobs again, from the next time on."""
        await self._change(name, is_paused=False)

    async def _change(self, name: str, is_paused: bool) -> None:
        """Change it as it is stored now; tried again if a worker or another client was faster."""
        while True:
            now_ms, stored = await self._read(name)
            if stored is None:
                raise self._absent(name)
            schedule = replace(decode_schedule(stored.definition), is_paused=is_paused)
            if await self._put(schedule, stored, now_ms) is not None:
                return

    async def _read(self, name: str) -> tuple[int, StoredSchedule | None]:
        now_ms, found = await self._store.run(job_rules.list_schedules(self._keys, [name]))
        return now_ms, found[0] if found else None

    async def _put(
        self, schedule: Schedule, stored: StoredSchedule | None, now_ms: int
    ) -> ScheduleState | None:
        """Store a schedule in the place of what was read at that time; None if that is there no
        more.
        """
        is_same = stored is not None and _has_same_times(stored, schedule)
        slot_ms = stored.slot_ms if stored and is_same else next_slot_ms(schedule, now_ms)
        definition = encode_schedule(schedule)
        read = job_rules.NO_SCHEDULE if stored is None else stored.as_read
        is_new = await self._client.queue(self.queue)._in_queue(
            lambda incarnation: self._store.run_once(
                lambda operation: job_rules.put_schedule(
                    self._keys, operation, schedule.name, definition, slot_ms, incarnation, read
                )
            )
        )
        if is_new is None:
            return None
        return ScheduleState(schedule, None if slot_ms is None else slot_ms / 1000)

    def _absent(self, name: str) -> ScheduleNotFound:
        return ScheduleNotFound(
            f"queue {self.queue!r} has no schedule {name!r}; `penstock schedule list` shows all"
        )


def _has_same_times(stored: StoredSchedule, new: Schedule) -> bool:
    """Whether both have the same slots, and a slot that is due already stays due."""
    try:
        old = decode_schedule(stored.definition)
    except ProtocolError:
        return False  # what cannot be read is there to be replaced
    if old.is_paused or new.is_paused:
        return False
    times = ("cron", "every_ms", "timezone", "starts_at_ms", "ends_at_ms")
    return all(getattr(old, name) == getattr(new, name) for name in times)


def _check_options(options: JobSettings) -> None:
    if "id" in options:
        raise InvalidArgument("every job of a schedule has an id of its own; leave out id")
    if "run_at" in options:
        raise InvalidArgument("a schedule says when its jobs run; leave out run_at")


def _state(stored: job_rules.StoredSchedule) -> ScheduleState:
    next_at = None if stored.slot_ms is None else stored.slot_ms / 1000
    return ScheduleState(decode_schedule(stored.definition), next_at)
