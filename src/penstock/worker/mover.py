"""Moves batches into a queue or a log that their writer has decided and left behind."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Literal

from penstock.connection.log_batches import afinish_batches
from penstock.connection.staging import amove_batches
from penstock.errors import LogNotFound, StoreError, WrongKind
from penstock.store.commands.logs import NoPartition, describe_log

if TYPE_CHECKING:
    from collections.abc import Callable

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


async def finish_log_batches(
    store: AsyncStore,
    keys: QueueKeys,
    is_ours: Callable[[], bool],
    every_s: float = _LOOK_EVERY_S,
) -> None:
    """The same for a log, whenever it is ours to look; what was not decided in a day is dropped."""
    while True:
        await asyncio.sleep(every_s * random.uniform(0.5, 1.5))
        if not is_ours():
            continue
        try:
            await afinish_batches(store, keys, await store.run(describe_log(keys)))
        except (LogNotFound, WrongKind, NoPartition):
            continue  # it was deleted
        except StoreError as error:
            log.warning("batch not moved log=%s error=%s", keys.queue, error)
