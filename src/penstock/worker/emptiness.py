"""Finds out when the queues of a worker are empty, for a worker that is to end then."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Literal

from penstock.connection.staging import amove_batches
from penstock.errors import LogNotFound, QueueNotFound, StoreError
from penstock.model.logs import id_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.client.client import AsyncPenstock
    from penstock.worker.consumers import Consumer
    from penstock.worker.handlers import Handlers

_LOOK_EVERY_S = 0.5
_SOON_S = 5.0
_PAGE = 1000
_MOST_PAGES = 10


async def wait_until_empty(
    client: AsyncPenstock,
    handlers: Handlers,
    queues: Iterable[str],
    is_idle: Callable[[], bool],
) -> None:
    """Return when two looks in a row have found nothing in any of `queues` that this worker could
    still get: nothing waits or runs, also elsewhere, as what runs there can come back; no job waits
    for another try or falls due within five seconds; and no decided batch is still to be moved.

    Jobs that are due later, jobs of types that are not handled here, and dead ones do not count.
    What is paused does: it is waited for. So are messages of logs that a group has still to read.
    """
    empty_looks = 0
    # One look is not enough, as a job that ends in one queue can have filled another before.
    while empty_looks < 2:
        await asyncio.sleep(_LOOK_EVERY_S)
        is_empty = is_idle() and await _are_empty(client, handlers, queues)
        empty_looks = empty_looks + 1 if is_empty else 0


async def _are_empty(client: AsyncPenstock, handlers: Handlers, queues: Iterable[str]) -> bool:
    for queue in queues:
        if queue in handlers.tasks:
            is_filled = await _has_tasks(client, queue) or await _is_moving(client, queue, "tasks")
        else:
            types = handlers.jobs[queue]
            is_filled = await _has_jobs(client, queue, types) or await _is_moving(
                client, queue, "jobs"
            )
        if is_filled:
            return False
    for consumer in handlers.consumers:
        if await _is_behind(client, consumer):
            return False
    return True


async def _is_behind(client: AsyncPenstock, consumer: Consumer) -> bool:
    """Whether the log has messages that the group has not handled."""
    log = client.log(consumer.log)
    try:
        count = (await log.facts()).partitions
    except LogNotFound:
        return False
    for number in range(count):
        if consumer.partitions is not None and number not in consumer.partitions:
            continue
        info = await log.partition_info(number)
        offsets = [reader.offset for reader in info.readers if reader.name == consumer.group]
        if info.messages and (not offsets or id_key(offsets[0]) < id_key(info.last)):
            return True
    return False


async def _has_tasks(client: AsyncPenstock, queue: str) -> bool:
    try:
        state = await client.queue(queue).inspect()
    except QueueNotFound:  # it was deleted
        return False
    return state.ready + state.running > 0


async def _has_jobs(client: AsyncPenstock, queue: str, types: Iterable[str]) -> bool:
    jobs = client.jobs(queue)
    for type_ in types:
        counts = await jobs.counts(type=type_)
        # A count can be wrong, and would then be waited for without end.
        if counts["ready"] and await _has_any(client, queue, type_, "ready"):
            return True
        if counts["running"] and await _has_any(client, queue, type_, "running"):
            return True
        if counts["scheduled"] and await _has_due(client, queue, type_):
            return True
    return False


async def _has_any(
    client: AsyncPenstock, queue: str, type_: str, state: Literal["ready", "running"]
) -> bool:
    page = await client.jobs(queue).page(state, limit=_PAGE, with_data=False, type=type_)
    return bool(page.jobs)


async def _has_due(client: AsyncPenstock, queue: str, type_: str) -> bool:
    """Whether a job of this type waits for another try, or is due soon. Of more scheduled jobs than
    are looked through, those that were sent first are.
    """
    cursor, soon = "", time.time() + _SOON_S
    for _ in range(_MOST_PAGES):
        page = await client.jobs(queue).page(
            "scheduled", after=cursor, limit=_PAGE, with_data=False, type=type_
        )
        if any(job.failures > 0 or job.due_at < soon for job in page.jobs):
            return True
        cursor = page.cursor
        if not cursor:
            break
    return False


async def _is_moving(client: AsyncPenstock, queue: str, kind: Literal["tasks", "jobs"]) -> bool:
    """Whether a decided batch was still to be moved; what finds room is moved by now."""
    try:
        moved = await amove_batches(client.store, client.keys.queue(queue), kind)
    except StoreError:  # the worker looks for batches too, and logs what is wrong with one
        return True
    return moved.moved + moved.left > 0
