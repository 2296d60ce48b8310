"""When to try again, and how long to wait before."""

from __future__ import annotations

import random
import time

REPEATABLE_S = 3000.0
"""A numbered request is not repeated for longer than this, because the store forgets numbers after
an hour (`scripts/fragments/memory.lua`) and would then do it a second time.
"""

_BASE_S = 0.02
_CAP_S = 2.0


class Patience:
    """Counts the tries at one request. The first repetition comes at once, later ones after a
    random wait (full jitter), so that clients cut off together do not come back together.
    """

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._began_at = time.monotonic()
        self._tries = 0

    def waited_s(self) -> float:
        return time.monotonic() - self._began_at

    def next_wait_s(self) -> float | None:
        """How long to wait before the next try, or None if it is time to give up."""
        waited_s = self.waited_s()
        if self._limit_s is not None and waited_s >= self._limit_s:
            return None
        self._tries += 1
        if self._tries == 1:
            return 0.0
        # After ten tries it is the cap; a power of a thousand would be too large for a float.
        wait_s = random.uniform(0, min(_CAP_S, _BASE_S * 2 ** min(self._tries, 10)))
        return wait_s if self._limit_s is None else min(wait_s, self._limit_s - waited_s)
