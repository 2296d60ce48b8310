"""Messages on their way into a log, packed by partition."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from penstock.connection.wire import pack_ahead
from penstock.errors import InvalidArgument
from penstock.model.logs import NewMessage, check_key, pack_at, pack_headers
from penstock.model.names import shown
from penstock.model.queues import check_payload

if TYPE_CHECKING:
    from penstock.store.command import Argument, Prepacked


class PackedMessage(NamedTuple):
    """A message that was checked, and where it goes."""

    partition: int
    body: bytes
    key: bytes
    headers: bytes
    at: bytes


class Share(NamedTuple):
    """The messages of a batch that go to one partition."""

    partition: int
    parts: int
    """how many arguments each message has"""
    messages: Prepacked
    size: int
    """how many there are"""


class Packing:
    """Checks messages, chooses a partition for each, and packs them by partition."""

    def __init__(self, max_payload: int) -> None:
        self._max_payload = max_payload
        self._turns = count()

    def pack(self, item: bytes | NewMessage, partitions: int) -> PackedMessage:
        """By the partition that is given, else by key, else each partition in turn."""
        if type(item) is bytes and len(item) <= self._max_payload:
            return PackedMessage(next(self._turns) % partitions, item, b"", b"", b"")
        message = item if isinstance(item, NewMessage) else NewMessage(item)
        check_payload("message", message.body, self._max_payload)
        key = check_key(message.key)
        partition = self._partition_of(message, key, partitions)
        return PackedMessage(
            partition, message.body, key, pack_headers(message.headers), pack_at(message.at)
        )

    def _partition_of(self, message: NewMessage, key: bytes, partitions: int) -> int:
        given = message.partition
        if given is not None:
            if type(given) is not int or not 0 <= given < partitions:
                raise InvalidArgument(
                    f"partition is {shown(given)}; the log has partitions 0 to {partitions - 1}"
                )
            return given
        if key:
            return crc32(key) % partitions
        return next(self._turns) % partitions


def size_of_message(message: PackedMessage) -> int:
    return len(message.body) + len(message.headers) + 64


def shares_of(batch: list[PackedMessage]) -> list[Share]:
    """The batch by partition; messages keep their order."""
    by_partition: dict[int, list[PackedMessage]] = {}
    for message in batch:
        number = message[0]
        if number in by_partition:
            by_partition[number].append(message)
        else:
            by_partition[number] = [message]
    return [_share(partition, messages) for partition, messages in by_partition.items()]


def _share(partition: int, messages: list[PackedMessage]) -> Share:
    arguments: list[Argument]
    if any(message.headers or message.at for message in messages):
        parts, arguments = 4, [part for message in messages for part in message[1:]]
    elif any(message.key for message in messages):
        parts, arguments = 2, [part for message in messages for part in message[1:3]]
    else:
        parts, arguments = 1, [message.body for message in messages]
    return Share(partition, parts, pack_ahead(arguments), len(messages))
