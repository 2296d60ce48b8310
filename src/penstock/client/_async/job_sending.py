"""Sends jobs to a queue."""

from __future__ import annotations

import time
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from penstock.client._async.job import AsyncJob
from penstock.client._async.job_reading import AsyncJobReading
from penstock.client._async.unserved import look_if_served
from penstock.client.batches import Batches, check_items
from penstock.client.causes import caused_jobs
from penstock.client.job_batches import (
    fitting,
    groups_of,
    pack_job,
    pack_job_data,
    seal,
    size_of_job,
)
from penstock.connection.job_ids import new_id
from penstock.connection.transport import apause
from penstock.errors import InvalidArgument, QueueFull
from penstock.model.job_options import JobOptions, JobSettings, make_options
from penstock.store.command import QueueAbsent
from penstock.store.commands import jobs
from penstock.store.commands.jobs import IdTaken, SentAs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client._async.client import AsyncPenstock
    from penstock.client.job_batches import JobBatch, Packed
    from penstock.connection.wire import Meanwhile

_BATCH_JOBS = 250
_BATCH_SLOW = 100
"""A scheduled job, or one with a cause, keeps the server busy for more than twice as long."""
_FIRST_ROOM_S, _ROOM_S = 0.02, 0.5


class AsyncJobSending(AsyncJobReading):
    """Sends jobs to one queue."""

    def __init__(self, client: AsyncPenstock, name: str) -> None:
        super().__init__(client, name)
        self._max_payload = client.settings.max_payload
        self._last_type: tuple[str, JobOptions] | None = None
        """the last type that was added without options, and its checked options"""

    async def add(
        self, type: str, data: object = None, **options: Unpack[JobSettings]
    ) -> AsyncJob[Any]:
        """Send a job: any data that can be written as JSON, or bytes as they are.

        Raises InvalidArgument, Unserialisable or PayloadTooLarge before anything is sent, QueueFull
        or StoreFull if there is no room.
        """
        last = self._last_type
        if last is not None and last[0] is type and not options:
            return await self.send_one(last[1], data)
        made = make_options(type, options)
        if not options:
            self._last_type = (type, made)
        return await self.send_one(made, data)

    async def add_many(
        self, type: str, items: Iterable[object], **options: Unpack[JobSettings]
    ) -> list[AsyncJob[Any]]:
        """Send many jobs with the same options, in batches of up to 250; `items` is read one batch
        ahead. Each batch is added whole or not at all. If one is refused, the ones before it stay
        (`error.accepted` says how many).

        With `wait`, a batch that the queue has no room for is sent in smaller ones, in order and as
        room comes, so that there may be more jobs than the queue takes at once. It is given up when
        no job has found room for so long.
        """
        check_items(items, "the data of each job")
        return await self.send(make_options(type, options), items)

    async def send_one(self, options: JobOptions, item: object) -> AsyncJob[Any]:
        """Send a job with options that were checked before."""
        if caused_jobs(self.name, options) is not None:
            return (await self.send(options, [item]))[0]
        if options.search is not False or options.id or options.run_at_ms:
            packed = pack_job(options, self._max_payload, None, item)
            return await self._send_packed(options, packed)
        data = pack_job_data(self._max_payload, item)
        number = new_id()
        try:
            existing = await self._store.run_once(
                lambda operation: jobs.send_jobs(
                    self._keys, operation, groups_of(options, [number], [data])
                )
            )
            if self._store.server is not None:
                await look_if_served(self._store, self._client.keys, self._keys)
            if existing:
                return self._job(existing[0].number, options.type, is_new=False)
            return AsyncJob(self._client, self._keys, number, options.type)
        except (QueueAbsent, IdTaken):
            pass
        except QueueFull:
            if options.wait_s <= 0:
                raise
        return await self._send_packed(options, data)

    async def send(self, options: JobOptions, items: Iterable[object]) -> list[AsyncJob[Any]]:
        """Send any number of jobs with options that were checked before."""
        sent: list[AsyncJob[Any]] = []
        if options.id:
            items = list(islice(items, 2))
            if len(items) > 1:
                raise InvalidArgument("an id is for one job; leave it out when many are sent")
        caused = caused_jobs(self.name, options)
        is_slow = options.delay_ms or options.run_at_ms or caused is not None
        batches = Batches(
            items,
            partial(pack_job, options, self._max_payload, caused),
            size_of_job,
            _BATCH_SLOW if is_slow else _BATCH_JOBS,
            partial(seal, options),
        )
        try:
            while batch := batches.take():
                await self._send_batch(options, batch, sent, batches.prepare)
        except BaseException as error:
            error.accepted = len(sent)  # type: ignore[attr-defined]
            if caused is not None:
                caused.give_back(len(sent))
            raise
        return sent

    async def _send_packed(self, options: JobOptions, packed: Packed) -> AsyncJob[Any]:
        """Send one job as a batch, and again if need be."""
        sent: list[AsyncJob[Any]] = []
        await self._send_batch(options, seal(options, [packed]), sent)
        return sent[0]

    async def _send_batch(
        self,
        options: JobOptions,
        batch: JobBatch,
        sent: list[AsyncJob[Any]],
        prepare_next: Meanwhile = None,
    ) -> None:
        """Send jobs, and put them with those `sent`: together, or as many at a time as there is
        room for if they can wait.
        """
        left, wait_s, deadline = batch.jobs, _FIRST_ROOM_S, None
        while True:
            try:
                sent += await self._send_whole(options, batch, prepare_next)
                left, wait_s, deadline = left[len(batch.jobs) :], _FIRST_ROOM_S, None
                if not left:
                    return
                # Not all that is left: it would be refused, and sent whole again and again.
                size = 2 * len(batch.jobs)
            except QueueFull as refusal:
                if refusal.is_final or options.wait_s <= 0:
                    raise
                size = fitting(batch.jobs, refusal.room, refusal.room_bytes)
                if len(batch.jobs) == 1:
                    # Counted from now, as the first request may have been under way for long.
                    deadline = deadline or time.monotonic() + options.wait_s
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        raise
                    await apause(min(left_s, wait_s))
                    wait_s = min(2 * wait_s, _ROOM_S)
            batch = seal(options, left[:size])

    async def _send_whole(
        self, options: JobOptions, batch: JobBatch, prepare_next: Meanwhile
    ) -> list[AsyncJob[Any]]:
        client, keys, kind = self._client, self._keys, options.type
        made: list[AsyncJob[Any]] = []
        if batch.origin != "made":
            for number in batch.numbers:
                client.results.forget_ending(keys, number)

        def while_it_is_sent() -> None:
            made[:] = [AsyncJob(client, keys, number, kind) for number in batch.numbers]
            if prepare_next is not None:
                prepare_next()

        while True:
            made.clear()
            try:
                existing = await self._send(batch, while_it_is_sent)
                break
            except IdTaken:
                batch = seal(options, batch.jobs)
        await look_if_served(self._store, client.keys, keys)
        if made and not existing:
            return made
        found = (existing.get(at, SentAs(number, True)) for at, number in enumerate(batch.numbers))
        return [self._job(number, kind, is_new) for number, is_new in found]

    async def _send(self, batch: JobBatch, meanwhile: Meanwhile) -> dict[int, SentAs]:
        return await self._client.queue(self.name)._in_queue(
            lambda incarnation: self._store.run_once(
                lambda operation: jobs.send_jobs(
                    self._keys, operation, batch.arguments, incarnation, batch.origin
                ),
                meanwhile,
            )
        )
