"""Schedules: when they fire, what happens to missed slots, and how they are stored."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidArgument, ProtocolError
from penstock.model.schedules import (
    MISFIRE_GRACE_MS,
    Misfire,
    Schedule,
    decode_schedule,
    describe_schedule,
    due_slots,
    encode_schedule,
    make_schedule,
    next_slot_ms,
)

DAY_MS = 24 * 3600 * 1000
YEAR_MS = 366 * DAY_MS
NOON_MS = 1_711_886_400_000  # 2024-03-31 12:00 UTC, the day on which Berlin's clocks went forward
LORD_HOWE = "Australia/Lord_Howe"
ZONES = ["UTC", "Europe/Berlin", "America/New_York", LORD_HOWE, "America/Havana"]
CRONS = [
    *("30 2 * * *", "0 * * * *", "*/15 * * * *", "*/20 0-2 * * *", "0,45 1,2 * * *", "0 0 1 * *"),
    *("10 30 2 * * *", "*/20 */30 * * * *", "5,50 45 1,2 * * *"),
]
FIRST, LAST = datetime(2024, 3, 2, tzinfo=UTC), datetime(2024, 3, 31, tzinfo=UTC)
HOURS = st.integers(-6 * 3_600_000, 6 * 3_600_000)
CHANGES_MS = st.sampled_from(
    [  # when the clocks of Berlin, New York and Lord Howe are put forward and back
        *(1_711_846_800_000, 1_729_990_800_000, 1_710_054_000_000, 1_730_613_600_000),
        *(1_728_142_200_000, 1_712_415_600_000),
    ]
)
INSTANTS = st.integers(NOON_MS - YEAR_MS, NOON_MS + YEAR_MS)


def make(**given: Any) -> Schedule:
    return make_schedule("nightly", queue="mail", type="report", **given)


SCHEDULES = st.builds(
    lambda cron, zone: make(cron=cron, timezone=zone),
    st.sampled_from(CRONS),
    st.sampled_from(ZONES),
) | st.builds(
    lambda every, starts_at: make(every=every, starts_at=starts_at),
    st.floats(60, 7 * 24 * 3600),
    st.none() | st.datetimes(datetime(2024, 1, 1), datetime(2024, 9, 1), timezones=st.just(UTC)),
)


def slots_between(schedule: Schedule, after_ms: int, until_ms: int) -> list[int]:
    slots: list[int] = []
    while (slot := next_slot_ms(schedule, slots[-1] if slots else after_ms)) is not None:
        if slot > until_ms:
            break
        slots.append(slot)
    return slots


def epoch_ms(instant: datetime) -> int:
    return int(instant.timestamp() * 1000)


@pytest.mark.parametrize(
    ("day", "zone", "cron", "shown"),
    [
        # The clock skips 02:00 to 03:00.
        ("2024-03-31", "Europe/Berlin", "30 2 * * *", "03:00+0200"),
        ("2024-03-31", "Europe/Berlin", "15,45 2 * * *", "03:00+0200"),
        ("2024-03-31", "Europe/Berlin", "0 2,3 * * *", "03:00+0200"),
        ("2024-03-31", "Europe/Berlin", "*/15 2 * * *", ""),
        ("2024-03-10", "America/New_York", "30 2 * * *", "03:00-0400"),
        # The clock shows 02:00 to 03:00 twice, in New York and Havana an earlier hour.
        ("2024-10-27", "Europe/Berlin", "30 2 * * *", "02:30+0200"),
        ("2024-10-27", "Europe/Berlin", "*/60 2 * * *", "02:00+0200"),
        ("2024-10-27", "Europe/Berlin", "30 */2 * * *", "00:30+0200 02:30+0200 02:30+0100"),
        ("2024-11-03", "America/New_York", "30 2 * * *", "02:30-0500"),
        ("2024-11-03", "America/New_York", "30 1 * * *", "01:30-0400"),
        ("2024-11-03", "America/Havana", "0 */24 * * *", "00:00-0400"),
        # On Lord Howe the clock skips 02:00 to 02:30, and shows 01:30 to 02:00 twice.
        ("2024-10-06", LORD_HOWE, "15 2 * * *", "02:30+1100"),
        ("2024-10-06", LORD_HOWE, "30 2 * * *", "02:30+1100"),
        ("2024-10-06", LORD_HOWE, "*/15 2 * * *", "02:30+1100 02:45+1100"),
        ("2024-10-06", LORD_HOWE, "0 * * * *", "00:00+1030 01:00+1030 03:00+1100"),
        ("2024-10-06", LORD_HOWE, "30 * * * *", "00:30+1030 01:30+1030 02:30+1100"),
        ("2024-04-07", LORD_HOWE, "30 1 * * *", "01:30+1100"),
        ("2024-04-07", LORD_HOWE, "*/30 2 * * *", "02:00+1030 02:30+1030"),
        ("2024-04-07", LORD_HOWE, "0 * * * *", "00:00+1100 01:00+1100 02:00+1030 03:00+1030"),
        ("2024-04-07", LORD_HOWE, "30 * * * *", "00:30+1100 01:30+1100 01:30+1030 02:30+1030"),
    ],
)
def test_what_the_clock_shows_at_each_slot_in_the_night_it_is_changed(
    day: str, zone: str, cron: str, shown: str
) -> None:
    since = datetime.fromisoformat(f"{day} 00:00").replace(tzinfo=ZoneInfo(zone))
    until = datetime.fromisoformat(f"{day} 03:15").replace(tzinfo=ZoneInfo(zone))

    slots = slots_between(make(cron=cron, timezone=zone), epoch_ms(since) - 1, epoch_ms(until))

    clock = [datetime.fromtimestamp(slot / 1000, ZoneInfo(zone)) for slot in slots]
    assert " ".join(time.strftime("%H:%M%z") for time in clock) == shown


@pytest.mark.parametrize(
    ("day", "zone", "cron", "shown"),
    [
        ("2024-03-31", "Europe/Berlin", "15 30 2 * * *", "03:00:00+0200"),
        ("2024-03-31", "Europe/Berlin", "0,30 30 2 * * *", "03:00:00+0200"),
        ("2024-03-31", "Europe/Berlin", "*/30 30 2 * * *", ""),
        ("2024-10-27", "Europe/Berlin", "15 30 2 * * *", "02:30:15+0200"),
        ("2024-10-27", "Europe/Berlin", "0,30 30 2 * * *", "02:30:00+0200 02:30:30+0200"),
        (
            *("2024-10-27", "Europe/Berlin", "*/30 30 2 * * *"),
            "02:30:00+0200 02:30:30+0200 02:30:00+0100 02:30:30+0100",
        ),
        ("2024-10-06", LORD_HOWE, "45 15 2 * * *", "02:30:00+1100"),
    ],
)
def test_seconds_in_the_night_the_clock_is_changed(
    day: str, zone: str, cron: str, shown: str
) -> None:
    since = datetime.fromisoformat(f"{day} 00:00").replace(tzinfo=ZoneInfo(zone))
    until = datetime.fromisoformat(f"{day} 03:15").replace(tzinfo=ZoneInfo(zone))

    slots = slots_between(make(cron=cron, timezone=zone), epoch_ms(since) - 1, epoch_ms(until))

    clock = [datetime.fromtimestamp(slot / 1000, ZoneInfo(zone)) for slot in slots]
    assert " ".join(time.strftime("%H:%M:%S%z") for time in clock) == shown


@pytest.mark.parametrize(
    ("macro", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        (" @Daily ", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_a_macro_stands_for_the_usual_fields(macro: str, fields: str) -> None:
    assert make(cron=macro).cron == fields


@pytest.mark.parametrize(
    "cron", ["30 2 * * *", "15 2 * * *", "45 1 * * *", "0 0 * * *", "20 30 2 * * *", "@daily"]
)
@pytest.mark.parametrize("zone", ZONES)
def test_a_daily_job_runs_once_on_each_day_of_two_years(zone: str, cron: str) -> None:
    schedule = make(cron=cron, timezone=zone)
    since = datetime(2024, 1, 1, tzinfo=ZoneInfo(zone))
    until = datetime(2025, 12, 31, 23, 59, tzinfo=ZoneInfo(zone))

    slots = slots_between(schedule, epoch_ms(since) - 1, epoch_ms(until))

    days = [datetime.fromtimestamp(slot / 1000, ZoneInfo(zone)).date() for slot in slots]
    assert days == [date(2024, 1, 1) + timedelta(days=n) for n in range(731)]


@pytest.mark.parametrize("change", ["2024-03-31", "2024-10-27", "2024-03-10", "2024-11-03"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC"])
@pytest.mark.parametrize(
    ("cron", "minutes"),
    [("0 * * * *", 60), ("30 0-23 * * *", 60), ("*/15 * * * *", 15), ("30 */15 * * * *", 15)],
)
def test_clock_changes_of_an_hour_do_not_disturb_what_runs_every_hour(
    cron: str, minutes: int, zone: str, change: str
) -> None:
    noon_ms = epoch_ms(datetime.fromisoformat(f"{change} 12:00+00:00"))

    slots = slots_between(make(cron=cron, timezone=zone), noon_ms - DAY_MS, noon_ms + DAY_MS)

    assert {later - slot for slot, later in pairwise(slots)} == {minutes * 60_000}


def test_an_interval_counts_from_its_start_and_both_ends_are_slots() -> None:
    start = datetime(2024, 3, 31, 12, 0, 7, tzinfo=UTC)
    schedule = make(every=40, starts_at=start, ends_at=start + timedelta(seconds=80))
    start_ms = epoch_ms(start)

    assert slots_between(schedule, 0, NOON_MS * 2) == [
        start_ms,
        start_ms + 40_000,
        start_ms + 80_000,
    ]


def test_an_interval_without_a_start_counts_from_1970() -> None:
    assert next_slot_ms(make(every=7), 0) == 7000
    assert next_slot_ms(make(every=timedelta(hours=1)), NOON_MS) == NOON_MS + 3_600_000


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "has no time; give either cron"),
        ({"cron": "0 3 * * *", "every": 5}, "has both cron and every; give either"),
        ({"cron": "61 * * * *"}, r"cron '61 .*' cannot be read \(bad minute\); give minute, hour"),
        ({"cron": "0 30 2 * * * 2026"}, r"cannot be read \(not five fields, nor six\)"),
        ({"cron": "61 30 2 * * *"}, r"cannot be read \(bad second\)"),
        ({"cron": "@reboot"}, r"'@reboot' cannot be read .* or one of @yearly, .*, @hourly; or"),
        ({"cron": "0 0 0 30 2 *"}, "never fires"),
        ({"cron": "9" * 5000 + " * * * *"}, "cannot be read"),
        ({"cron": "0 0 30 2 *"}, "'0 0 30 2 .*' never fires, because no such day exists; change"),
        ({"cron": "0 0 */30 * 1#2"}, "never fires"),
        ({"cron": "0 3 * * *", "timezone": "Mars/Base"}, "'Mars/Base' is not known here; give a"),
        ({"every": 5, "timezone": "America"}, "is not known here"),
        ({"every": 5, "timezone": "localtime"}, "is not known here"),
        ({"every": 0.5}, "every is 0.5 s; give 1 to 31622400 seconds"),
        ({"every": timedelta(days=367)}, "give 1 to 31622400 seconds"),
        ({"every": float("nan")}, "every is nan s"),
        ({"every": 5, "starts_at": datetime(2030, 1, 1)}, "has no time zone; give a datetime with"),
        ({"every": 5, "ends_at": datetime(1960, 1, 1, tzinfo=UTC)}, "between 1971 and 2999"),
        (
            {"cron": "0 0 1 * *", "starts_at": FIRST, "ends_at": LAST},
            "no slot lies between its sta",
        ),
        ({"every": 5, "starts_at": LAST, "ends_at": FIRST}, "would never fire"),
        ({"every": 5, "options": {"tags": {1}}}, "cannot be written as JSON"),
        ({"every": 5, "options": ["tags"]}, "give a dict"),
        ({"every": 5, "misfire": "twice"}, "misfire is 'twice'; give 'skip', 'once' or 'all'"),
        ({"every": 5, "data": "text"}, "a job's data is bytes, not str"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        make(**given)


@given(schedule=SCHEDULES, after_ms=INSTANTS)
def test_the_next_slot_is_later_and_nothing_lies_between(schedule: Schedule, after_ms: int) -> None:
    slot = next_slot_ms(schedule, after_ms)

    assert slot is not None
    assert slot > after_ms
    assert next_slot_ms(schedule, slot - 1) == slot


@given(schedule=SCHEDULES, ends=st.tuples(HOURS, HOURS, HOURS).map(sorted), around=CHANGES_MS)
def test_the_slots_do_not_depend_on_where_one_starts_to_look(
    schedule: Schedule, ends: list[int], around: int
) -> None:
    first, middle, last = (around + end for end in ends)

    halves = slots_between(schedule, first, middle) + slots_between(schedule, middle, last)

    assert halves == slots_between(schedule, first, last)


def run(
    schedule: Schedule, since_ms: int, visits_ms: list[int], limit: int = 100
) -> list[list[int]]:
    """What fires at each of the visits to a schedule that was created at `since_ms`."""
    slot, fired = next_slot_ms(schedule, since_ms), []
    for now_ms in visits_ms:
        due, slot = ([], None) if slot is None else due_slots(schedule, slot, now_ms, limit)
        fired.append(due)
    return fired


@pytest.mark.parametrize(
    ("misfire", "fired_min"), [("all", [[1, 2], [3, 4], [5]]), ("once", [[5], [], []])]
)
def test_missed_slots_fire_by_the_policy(misfire: Misfire, fired_min: list[list[int]]) -> None:
    now_ms = NOON_MS + 359_999

    fired = run(make(every=60, misfire=misfire), NOON_MS, [now_ms] * 3, limit=2)

    assert fired == [[NOON_MS + minute * 60_000 for minute in due] for due in fired_min]


def test_skip_fires_a_slot_only_within_the_grace() -> None:
    schedule = make(every=3600, misfire="skip")
    slot = NOON_MS + 5 * 3_600_000

    assert run(schedule, NOON_MS, [slot + MISFIRE_GRACE_MS]) == [[slot]]
    assert run(schedule, NOON_MS, [slot + MISFIRE_GRACE_MS + 1, slot + 3_600_000]) == [
        [],
        [slot + 3_600_000],
    ]


def test_a_paused_schedule_fires_nothing_and_moves_on() -> None:
    schedule = replace(make(every=60, misfire="all"), is_paused=True)

    assert due_slots(schedule, NOON_MS, NOON_MS + 90_000) == ([], NOON_MS + 120_000)


def test_the_last_slot_fires_even_if_seen_after_the_end() -> None:
    schedule = make(cron="0 * * * *", ends_at=datetime(2024, 3, 31, 14, 30, tzinfo=UTC))

    assert due_slots(schedule, NOON_MS, NOON_MS + YEAR_MS) == ([NOON_MS + 2 * 3_600_000], None)


@pytest.mark.parametrize("misfire", ["once", "skip"])
@pytest.mark.parametrize("when", [{"every": 1}, {"cron": "* * * * *", "timezone": "Europe/Berlin"}])
@pytest.mark.timeout(5)
def test_a_year_of_missed_slots_is_not_walked_through(misfire: str, when: dict[str, Any]) -> None:
    now_ms = NOON_MS + YEAR_MS

    assert run(make(**when, misfire=misfire), NOON_MS, [now_ms]) == [[now_ms]]


@given(
    schedule=SCHEDULES,
    misfire=st.sampled_from(get_args(Misfire)),
    since_ms=INSTANTS,
    pauses_ms=st.lists(st.integers(0, DAY_MS), min_size=1, max_size=5),
    limit=st.integers(1, 200),
)
def test_no_slot_fires_twice_nor_before_its_time(
    schedule: Schedule, misfire: Misfire, since_ms: int, pauses_ms: list[int], limit: int
) -> None:
    visits = [since_ms + sum(pauses_ms[:n]) for n in range(1, len(pauses_ms) + 1)]

    fired = run(replace(schedule, misfire=misfire), since_ms, visits, limit)

    slots = [slot for due in fired for slot in due]
    every_slot = slots_between(schedule, since_ms, visits[-1])
    assert all(slot <= now_ms for now_ms, due in zip(visits, fired, strict=True) for slot in due)
    assert slots == sorted(set(slots) & set(every_slot))
    if misfire == "all":
        assert slots == every_slot[: len(slots)]


@given(
    schedule=SCHEDULES,
    data=st.binary(max_size=20),
    is_paused=st.booleans(),
    options=st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.booleans())),
)
def test_a_stored_schedule_comes_back_as_it_was(
    schedule: Schedule, data: bytes, is_paused: bool, options: dict[str, Any]
) -> None:
    schedule = replace(schedule, data=data, is_paused=is_paused, options=options)

    assert decode_schedule(encode_schedule(schedule)) == schedule


def test_a_schedule_of_a_newer_penstock_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"stored in version 2 .*; upgrade penstock here"):
        decode_schedule(b'{"version":2,"shape":"new"}')


@pytest.mark.parametrize(
    "stored",
    [b"", b"1", b"[]", b"{}", b'{"version":1}', b"\xff", pytest.param(b"[" * 99_999, id="deep")],
)
def test_a_stored_schedule_that_cannot_be_read_is_refused(stored: bytes) -> None:
    with pytest.raises(ProtocolError, match="a stored schedule cannot be read: b"):
        decode_schedule(stored)


@pytest.mark.parametrize(
    "change",
    [{"every_ms": 5}, {"every_ms": "5"}, {"cron": "0 3 * * *"}, {"is_paused": 1}, {"timezone": 3}],
)
def test_a_stored_schedule_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    stored = json.loads(encode_schedule(make(every=5))) | change

    with pytest.raises(ProtocolError, match=r"makes no sense: .*; create it again"):
        decode_schedule(json.dumps(stored).encode())


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (make(cron=" 0  3 * * *", timezone="Europe/Berlin"), "cron 0 3 * * * (Europe/Berlin)"),
        (make(every=300), "every 5 min"),
        (make(every=timedelta(days=1, hours=2, seconds=1.5)), "every 1 d 2 h 1.5 s"),
        (replace(make(every=3600), is_paused=True), "every 1 h, paused"),
    ],
)
def test_a_schedule_describes_itself_to_people(schedule: Schedule, text: str) -> None:
    assert describe_schedule(schedule) == text
