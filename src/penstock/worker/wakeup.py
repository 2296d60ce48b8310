"""Listens for work, for cancelled tasks and for deleted queues."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.client._async.subscription import AsyncSubscription
from penstock.store.script import CLUSTER

if TYPE_CHECKING:
    from penstock.client._async.store import AsyncStore
    from penstock.worker.feed import Feed


def listen(store: AsyncStore, feeds: list[Feed]) -> list[asyncio.Task[None]]:
    """One subscription for all queues; on a cluster, where channels live with their queue, one
    for each.
    """
    is_sharded = store.dialect.channels == CLUSTER.channels
    groups = [[feed] for feed in feeds] if is_sharded else [feeds]
    return [asyncio.create_task(_listen(store, group)) for group in groups]


async def _listen(store: AsyncStore, feeds: list[Feed]) -> None:
    actions = {}
    for feed in feeds:
        keys = feed.keys
        actions[keys.wake + feed.worker] = lambda _, feed=feed: feed.wake()
        actions[keys.cancel] = lambda task, feed=feed: feed.cancel(task)
        actions[keys.delete] = lambda _, feed=feed: feed.cancel()
    subscription = AsyncSubscription(store, feeds[0].keys.meta, list(actions))
    try:
        while True:
            message = await subscription.receive()
            if message is None:
                continue
            channel, body = message
            if channel:
                actions[channel](body)
            else:
                # The subscription is new: whatever was said before it is missed.
                for feed in feeds:
                    feed.look()
    finally:
        await subscription.close()
