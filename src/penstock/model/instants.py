"""Points in time, in the ways in which programs have them."""

from __future__ import annotations

from datetime import datetime

from penstock.errors import InvalidArgument
from penstock.model.names import shown

Instant = datetime | float | str
"""A datetime with a time zone, seconds since 1970, or text in ISO 8601 with a time zone."""

_LATEST_MS = 10**15


def instant_ms(name: str, given: Instant) -> int:
    """Milliseconds since 1970. Raises InvalidArgument; `name` is what the caller calls it."""
    moment: object = given
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            raise _refusal(name, given) from None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise _refusal(name, given)
        moment = moment.timestamp()
    if type(moment) not in (int, float) or not 0 <= moment * 1000 < _LATEST_MS:  # type: ignore[operator]
        raise _refusal(name, given)
    return round(moment * 1000)  # type: ignore[operator]


def _refusal(name: str, given: object) -> InvalidArgument:
    return InvalidArgument(
        f"{name} is {shown(given)}; give a datetime with a time zone, seconds since 1970, or text "
        "as in 2026-11-15T00:00Z"
    )
