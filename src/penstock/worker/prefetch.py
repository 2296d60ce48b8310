"""How many tasks a worker may hold beyond those it is running."""

from __future__ import annotations

_AHEAD_S = 0.02
TOO_LONG_S = 0.05
"""tasks that take longer are not held ahead, and what was held ahead of one is given back"""
_CAP = 1000
_GROWTH = 4
_WEIGHT = 0.3


class Prefetch:
    """Bounded by time, not by count: about 20 ms of work, and nothing once tasks take 50 ms or
    more.

    So short tasks share a round trip by the hundred, and no task waits in a busy worker that an
    idle peer could start now. Grows fourfold at most from one batch to the next, because a few
    quick tasks say little about the ones after them.
    """

    def __init__(self, slots: int, is_on: bool = True) -> None:
        self._slots = slots
        self._is_on = is_on
        self._mean_s: float | None = None
        self.ahead = 0
        """how many more than are running"""

    def observe(self, count: int, total_s: float) -> None:
        """`count` tasks took `total_s` in all."""
        mean_s = total_s / count
        if self._mean_s is None:
            self._mean_s = mean_s
        else:
            weight = min(1.0, _WEIGHT * count)
            self._mean_s += weight * (mean_s - self._mean_s)
        allowed = min(_CAP, _GROWTH * max(count, self._slots))
        wanted = int(self._slots * _AHEAD_S / max(self._mean_s, 1e-9))
        is_short = self._mean_s < TOO_LONG_S
        self.ahead = min(wanted, allowed) if is_short and self._is_on else 0

    def stalled(self) -> None:
        """Tasks had to be given back because those before them took too long."""
        self._mean_s = TOO_LONG_S
        self.ahead = 0
