"""What a worker tells about the logs that it reads, with its heartbeat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.worker.log_counters import LogCounters

if TYPE_CHECKING:
    from penstock.worker.group_reading import GroupReading

_PARTITIONS_TOLD = 50
"""of how many partitions a worker tells the state with its heartbeat"""


class LogNews:
    """Made ready on the event loop, and picked up by the thread of the heartbeat."""

    def __init__(self) -> None:
        self.counters = LogCounters()
        self.ready: dict[str, object] = {}
        """what the next beat tells"""

    async def keep(self, readings: list[GroupReading], every_s: float) -> None:
        """Make it ready from time to time, for as long as this is awaited."""
        while True:
            owned = [one for reading in readings for one in reading.describe()]
            self.ready = {
                "logs": self.counters.document(),
                "partitions": owned[:_PARTITIONS_TOLD],
                "partitions_owned": len(owned),
            }
            await asyncio.sleep(every_s)
