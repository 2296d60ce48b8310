"""The time of one namespace. It stands still until it is moved."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.errors import InvalidArgument

if TYPE_CHECKING:
    from penstock.connection.store import Store
    from penstock.store.keys import NamespaceKeys


class VirtualClock:
    """What the scripts of the simulated dialect take for the time of the server."""

    def __init__(self, store: Store, keys: NamespaceKeys) -> None:
        self._store = store
        self._key = keys.simulated_clock
        self.now_ms = 0

    def start(self) -> None:
        """Begin now, so that times worked out from the real clock make sense."""
        self.set(time.time_ns() // 1_000_000)

    def set(self, now_ms: int) -> None:
        self._store.call(self._key, "SET", self._key, str(now_ms))
        self.now_ms = now_ms

    def remove(self) -> None:
        self._store.call(self._key, "DEL", self._key)


def epoch_ms(when: datetime) -> int:
    """An instant as the clock has it; refuses one that could mean several."""
    if when.utcoffset() is None:
        raise InvalidArgument(
            f"the time {when} has no time zone; give one, as in datetime(2030, 1, 1, tzinfo=UTC)"
        )
    return round(when.timestamp() * 1000)


def as_datetime(instant_ms: int) -> datetime:
    return datetime.fromtimestamp(instant_ms / 1000, UTC)
