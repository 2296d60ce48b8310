"""How much memory a process has, and had at most. Linux only; elsewhere it is not known."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def peak_rss(pid: int) -> int:
    """In bytes, since its exec or since it was told to forget; 0 if it is dead or the system does
    not say.
    """
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def forget_peak() -> None:
    """Count the peak memory of this process anew from now on."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def present_rss() -> int:
    """In bytes, what this process has now; 0 if the system does not say."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
