"""Waits for what processes do, and does not wait for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock.errors import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Callable

_STALLED_S = 60.0


def look_until(
    condition: Callable[[], bool],
    look: Callable[[], object],
    every_s: float,
    so_far: Callable[[], str],
) -> None:
    """Go on looking until something is so.

    Raises DemoFailed, which says what was done `so_far`, if looks find the same for a minute.
    """
    moved_at, seen = time.monotonic(), look()
    while not condition():
        if time.monotonic() - moved_at > _STALLED_S:
            raise DemoFailed(
                f"nothing has happened for {_STALLED_S:.0f} s, with {so_far()}; "
                "run `penstock doctor`"
            )
        time.sleep(every_s)
        found = look()
        if found != seen:
            moved_at, seen = time.monotonic(), found
