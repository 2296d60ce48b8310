"""Schedules: jobs that are sent again and again, and the instants at which that happens.

Instants are milliseconds since 1970 in UTC. A slot is an instant at which a schedule fires; slots
depend on nothing but the schedule, so any worker computes the same ones.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, get_args

from penstock.errors import InvalidArgument, InvalidName, ProtocolError
from penstock.model.cron import check_cron, check_zone, next_cron_s
from penstock.model.names import check_name
from penstock.model.queues import check_bytes
from penstock.model.retries import MAX_DURATION_MS, duration_ms

Misfire = Literal["skip", "once", "all"]

MISFIRE_GRACE_MS = 60_000
"""How late a slot may be and still count as on time."""

MAX_SCHEDULES = 1000
"""How many schedules one queue may have, so that they can be listed at once."""

VERSION = 1
"""Of the stored form; a reader refuses a higher one."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS = 32_503_680_000_000  # the year 3000


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job to be enqueued again and again. Build one with `make_schedule`, which checks it."""

    name: str
    queue: str
    type: str
    data: bytes = b""
    """the data of each job, verbatim"""
    options: dict[str, Any] = field(default_factory=dict)
    """the options of each job, as JSON has them"""
    cron: str = ""
    """minute, hour, day, month, weekday; '' for an interval"""
    every_ms: int = 0
    """0 for cron"""
    timezone: str = "UTC"
    """where the cron expression is read; intervals have no use for it"""
    misfire: Misfire = "once"
    """what to do about slots that passed while no worker looked: drop them, fire the latest, or all
    """
    starts_at_ms: int = 0
    """no slot is earlier, and intervals count from here; 0 for none"""
    ends_at_ms: int = 0
    """no slot is later; 0 for none"""
    is_paused: bool = False


def make_schedule(
    name: str,
    *,
    queue: str,
    type: str,
    data: bytes = b"",
    cron: str | None = None,
    every: float | timedelta | None = None,
    timezone: str = "UTC",
    misfire: Misfire = "once",
    starts_at: datetime | None = None,
    ends_at: datetime | None = None,
    options: dict[str, Any] | None = None,
) -> Schedule:
    """A schedule that is known to make sense and to fire at least once.

    Give either `cron` (five fields, six with seconds, or a macro such as `@daily`) or `every`
    (seconds or a timedelta, 1 second to 366 days).
    Raises InvalidArgument, or InvalidName for the schedule, the queue or the job type.
    """
    if (cron is None) == (every is None):
        raise InvalidArgument(
            f"schedule {name!r} has {'no time' if cron is None else 'both cron and every'}; give "
            "either cron, such as '0 3 * * *', or every, such as 300 seconds"
        )
    schedule = Schedule(
        name=name,
        queue=queue,
        type=type,
        data=data,
        options=_as_json(options or {}),
        cron="" if cron is None else check_cron(cron),
        every_ms=0 if every is None else duration_ms("every", every, at_least_s=1),
        timezone=timezone,
        misfire=misfire,
        starts_at_ms=_epoch_ms("starts_at", starts_at),
        ends_at_ms=_epoch_ms("ends_at", ends_at),
    )
    _check(schedule)
    return schedule


def next_slot_ms(schedule: Schedule, after_ms: int) -> int | None:
    """The first slot strictly after `after_ms`, or None if there is none any more.

    Intervals count real time from `starts_at_ms` (from 1970 without one). Cron is read off the
    clock of the schedule's time zone; `next_cron_s` says what happens when that clock is changed.
    """
    after_ms = max(after_ms, schedule.starts_at_ms - 1)
    slot: int | None
    if schedule.every_ms:
        periods = (after_ms - schedule.starts_at_ms) // schedule.every_ms + 1
        slot = schedule.starts_at_ms + periods * schedule.every_ms
    else:
        slot_s = next_cron_s(schedule.cron, schedule.timezone, after_ms // 1000)
        slot = None if slot_s is None else slot_s * 1000
    has_ended = slot is not None and 0 < schedule.ends_at_ms < slot
    return None if has_ended else slot


def check_not_over(schedule: Schedule, now_ms: int) -> None:
    """Refuse a schedule that will not fire any more."""
    if next_slot_ms(schedule, now_ms) is None:
        ends_at = datetime.fromtimestamp(schedule.ends_at_ms / 1000, UTC)
        raise InvalidArgument(
            f"schedule {schedule.name!r} ({describe_schedule(schedule)}) would never fire: no slot "
            f"is left before its ends_at, {ends_at:%Y-%m-%d %H:%M:%S} UTC; give a later one"
        )


def due_slots(
    schedule: Schedule, slot_ms: int, now_ms: int, limit: int = 100
) -> tuple[list[int], int | None]:
    """Which slots to fire now, in rising order, and the slot to store as the next one.

    `slot_ms` is the stored slot; if it is still to come, nothing fires and it stays. Otherwise,
    by the schedule's `misfire`:

    - all: every slot up to now, but `limit` at most; the rest is due at the next call.
    - once: the latest slot up to now.
    - skip: the latest slot up to now, if it is at most MISFIRE_GRACE_MS late.

    A paused schedule fires nothing, and what it missed is not made up for later.
    """
    if limit < 1:
        raise InvalidArgument(f"limit is {limit}; give a whole number from 1 up")
    if slot_ms > now_ms:
        return [], slot_ms
    if schedule.is_paused:
        return [], next_slot_ms(schedule, now_ms)
    if schedule.misfire == "all":
        fired = [slot_ms]
        while (following := next_slot_ms(schedule, fired[-1])) is not None:
            if following > now_ms or len(fired) == limit:
                break
            fired.append(following)
        return fired, following
    latest = _latest_slot_ms(schedule, slot_ms, now_ms)
    is_late = now_ms - latest > MISFIRE_GRACE_MS
    fired = [] if schedule.misfire == "skip" and is_late else [latest]
    return fired, next_slot_ms(schedule, now_ms)


def encode_schedule(schedule: Schedule) -> bytes:
    """The schedule as stored: a JSON object, the job's data as text where it is text."""
    stored: dict[str, Any] = {"version": VERSION}
    stored |= {each.name: getattr(schedule, each.name) for each in fields(Schedule)}
    try:
        stored["data"] = schedule.data.decode()
    except UnicodeDecodeError:
        stored["data"] = {"base64": base64.b64encode(schedule.data).decode()}
    return json.dumps(stored, separators=(",", ":")).encode()


def decode_schedule(stored: bytes) -> Schedule:
    """The schedule that was stored, checked as a new one is; raises ProtocolError."""
    try:
        found = json.loads(stored)
        version = found.pop("version")
        if version > VERSION:
            raise ProtocolError(
                f"a schedule is stored in version {version} and this penstock reads up to "
                f"{VERSION}; upgrade penstock here"
            )
        if isinstance(found["data"], str):
            found["data"] = found["data"].encode()
        else:
            found["data"] = base64.b64decode(found["data"]["base64"], validate=True)
        schedule = Schedule(**found)
        _check(schedule)
    except (InvalidArgument, InvalidName) as error:
        raise ProtocolError(
            f"a stored schedule makes no sense: {error}; create it again"
        ) from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise ProtocolError(
            f"a stored schedule cannot be read: {stored[:80]!r}; create it again"
        ) from error
    return schedule


def describe_schedule(schedule: Schedule) -> str:
    """When it fires, for people: `cron 0 3 * * * (Europe/Berlin)` or `every 5 min, paused`."""
    if schedule.cron:
        when = f"cron {schedule.cron} ({schedule.timezone})"
    else:
        when, rest = "every", schedule.every_ms
        for unit, size_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
            count, rest = divmod(rest, size_ms)
            when += f" {count} {unit}" if count else ""
        when += f" {rest / 1000:g} s" if rest else ""
    return when + (", paused" if schedule.is_paused else "")


def _latest_slot_ms(schedule: Schedule, slot_ms: int, now_ms: int) -> int:
    """The last slot up to `now_ms`, given one, in about as many steps as the time has bits."""
    following_ms = next_slot_ms(schedule, slot_ms)
    if following_ms is None or following_ms > now_ms:
        return slot_ms  # at once, as nearly always
    latest_ms, bound_ms = following_ms, now_ms
    while latest_ms < bound_ms:
        middle_ms = (latest_ms + bound_ms) // 2
        following_ms = next_slot_ms(schedule, middle_ms)
        if following_ms is None or following_ms > now_ms:
            bound_ms = middle_ms
        else:
            latest_ms = following_ms
    return latest_ms


def _check(schedule: Schedule) -> None:
    """Refuse a schedule of which any part makes no sense."""
    check_name("schedule", schedule.name)
    check_name("queue", schedule.queue)
    check_name("job type", schedule.type)
    check_bytes("job's data", schedule.data)
    _as_json(schedule.options)
    check_zone(schedule.timezone)
    if schedule.misfire not in get_args(Misfire):
        raise InvalidArgument(f"misfire is {schedule.misfire!r}; give 'skip', 'once' or 'all'")
    if type(schedule.is_paused) is not bool:
        raise InvalidArgument(f"is_paused is {schedule.is_paused!r}; give True or False")
    for part in ("every_ms", "starts_at_ms", "ends_at_ms"):
        given = getattr(schedule, part)
        if type(given) is not int or not 0 <= given < _LATEST_MS:
            raise InvalidArgument(f"{part} is {given!r}; give whole milliseconds")
    if schedule.cron and schedule.every_ms:
        raise InvalidArgument(f"schedule {schedule.name!r} has both cron and every; give one")
    if schedule.cron:
        check_cron(schedule.cron)
    elif not 1000 <= schedule.every_ms <= MAX_DURATION_MS:
        raise InvalidArgument(
            f"schedule {schedule.name!r} fires every {schedule.every_ms / 1000:g} s; give every "
            "as 1 second to 366 days"
        )
    if next_slot_ms(schedule, 0) is None:
        raise InvalidArgument(
            f"schedule {schedule.name!r} ({describe_schedule(schedule)}) would never fire: no "
            "slot lies between its starts_at and ends_at; change one of the three"
        )


def _epoch_ms(what: str, given: date | None) -> int:
    if given is None:
        return 0
    if not isinstance(given, datetime) or given.utcoffset() is None:
        raise InvalidArgument(
            f"{what} is {given!r}, which has no time zone; give a datetime with one, such as "
            "datetime(2030, 1, 1, tzinfo=UTC)"
        )
    if not 1970 < given.year < 3000:
        raise InvalidArgument(f"{what} is {given}; give a time between 1971 and 2999")
    return (given - _EPOCH) // timedelta(milliseconds=1)


def _as_json(options: dict[str, Any]) -> dict[str, Any]:
    """A copy as JSON would return it, so that what is stored equals what was checked."""
    try:
        copy = json.loads(json.dumps(options, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(
            f"the options of a schedule cannot be written as JSON ({error}); use text, numbers, "
            "lists and dicts"
        ) from None
    if not isinstance(copy, dict):
        raise InvalidArgument(f"the options of a schedule are {options!r:.99}; give a dict")
    return copy
