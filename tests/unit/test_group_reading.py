"""When a worker takes partitions, and when it does not."""

from __future__ import annotations

import asyncio
import math
from typing import Any, cast

import penstock
from penstock.coordination.coordinator import Group
from penstock.coordination.manual import ManualMembership
from penstock.model.workers import Lease
from penstock.worker.consumers import CONSUMER_MARK
from penstock.worker.group_reading import GroupReading
from penstock.worker.log_counters import LogCounters
from tests.coordination.members import MemoryPositions


class Host:
    """A worker that serves nothing."""

    is_stopping = False


@penstock.consumer("clicks", "g")
def read(message: penstock.Message) -> None: ...


def test_a_worker_that_is_stopping_takes_no_partition() -> None:
    async def work() -> None:
        host, lease = Host(), Lease(3000)
        lease.renewed(math.inf)
        [consumer] = getattr(read, CONSUMER_MARK)
        nothing = cast("Any", None)
        reading = GroupReading(
            cast("Any", host), nothing, nothing, consumer, "ant", lease, LogCounters()
        )
        membership = ManualMembership(
            Group("clicks", "g", 2), "ant.0", frozenset({0, 1}), MemoryPositions()
        )
        host.is_stopping = True
        reading._begin_changes(membership)
        assert reading._changes == {}

        host.is_stopping = False
        reading._begin_changes(membership)
        assert reading._changes.keys() == {0, 1}
        for task in reading._changes.values():
            task.cancel()

    asyncio.run(work())
