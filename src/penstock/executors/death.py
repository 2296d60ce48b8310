"""How a process has ended, in numbers and in words."""

from __future__ import annotations

import signal as signals
import sys
from typing import NamedTuple

RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""of ru_maxrss, in bytes"""


class Death(NamedTuple):
    signal: int
    """0 if it ended by itself"""
    exit_status: int
    peak_rss_bytes: int
    """0 if it is not known"""
    cpu_s: float = 0.0
    """used after its last message"""

    def __str__(self) -> str:
        how = _name(self.signal) if self.signal else f"exit status {self.exit_status}"
        peak = f", peak memory {self.peak_rss_bytes / 2**20:.0f} MiB"
        return how + (peak if self.peak_rss_bytes else "")


def death_of(exit_code: int, peak_rss_bytes: int, cpu_s: float = 0.0) -> Death:
    """From an exit code as `os.waitstatus_to_exitcode` gives it."""
    return Death(max(0, -exit_code), max(0, exit_code), peak_rss_bytes, max(0.0, cpu_s))


def _name(number: int) -> str:
    try:
        return f"signal {number} ({signals.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
