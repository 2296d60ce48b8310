"""What a worker counts of the logs that it reads, since it was started."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Duration:
    """How long something took that was done several times; s."""

    times: int = 0
    total_s: float = 0.0
    longest_s: float = 0.0

    def add(self, seconds: float) -> None:
        self.times += 1
        self.total_s += seconds
        self.longest_s = max(self.longest_s, seconds)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """What raises is not counted."""
        began_at = monotonic()
        yield
        self.add(monotonic() - began_at)

    def document(self) -> dict[str, object]:
        return {
            "times": self.times,
            "mean_s": round(self.total_s / self.times, 6) if self.times else 0.0,
            "longest_s": round(self.longest_s, 6),
        }


@dataclass(slots=True)
class LogCounters:
    """Of all logs and groups, under all ids that the worker has had. Written by the worker's event
    loop; read by others too.
    """

    processed: int = 0
    """messages that were handled"""
    failed: int = 0
    """messages that were given up"""
    retried: int = 0
    """messages that were to be tried again, each time"""
    rebalances: int = 0
    """how often the partitions that it is to have changed"""
    connecting: Duration = field(default_factory=Duration)
    """to become a member of a group"""
    committing: Duration = field(default_factory=Duration)
    running: Duration = field(default_factory=Duration)
    """the consumer's own time, for each batch or page of messages"""

    def ran(self, processed: int, took_s: float) -> None:
        self.processed += processed
        self.running.add(took_s)

    def document(self) -> dict[str, object]:
        """As the worker tells it."""
        counts = {
            name: getattr(self, name) for name in ("processed", "failed", "retried", "rebalances")
        }
        times = {name: getattr(self, name) for name in ("connecting", "committing", "running")}
        return {**counts, **{name: duration.document() for name, duration in times.items()}}
