"""What can be set for a queue of jobs: limits, shares, and how much is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from penstock.errors import InvalidArgument
from penstock.model.job_options import Seconds, check_seconds
from penstock.model.names import check_name, shown
from penstock.model.numbers import whole_number

MAX_SHARE = 1000


class JobQueueSettings(TypedDict, total=False):
    """What can be set for a queue of jobs; None stands for the default."""

    max_length: int | None
    max_bytes: int | None
    ageing_s: float | None
    keep_s: float | None
    keep_dead_s: float | None
    keep_count: int | None
    keep_bytes: int | None
    history_length: int | None
    history_cap: int | None
    max_schedules: int | None


_COUNTS = {
    "max_length": 1,
    "max_bytes": 1,
    "keep_count": 0,
    "keep_bytes": 0,
    "history_length": 1,
    "history_cap": 1,
    "max_schedules": 1,
}
_TIMES = {"ageing_s": "ageing_ms", "keep_s": "keep_ms", "keep_dead_s": "keep_dead_ms"}


@dataclass(frozen=True, slots=True)
class Limit:
    """How many jobs may run at once, and start in a time."""

    concurrency: int | None
    rate: float | None
    per_s: float
    burst: float | None


@dataclass(frozen=True, slots=True)
class JobRules:
    """What holds for many jobs of a queue."""

    settings: JobQueueSettings
    """those that were set; all others have their defaults"""
    limits: dict[str, Limit]
    """by key; '' is the whole queue, '*' every key without a limit of its own"""
    shares: dict[str, int]
    """tenant -> jobs in a round"""
    paused_types: list[str]


def open_settings(stored: dict[str, str]) -> JobQueueSettings:
    """Settings as people give them, from how the store has them. What is no number is left out."""
    found: dict[str, int | float] = {}
    units = {stored_name: name for name, stored_name in _TIMES.items()}
    for name, value in stored.items():
        number = whole_number(value)
        if number is not None:
            found[units.get(name, name)] = number / 1000 if name in units else number
    return found  # type: ignore[return-value]


def open_limit(stored: str) -> Limit:
    slots, rate, per_ms, burst = stored.split()
    has_rate = float(rate) > 0
    return Limit(
        int(slots) or None,
        float(rate) if has_rate else None,
        int(per_ms) / 1000,
        float(burst) if has_rate else None,
    )


def check_job_settings(given: JobQueueSettings) -> dict[str, int | None]:
    """The settings as the store has them, if each is known and makes sense."""
    checked: dict[str, int | None] = {}
    for name, value in given.items():
        if name in _TIMES:
            checked[_TIMES[name]] = None if value is None else _time_ms(name, value)
        elif name in _COUNTS:
            if value is not None and (type(value) is not int or value < _COUNTS[name]):
                raise InvalidArgument(
                    f"{name} is {value!r}; give a whole number from {_COUNTS[name]} up"
                )
            checked[name] = value
        else:
            known = ", ".join(JobQueueSettings.__annotations__)
            raise InvalidArgument(f"a queue of jobs has no setting {name!r}; it has {known}")
    return checked


def _time_ms(name: str, value: object) -> int:
    seconds = check_seconds(name, value)
    if name != "ageing_s":
        return round(seconds * 1000)
    if seconds == 0:
        raise InvalidArgument(
            f"ageing_s is {value!r}; give seconds above 0, or None (the default) for no ageing"
        )
    return max(1, round(seconds * 1000))


def check_limit(
    key: str, concurrency: int | None, rate: float | None, per: Seconds, burst: float | None
) -> tuple[int, float, int, float]:
    """A limit as the store has it: slots, rate, per_ms, burst."""
    if key:
        check_name("limit key", key)
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise InvalidArgument(
            f"concurrency is {concurrency!r}; give a whole number from 1 up, or leave it out for "
            "no limit"
        )
    per_ms = round(check_seconds("per", per) * 1000)
    for name, number in (("rate", rate), ("burst", burst)):
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if number is not None and not (is_number and 0 < number <= 1e9):
            raise InvalidArgument(
                f"{name} is {shown(number)}; give a number above 0, up to a billion, or leave it "
                "out for none"
            )
    if rate is None:
        if burst is not None:
            raise InvalidArgument(
                f"burst is {burst!r} but there is no rate; burst is for a rate, give that as well"
            )
        return concurrency or 0, 0.0, 1000, 0.0
    if per_ms < 1:
        raise InvalidArgument(f"per is {per!r}; give the seconds that a rate is for, 0.001 or more")
    # Less than one token could never let anything start.
    return concurrency or 0, float(rate), per_ms, max(1.0, burst if burst is not None else rate)


def check_share(weight: int) -> None:
    if type(weight) is not int or not 1 <= weight <= MAX_SHARE:
        raise InvalidArgument(
            f"a share is a whole number from 1 to {MAX_SHARE}, not {weight!r}; "
            "a tenant with share 3 starts three jobs where others start one"
        )
