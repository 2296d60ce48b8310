"""What a worker tells its parent about its heartbeat, in memory that both have."""

from __future__ import annotations

import mmap
import struct

_RATES = struct.Struct("ddd")
_RENEWED = struct.Struct("d")
_RENEWED_AT = _RATES.size


class Beats:
    """Made before the worker is forked. The worker writes, its parent reads."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _RATES.size + _RENEWED.size)

    def describe(self, lease_ms: int, heartbeat_ms: int, slots: int) -> None:
        _RATES.pack_into(self._memory, 0, lease_ms, heartbeat_ms, slots)

    @property
    def lease_ms(self) -> int:
        return int(_RATES.unpack_from(self._memory)[0])

    @property
    def heartbeat_s(self) -> float:
        return float(_RATES.unpack_from(self._memory)[1]) / 1000

    @property
    def slots(self) -> int:
        return int(_RATES.unpack_from(self._memory)[2])

    @property
    def late_s(self) -> float:
        """How long after the last beat the next one is late: in the middle between the time at
        which it should come and the end of the lease.
        """
        return (self.heartbeat_s + self.lease_ms / 1000) / 2

    @property
    def renewed_at(self) -> float:
        """When the worker last renewed its lease by itself, on the clock of leases; 0: never."""
        return float(_RENEWED.unpack_from(self._memory, _RENEWED_AT)[0])

    def renewed(self, at: float) -> None:
        _RENEWED.pack_into(self._memory, _RENEWED_AT, at)
