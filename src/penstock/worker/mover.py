"""Moves batches into a queue that their writer has decided and left behind."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Literal

from penstock.connection.staging import amove_batches
from penstock.errors import StoreError

if TYPE_CHECKING:
    from penstock.connection.store import AsyncStore
    from penstock.store.keys import QueueKeys

log = logging.getLogger("penstock.worker")

_LOOK_EVERY_S = 10.0
_ROOM_S = 10.0


async def finish_batches(
    store: AsyncStore,
    keys: QueueKeys,
    kind: Literal["tasks", "jobs"],
    every_s: float = _LOOK_EVERY_S,
) -> None:
    """Look from time to time for what was decided to be in the queue and is not there yet, and move
    it, as room comes. Its writer does the same as long as it lives; both may do it at once.
    """
    while True:
        await asyncio.sleep(every_s * random.uniform(0.5, 1.5))
        try:
            moved = await amove_batches(store, keys, kind, _ROOM_S)
        except StoreError as error:
            # A full store, say. Whatever it is, the worker has other work.
            log.warning("batch not moved queue=%s error=%s", keys.queue, error)
            continue
        if moved.moved:
            log.info("batch moved queue=%s rows=%d left=%d", keys.queue, moved.moved, moved.left)
