"""When a cron expression fires, on the clock of a time zone.

Instants are whole seconds since 1970 in UTC.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from penstock.errors import InvalidArgument

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DAY_S = 24 * 3600
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def next_cron_s(cron: str, timezone: str, after_s: int) -> int | None:
    """The first instant strictly after `after_s` at which the expression fires, or None.

    When the clock of the time zone is changed:

    - An expression for fixed times of the day, such as `30 2 * * *` or `0 9,17 * * *`, fires once
      for each time: one that the clock skips fires at the moment of the change (several become
      one), and one that comes twice fires the first time only.
    - An expression that repeats within the day fires whenever the clock shows a matching time:
      times that are skipped do not fire, and times that come twice fire twice. So `0 * * * *` and
      `*/15 * * * *` go on evenly where clocks change by an hour. Where they change by half an
      hour, as on Lord Howe, an hourly job once waits 90 minutes, or fires again after 30.

    As in Debian's cron, an expression repeats if its minute or its hour begins with `*`; here also
    if its second does, or if it names all 24 hours, and never if it names a single time of the day.
    """
    find = _next_repeating if _is_repeating(cron) else _next_fixed
    return find(cron, check_zone(timezone), after_s)


def check_cron(cron: str) -> str:
    """The expression with single spaces, if it can be read and has a slot at all; for a macro, the
    fields that it stands for.
    """
    cron = MACROS.get(str(cron).strip().lower(), cron)
    parts = str(cron).split()
    try:
        if len(parts) not in (5, 6) or max(map(len, parts)) > 255:
            raise CronSimError("not five fields, nor six")
        *time, day, month, weekday = parts
        # The month by itself, so that 30 February is a date that never comes, not an error.
        CronSim(" ".join([*time, day, "*", weekday]), _EPOCH)
        CronSim(f"0 0 * {month} *", _EPOCH)
    except CronSimError as error:
        raise InvalidArgument(
            f"cron {cron!r:.99} cannot be read ({str(error).lower()}); give minute, hour, day, "
            "month and weekday, such as '30 2 * * MON-FRI', with a field for seconds before them "
            "if need be, or one of " + ", ".join(MACROS) + "; or every for a plain interval"
        ) from None
    try:
        first = next(CronSim(cron, _EPOCH), None)
    except CronSimError:
        first = None
    if first is None:
        raise InvalidArgument(
            f"cron {cron!r} never fires, because no such day exists; change its day, month or "
            "weekday"
        )
    return " ".join(parts)


def check_zone(name: str) -> ZoneInfo:
    try:
        # What `localtime` means is up to each machine, and so would be the slots.
        if name != "localtime":
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, TypeError, AttributeError, OSError):
        pass
    raise InvalidArgument(
        f"time zone {name!r} is not known here; give a name of the IANA database, such as "
        "'Europe/Berlin' or 'UTC'"
    )


def _is_repeating(cron: str) -> bool:
    times = CronSim(cron, _EPOCH)
    has_star = any(part.startswith("*") for part in cron.split()[:-3])
    has_one_time = len(times.seconds) == len(times.minutes) == len(times.hours) == 1
    return len(times.hours) == 24 or (has_star and not has_one_time)


def _next_fixed(cron: str, zone: ZoneInfo, after_s: int) -> int | None:
    """The first instant after `after_s`, where each matching time of the clock has just one."""
    for wall in CronSim(cron, _wall(zone, after_s)):
        # fold is 0: of a time that comes twice, this is the first.
        instant_s = int(wall.replace(tzinfo=zone).timestamp())
        if _wall(zone, instant_s) != wall:  # The clock skips it.
            instant_s = _clock_change(zone, instant_s - _DAY_S, instant_s) or instant_s
        if instant_s > after_s:
            return instant_s
    return None


def _next_repeating(cron: str, zone: ZoneInfo, after_s: int) -> int | None:
    """The first instant after `after_s` at which the clock shows a matching time.

    CronSim given a time zone misses slots where clocks change by half an hour, so it is given times
    without a zone, and each stretch between two changes of the clock is searched by itself.
    """
    since_s = after_s + 1
    while True:
        start = _wall(zone, since_s)
        wall = next(CronSim(cron, start - timedelta(seconds=1)), None)
        if wall is None:
            return None
        found_s = since_s + int((wall - start).total_seconds())
        horizon_s = min(found_s, since_s + _DAY_S)
        change_s = _clock_change(zone, since_s, horizon_s)
        if change_s is not None:
            since_s = change_s
        elif found_s == horizon_s:
            return found_s
        else:
            # Later changes only repeat or skip what lies between, where nothing matches.
            since_s = found_s - _DAY_S


def _wall(zone: ZoneInfo, instant_s: int) -> datetime:
    """What the clock of `zone` shows, as if that were UTC, in which CronSim sees no changes."""
    return datetime.fromtimestamp(instant_s, zone).replace(tzinfo=UTC, fold=0)


def _clock_change(zone: ZoneInfo, since_s: int, until_s: int) -> int | None:
    """The instant after `since_s`, up to `until_s`, at which the clock is changed, if there is one.

    They are a day apart at most: over a longer time, two changes could undo each other unseen.
    """

    def offset(instant_s: int) -> timedelta | None:
        return datetime.fromtimestamp(instant_s, zone).utcoffset()

    before = offset(since_s)
    if offset(until_s) == before:
        return None
    seconds = range(since_s, until_s)
    return since_s + bisect_left(seconds, True, key=lambda second: offset(second) != before)
