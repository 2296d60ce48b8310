"""Listens for work, for cancelled tasks and for deleted queues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.connection.subscription import AsyncSubscription
from penstock.store.script import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connection.store import AsyncStore
    from penstock.worker.feed import Feed


def listen(store: AsyncStore, feeds: list[Feed]) -> list[asyncio.Task[None]]:
    """One subscription for all queues; on a cluster, where channels live with their queue, one for
    each.
    """
    is_sharded = store.dialect.channels == CLUSTER.channels
    groups = [[feed] for feed in feeds] if is_sharded else [feeds]
    return [asyncio.create_task(_WakeUps(store, group).listen()) for group in groups]


class _WakeUps(AsyncSubscription):
    """What is said to a worker goes to its feeds as it is read: every detour delays a task."""

    def __init__(self, store: AsyncStore, feeds: list[Feed]) -> None:
        self._feeds = feeds
        self._actions: dict[bytes, Callable[[bytes], None]] = {}
        for feed in feeds:
            self._actions.update(feed.channels)
        channels = [channel.decode() for channel in self._actions]
        super().__init__(store, feeds[0].keys.meta, channels)

    async def listen(self) -> None:
        try:
            while True:
                message = await self.receive()
                if message == ("", b""):
                    for feed in self._feeds:
                        feed.resubscribed()
                elif message is not None:
                    self._deliver(message[0].encode(), message[1])
        finally:
            await self.close()

    async def _open(self) -> None:
        await super()._open()
        assert self._listener is not None
        self._listener.divert(self._deliver)

    def _deliver(self, channel: bytes, message: bytes) -> None:
        self._actions[channel](message)
