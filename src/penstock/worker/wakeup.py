"""Listens for work, for cancelled tasks and for deleted queues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.connection.subscription import AsyncSubscription
from penstock.store.script import CLUSTER

if TYPE_CHECKING:
    from penstock.connection.store import AsyncStore
    from penstock.worker.pump import Pump


def listen(store: AsyncStore, pumps: list[Pump]) -> list[asyncio.Task[None]]:
    """One subscription for all queues; on a cluster, where channels live with their queue, one for
    each.
    """
    is_sharded = store.dialect.channels == CLUSTER.channels
    groups = [[pump] for pump in pumps] if is_sharded else [pumps]
    return [asyncio.create_task(_WakeUps(store, group).listen()) for group in groups]


class _WakeUps(AsyncSubscription):
    """Messages go to the feeds of a worker as they are read: every detour delays a task."""

    def __init__(self, store: AsyncStore, pumps: list[Pump]) -> None:
        self._pumps = {channel: pump for pump in pumps for channel in pump.source.channels}
        super().__init__(store, pumps[0].source.key, list(self._pumps))

    async def listen(self) -> None:
        try:
            while True:
                message = await self.receive()
                if message == ("", b""):
                    for pump in dict.fromkeys(self._pumps.values()):
                        pump.happen(pump.feed.resubscribed)
                elif message is not None:
                    channel, text = message
                    self._pumps[channel].heard(channel, text)
        finally:
            await self.close()

    async def _open(self) -> None:
        await super()._open()
        assert self._listener is not None
        self._listener.divert(self._deliver)

    def _deliver(self, channel: bytes, message: bytes) -> None:
        name = channel.decode()
        self._pumps[name].heard(name, message)
