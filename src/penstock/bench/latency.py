"""The time from before something is sent to when another process acts on it."""

from __future__ import annotations

import os
import random
import struct
import time
from typing import TYPE_CHECKING, Any

from penstock.bench.sizes import TASK_BYTES
from penstock.errors import BenchFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RECORD = struct.Struct("<qq")
"""when it was acted on, and when it was made, in ns; CLOCK_MONOTONIC is one for all processes"""

_WARM_UP = 20
_PATIENCE_S = 20.0


class Stamper:
    """Notes when a stamped task arrived, in the process that got it."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def note(self, arrived_at: int, task: bytes) -> None:
        os.write(self._file, RECORD.pack(arrived_at, int(task[:20])))


def percentiles(
    records: Path, samples: int, send: Callable[[bytes], Any]
) -> dict[str, float | None]:
    """Send one stamped task at a time and wait until it has been noted in `records`."""
    # Uneven pauses, so that they do not fall in step with a receiver that polls.
    pauses = random.Random(1)
    begin = records.stat().st_size
    for number in range(1, _WARM_UP + samples + 1):
        send((b"%020d" % time.monotonic_ns()).ljust(TASK_BYTES, b"x"))
        time.sleep(0.003 + pauses.random() * 0.007)
        _wait_for(records, begin + number * RECORD.size)
    noted = records.read_bytes()[begin + _WARM_UP * RECORD.size :]
    taken = sorted((arrived - made) / 1e6 for arrived, made in RECORD.iter_unpack(noted))
    return {
        "p50_ms": taken[len(taken) // 2],
        "p99_ms": taken[min(len(taken) - 1, len(taken) * 99 // 100)],
        "samples": float(len(taken)),
    }


def _wait_for(records: Path, size: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while records.stat().st_size < size:
        if time.monotonic() > deadline:
            raise BenchFailed(
                f"a task was not picked up within {_PATIENCE_S:.0f} s; is the machine overloaded?"
            )
        time.sleep(0.001)
