"""Time in equal steps, the same in every time zone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_STEPS_S = (
    *(1, 2, 5, 10, 30, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE),
    *(_HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 7 * _DAY),
)
_MOST_STEPS = 100


def step_for(seconds: float) -> int:
    """The length of a step in seconds, so that a chart of this time has about a hundred at most."""
    return next((step for step in _STEPS_S if seconds / step <= _MOST_STEPS), _STEPS_S[-1])


def bucket(at: Column | str, step_s: int) -> Column:
    """When the step begins that a time falls into."""
    seconds = F.unix_seconds(F.col(at) if isinstance(at, str) else at)
    return F.timestamp_seconds(seconds - F.pmod(seconds, F.lit(step_s)))
