"""What can be said about a job when it is sent, checked before anything is written."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, TypedDict

from penstock.errors import InvalidArgument
from penstock.model.jobs import PRIORITIES, Priority
from penstock.model.names import check_name, shown
from penstock.model.retries import Backoff, encode_backoff, parse_backoff, write_backoff
from penstock.model.unique_keys import UniqueScope, pack_unique_key

MAX_SECONDS = 366 * 24 * 3600.0
"""The longest delay, timeout or window that makes sense; more is taken for a mistake."""
MAX_TAGS = 10
MAX_WORDS = 64
_MAX_BACKOFF_BYTES = 255
_MAX_TIMEOUT_MS = 2**32 - 1
_PRIORITY_LIMIT = 2**31

Seconds = float | timedelta
UniqueFor = Literal["queued", "done"] | Seconds


class JobSettings(TypedDict, total=False):
    """The options of a job, as `send` and `add` take them."""

    priority: Priority
    delay: Seconds
    run_at: datetime
    attempts: int
    backoff: str | float | timedelta | Backoff | None
    timeout: Seconds | None
    expires: Seconds | None
    tenant: str
    key: str
    tags: tuple[str, ...] | list[str] | set[str] | frozenset[str]
    unique: str
    unique_for: UniqueFor
    unique_scope: UniqueScope
    debounce: Seconds
    keep: bool
    at_most_once: bool
    search: tuple[str, ...] | list[str] | bool
    id: str
    wait: Seconds


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Checked options, in the units of the store. Equal options give equal heads."""

    type: str
    priority: int = 0
    delay_ms: int = 0
    run_at_ms: int = 0
    attempts: int = 1
    backoff: str = ""
    timeout_ms: int = 0
    expires_ms: int = 0
    tenant: str = ""
    key: str = ""
    tags: tuple[str, ...] = ()
    unique: bytes = b""
    unique_mode: Literal["", "queued", "done", "window", "scheduled"] = ""
    window_ms: int = 0
    is_kept: bool = True
    is_at_most_once: bool = False
    search: tuple[str, ...] | bool = False
    id: str = ""
    wait_s: float = 0.0


def make_options(type: str, given: JobSettings) -> JobOptions:
    """Check options; a wrong one is refused with a text that says what can be given."""
    if not given and isinstance(type, str):
        return _usual_options(type)
    return _options(type, given)


def json_settings(given: JobSettings) -> dict[str, Any]:
    """The same settings in text, numbers and lists, so that they can be kept as JSON and be given
    again later. They have been checked.
    """
    return {name: _as_json(value) for name, value in given.items()}


def _as_json(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Backoff):
        return write_backoff(value)
    return sorted(value) if isinstance(value, set | frozenset) else value


@lru_cache(maxsize=1024)
def _usual_options(type: str) -> JobOptions:
    """Most jobs are sent with nothing but a type; that is checked once."""
    return _options(type, {})


def _options(type: str, given: JobSettings) -> JobOptions:
    _check_known(given)
    check_name("job type", type)
    unique, mode, window_ms = _unique(type, given)
    delay_ms = _milliseconds("delay", given.get("delay", 0))
    if "debounce" in given:
        if "delay" in given or "run_at" in given:
            raise InvalidArgument("debounce is a delay of its own; leave out delay and run_at")
        delay_ms = max(1, _milliseconds("debounce", given["debounce"]))
    is_at_most_once = check_switch("at_most_once", given.get("at_most_once", False))
    return JobOptions(
        type=type,
        priority=check_priority(given.get("priority", 0)),
        delay_ms=delay_ms,
        run_at_ms=_instant(given),
        attempts=_attempts(given.get("attempts", 1), is_at_most_once),
        backoff=_backoff(given["backoff"]) if "backoff" in given else "",
        timeout_ms=_timeout(given.get("timeout")),
        expires_ms=_span("expires", given.get("expires")),
        tenant=_optional_name("tenant", given.get("tenant", "")),
        key=_optional_name("limit key", given.get("key", "")),
        tags=_tags(given.get("tags", ())),
        unique=unique,
        unique_mode=mode,
        window_ms=window_ms,
        is_kept=check_switch("keep", given.get("keep", True)),
        is_at_most_once=is_at_most_once,
        search=_search(given.get("search", False)),
        id=given.get("id", ""),
        wait_s=_milliseconds("wait", given.get("wait", 0)) / 1000,
    )


def check_switch(what: str, given: object) -> bool:
    if not isinstance(given, bool):
        raise InvalidArgument(f"{what} is {shown(given)}; give True or False")
    return given


def check_priority(priority: Priority) -> int:
    """The number of a priority, given by name or number; the lower number runs first."""
    if isinstance(priority, str):
        if priority not in PRIORITIES:
            raise InvalidArgument(
                f"there is no priority {priority!r}; give a whole number or one of "
                f"{', '.join(PRIORITIES)}"
            )
        return PRIORITIES[priority]
    if type(priority) is not int or not -_PRIORITY_LIMIT < priority < _PRIORITY_LIMIT:
        raise InvalidArgument(
            f"priority is {shown(priority)}; give a whole number between -2^31 and 2^31 or one of "
            f"{', '.join(PRIORITIES)}"
        )
    return priority


def check_seconds(what: str, given: object) -> float:
    """A duration in seconds, from a number or a timedelta."""
    if (type(given) is int or type(given) is float) and 0 <= given <= MAX_SECONDS:
        return float(given)
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if (
        isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 <= seconds <= MAX_SECONDS  # which neither nan nor inf is
    ):
        raise InvalidArgument(
            f"{what} is {shown(given)}; give seconds from 0 to {MAX_SECONDS:.0f} (366 days)"
        )
    return float(seconds)


@lru_cache(maxsize=1024)
def _known_options() -> frozenset[str]:
    return frozenset(JobSettings.__annotations__)


def _check_known(given: JobSettings) -> None:
    for name in given:
        if name not in _known_options():
            raise InvalidArgument(
                f"a job has no option {name!r}; it has {', '.join(JobSettings.__annotations__)}"
            )


def _milliseconds(what: str, given: object) -> int:
    seconds = check_seconds(what, given)
    # Anything above nothing is at least a millisecond, or a small delay would be none.
    return math.ceil(seconds * 1000)


def _span(what: str, given: Seconds | None) -> int:
    """A duration in ms that may be left out, which is stored as 0."""
    if given is None:
        return 0
    span_ms = 0
    with suppress(InvalidArgument):
        span_ms = _milliseconds(what, given)
    if span_ms == 0:
        raise InvalidArgument(
            f"{what} is {shown(given)}; give seconds above 0 (up to {MAX_SECONDS:.0f}, 366 days), "
            "or leave it out for none"
        )
    return span_ms


def _instant(given: JobSettings) -> int:
    if "run_at" not in given:
        return 0
    run_at: object = given["run_at"]
    if "delay" in given:
        raise InvalidArgument("delay and run_at say the same thing in two ways; give one of them")
    if not isinstance(run_at, datetime) or run_at.tzinfo is None:
        raise InvalidArgument(
            f"run_at is {run_at!r}; give a datetime with a time zone, as in "
            "datetime.now(UTC) + timedelta(hours=1)"
        )
    at_ms = math.ceil(run_at.timestamp() * 1000)
    if not 0 < at_ms < 2**47:
        raise InvalidArgument(f"run_at is {run_at!r}; give a time between 1970 and 6429")
    return at_ms


def _attempts(attempts: int, is_at_most_once: bool) -> int:
    if type(attempts) is not int or not 1 <= attempts <= 65_000:
        raise InvalidArgument(f"attempts is {shown(attempts)}; give a whole number from 1 to 65000")
    if is_at_most_once and attempts > 1:
        raise InvalidArgument(
            f"at_most_once means one attempt, and attempts is {attempts}; leave out one of them "
            "(attempts=1 where the function is declared with more)"
        )
    return attempts


def _backoff(given: str | float | timedelta | Backoff | None) -> str:
    encoded = encode_backoff(parse_backoff(given))
    if len(encoded.encode()) > _MAX_BACKOFF_BYTES:
        raise InvalidArgument(
            f"the name of backoff {encoded[:20]!r}... is too long; give it one of up to "
            f"{_MAX_BACKOFF_BYTES - len('named:')} bytes"
        )
    return encoded


def _timeout(given: Seconds | None) -> int:
    timeout_ms = _span("timeout", given)
    if timeout_ms > _MAX_TIMEOUT_MS:
        raise InvalidArgument(
            f"timeout is {given!r}; a job may run for {_MAX_TIMEOUT_MS // 86_400_000} days at most"
        )
    return timeout_ms


def _search(search: object) -> tuple[str, ...] | bool:
    if isinstance(search, bool):
        return search
    if not isinstance(search, tuple | list) or not all(isinstance(path, str) for path in search):
        raise InvalidArgument(
            f"search is {search!r}; give True, or a list of paths into the data, as in "
            "['customer.name']"
        )
    return tuple(search)


def _optional_name(what: str, name: str) -> str:
    return check_name(what, name) if name != "" else ""


def _tags(tags: object) -> tuple[str, ...]:
    if not isinstance(tags, tuple | list | set | frozenset) or len(tags) > MAX_TAGS:
        raise InvalidArgument(f"tags is {tags!r}; give a list of up to {MAX_TAGS} words")
    return tuple(dict.fromkeys(check_name("tag", tag) for tag in tags))


def _unique(
    type: str,
    given: JobSettings,
) -> tuple[bytes, Literal["", "queued", "done", "window", "scheduled"], int]:
    """The key, until when it is taken, and the window in ms if that is a time."""
    key = given.get("unique", "")
    if not isinstance(key, str):
        raise InvalidArgument(f"a unique key is text, not {key.__class__.__name__}; pass a str")
    if not key:
        _refuse_without_key(given)
        return b"", "", 0
    stored = pack_unique_key(type, key, given.get("unique_scope", "type"))
    if "debounce" in given:
        return stored, "scheduled", 0
    until = given.get("unique_for", "done")
    if isinstance(until, str):
        if until in ("queued", "done"):
            return stored, until, 0
        raise InvalidArgument(
            f"unique_for is {until!r}; give 'queued', 'done' or a time in seconds"
        )
    return stored, "window", max(1, _milliseconds("unique_for", until))


def _refuse_without_key(given: JobSettings) -> None:
    if "debounce" in given:
        raise InvalidArgument("debounce needs unique as well, to know which jobs are the same")
    for name in ("unique_for", "unique_scope"):
        if name in given:
            raise InvalidArgument(f"{name} needs unique as well, the key that is to be unique")
