"""A log, as its producers, readers and operators see it."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from penstock.client._async.log_groups import AsyncLogGroup
from penstock.client._async.log_reading import AsyncLogReading, check_numbers
from penstock.client.batches import Batches, check_items
from penstock.client.log_batches import Packing, shares_of, size_of_message
from penstock.connection.queues import ain_queue
from penstock.errors import InvalidArgument, LogNotFound
from penstock.model.instants import instant_ms
from penstock.model.logs import (
    Appended,
    LogInfo,
    LogSettings,
    NewMessage,
    Trimmed,
    check_id,
    check_log_settings,
    check_partitions,
)
from penstock.model.names import check_name
from penstock.store.commands import log_groups, logs, queues
from penstock.store.commands.logs import NoPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from penstock.client._async.client import AsyncPenstock
    from penstock.client.log_batches import Share
    from penstock.connection.wire import Meanwhile
    from penstock.model.instants import Instant
    from penstock.model.logs import Lag, LogFacts
    from penstock.store.keys import PartitionKeys

R = TypeVar("R")

_BATCH_MESSAGES = 1000
_LARGEST_BATCH = 4000
_FACTS_S = 10.0
"""After this time a producer asks again how many partitions there are."""


class AsyncLog(AsyncLogReading):
    """Messages in the order of time, in partitions. A message is any bytes, with a key, headers and
    the time of the event if wanted. It stays for all readers, for as long as the log keeps it.
    """

    def __init__(self, client: AsyncPenstock, name: str, partitions: int | None = None) -> None:
        super().__init__(client, name)
        self._wanted = check_partitions(partitions)
        self._packing = Packing(client.settings.max_payload)
        self._facts: LogFacts | None = None
        self._facts_until = 0.0

    async def append(
        self,
        body: bytes,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        at: Instant | None = None,
        partition: int | None = None,
    ) -> Appended:
        """Append a message; returns where it is.

        It goes to the partition that is given, else to the one of its key (all messages with one
        key are in one partition, in order), else to each in turn. `at` is the time of the event.

        Raises InvalidArgument or PayloadTooLarge before anything is sent, StoreFull if there is no
        room.
        """
        message = NewMessage(body, key, headers, at, partition)
        [share] = shares_of([self._packing.pack(message, await self._foreseen())])
        return await self._append(share)

    async def append_many(self, items: Iterable[bytes | NewMessage]) -> int:
        """Append messages; returns how many. Those of one partition keep their order.

        They go in batches of about 1,000 messages a partition, 4,000 at most, and about 1 MiB;
        `items` is read one batch ahead.
        What goes to one partition of a batch is added whole or not at all; if something is refused,
        what was sent before stays, and the error says how many messages that was
        (`error.accepted`).
        """
        check_items(items, "the bytes of each message")
        partitions = await self._foreseen()
        pack = partial(self._packing.pack, partitions=partitions)
        most = min(_BATCH_MESSAGES * partitions, _LARGEST_BATCH)
        batches = Batches(items, pack, size_of_message, most, shares_of)
        accepted = 0
        try:
            while batch := batches.take():
                for share in batch:
                    await self._append(share, batches.prepare)
                    accepted += share.size
        except Exception as error:
            error.accepted = accepted  # type: ignore[attr-defined]
            raise
        return accepted

    async def configure(
        self, partitions: int | None = None, **settings: Unpack[LogSettings]
    ) -> LogInfo:
        """Change settings, and make the log if it does not exist; what is not given stays as it is.

        `partitions`: how many there are at least; a log never has fewer again. For each partition:
        `keep_s`, `keep_count`, `keep_bytes`: messages older than that, or beyond so many, go, but
        never those that a reader has still to read. `max_bytes`: above it the oldest go in any
        case. `expire_s`: readers that were not seen for so long hold nothing back (7 days).
        """
        given = check_log_settings(settings)
        facts = await self._put(check_partitions(partitions) or self._wanted or 1, given)
        for number in range(facts.partitions):
            await self._store.run(logs.open_partition(self._keys.partition(number), facts))
        return await self.info()

    async def trim(
        self,
        before: Instant | None = None,
        *,
        id: str | None = None,
        partition: int | None = None,
        force: bool = False,
    ) -> Trimmed:
        """Remove messages that were appended before a time, or those before message `id` of a
        partition; with neither, those that the settings keep no longer. Readers that have expired
        are forgotten.

        What a reader has still to read stays, unless `force`; then that reader is told by an error.
        """
        if id is not None and (before is not None or partition is None):
            raise InvalidArgument("an id belongs to one partition; give the partition and no time")
        bound = "" if id is None else check_id(id)
        if before is not None:
            bound = f"{max(1, instant_ms('before', before))}-0"
        if force and not bound:
            raise InvalidArgument("force says what may be lost; give a time or an id with it")
        facts = await self.facts()
        messages = size = 0
        for number in check_numbers(partition, facts):
            gone = await self._trim(number, bound, force)
            messages += gone.messages
            size += gone.bytes
        return Trimmed(messages, size)

    async def delete(self) -> int:
        """Delete the log with all messages and groups; returns how many messages there were."""
        deleted = await self._store.run_once(
            lambda operation: logs.delete_log(self._keys, operation)
        )
        self._facts = None
        if deleted is None:
            return 0
        removed = 0
        for number in range(deleted.partitions):
            keys = self._keys.partition(number)
            removed += await self._store.run(
                logs.delete_partition(keys, deleted.born, deleted.groups)
            )
        await self._store.run(queues.unregister_queue(self._client.keys, deleted.incarnation))
        return removed

    async def mark(self, reader: str, offsets: Mapping[int, str | None]) -> None:
        """Note how far a reader that is no group has come, such as an archive: partition -> the
        last message that it has read (None: it reads no more). What it has still to read is kept
        for it until it is not seen for `expire_s`.
        """
        check_name("reader", reader)
        for number, offset in offsets.items():
            await self._mark(number, reader, "" if offset is None else check_id(offset))

    def group(self, name: str) -> AsyncLogGroup:
        """The group of consumers of this name."""
        return AsyncLogGroup(self, name)

    async def lag(self) -> list[Lag]:
        """How far every reader is behind, by partition."""
        facts = await self.facts()
        return [
            lag
            for number in range(facts.partitions)
            for lag in await self._store.run(log_groups.count_lag(self._keys.partition(number)))
        ]

    async def _append(self, share: Share, meanwhile: Meanwhile = None) -> Appended:
        return await self._in_partition(
            share.partition,
            lambda keys, born: self._append_to(keys, born, share, meanwhile),
            any_will_do=True,
        )

    async def _append_to(
        self, keys: PartitionKeys, born: str, share: Share, meanwhile: Meanwhile
    ) -> Appended:
        first, _ = await self._store.run_once(
            lambda operation: logs.append_messages(
                keys, operation, born, share.parts, share.messages
            ),
            meanwhile,
        )
        return Appended(keys.number, first)

    async def _trim(self, partition: int, before: str, force: bool) -> Trimmed:
        keys = self._keys.partition(partition)
        messages = size = 0
        while True:
            gone, has_more = await self._store.run_once(
                lambda operation: logs.trim_partition(keys, operation, before, force)
            )
            messages += gone.messages
            size += gone.bytes
            if not has_more:
                return Trimmed(messages, size)

    async def _mark(self, partition: int, reader: str, offset: str) -> None:
        await self._in_partition(
            partition,
            lambda keys, born: self._store.run(
                log_groups.mark_partition(keys, born, reader, offset)
            ),
        )

    async def _in_partition(
        self,
        number: int,
        act: Callable[[PartitionKeys, str], Awaitable[R]],
        any_will_do: bool = False,
    ) -> R:
        """Do something to a partition of the log that there is now, and open it if need be. With
        `any_will_do`, to another one if the log was made anew with fewer.
        """
        while True:
            facts = await self._made()
            if any_will_do:
                number %= facts.partitions
            elif number >= facts.partitions:
                self._facts = None  # it may have been given more since
                facts = await self._made()
            [number] = check_numbers(number, facts)
            keys = self._keys.partition(number)
            try:
                return await act(keys, facts.born)
            except NoPartition:
                self._facts = None
            try:
                facts = await self._made()
                if number < facts.partitions:
                    await self._store.run(logs.open_partition(keys, facts))
            except NoPartition:
                self._facts = None  # it was deleted and made anew by others

    async def _foreseen(self) -> int:
        """How many partitions there will be with the next message. What is refused makes no log."""
        facts = await self._found()
        return max(facts.partitions if facts else 1, self._wanted or 1)

    async def _made(self) -> LogFacts:
        """What the log says of itself; it is made, or given partitions, if need be."""
        facts = await self._found()
        if facts is None or facts.partitions < (self._wanted or 1):
            facts = await self._put(self._wanted or 1, {})
        return facts

    async def _found(self) -> LogFacts | None:
        """What the log says of itself, or said lately; None if there is none."""
        if self._facts is not None and time.monotonic() < self._facts_until:
            return self._facts
        try:
            return self._keep(await self._store.run(logs.describe_log(self._keys)))
        except LogNotFound:
            return None

    async def _put(self, partitions: int, settings: dict[str, int | None]) -> LogFacts:
        facts = await ain_queue(
            self._store,
            self._client.keys,
            self.name,
            lambda incarnation: self._store.run_once(
                lambda operation: logs.put_log(
                    self._keys, operation, partitions, settings, incarnation
                )
            ),
        )
        return self._keep(facts)

    def _keep(self, facts: LogFacts) -> LogFacts:
        self._facts = facts
        self._facts_until = time.monotonic() + _FACTS_S
        return facts
