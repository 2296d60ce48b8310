"""Logs as a whole, their partitions, and messages on their way in and out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import LogNotFound, WrongKind
from penstock.model.logs import (
    LogFacts,
    Message,
    PartitionInfo,
    RangeInfo,
    Reader,
    Trimmed,
    id_key,
)
from penstock.model.numbers import whole_number
from penstock.model.taken import NO_DEATHS, Deaths
from penstock.store.command import Command, Operation, check_queue, unexpected
from penstock.store.foreign_entries import text_of
from penstock.store.script import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.store.command import Prepacked
    from penstock.store.keys import PartitionKeys, QueueKeys

PUT_LOG = load("logs/put_log")
DESCRIBE_LOG = load("logs/describe_log")
OPEN_PARTITION = load("logs/open_partition")
APPEND_MESSAGES = load("logs/append_messages")
DESCRIBE_PARTITION = load("logs/describe_partition")
DESCRIBE_RANGE = load("logs/describe_range")
TRIM_PARTITION = load("logs/trim_partition")
DELETE_LOG = load("logs/delete_log")
DELETE_PARTITION = load("logs/delete_partition")

LOG_SETTINGS = ("keep_ms", "keep_count", "keep_bytes", "max_bytes", "expire_ms")
"""What a log can say and its partitions are told, as it is stored."""
_DEATHS = re.compile(r"(\d+) [01] (.*)", re.DOTALL)


class NoPartition(Exception):
    """A reply: the partition was not opened, or belongs to another log; read the log again. Never
    seen by an application.
    """


def put_log(
    keys: QueueKeys,
    operation: Operation,
    partitions: int,
    settings: Mapping[str, int | None],
    incarnation: str = "",
) -> Command[LogFacts]:
    """Make a log with at least so many partitions, or change one (None: the default of a setting).
    Raises QueueAbsent, QueueTaken or WrongKind.
    """

    def decode(reply: list[Any]) -> LogFacts:
        check_queue(reply)
        if reply[0] == b"ok":
            return _log_facts(keys, reply)
        if reply[0] == b"tasks":
            raise is_queue(keys, reply[1])
        raise unexpected(PUT_LOG, reply)

    pairs = (
        part
        for name, value in settings.items()
        for part in (name, "" if value is None else str(value))
    )
    return Command(
        PUT_LOG,
        (keys.memory(operation.lane), keys.meta),
        (operation.number, incarnation, partitions, *pairs),
        decode,
    )


def describe_log(keys: QueueKeys) -> Command[LogFacts]:
    """What a log says of itself. Raises LogNotFound or WrongKind."""

    def decode(reply: list[Any]) -> LogFacts:
        match reply[0]:
            case b"ok":
                return _log_facts(keys, reply)
            case b"absent":
                raise LogNotFound(
                    f"there is no log {keys.queue!r} in namespace {keys.namespace!r}; "
                    "the first message brings it into being"
                )
            case b"tasks":
                raise is_queue(keys, reply[1])
        raise unexpected(DESCRIBE_LOG, reply)

    return Command(DESCRIBE_LOG, (keys.meta, keys.groups), (), decode)


def open_partition(keys: PartitionKeys, log: LogFacts) -> Command[None]:
    """Give a partition the settings of its log. Raises NoPartition if a newer log has it."""

    def decode(reply: list[Any]) -> None:
        if reply[0] == b"other_log":
            raise NoPartition
        if reply[0] != b"ok":
            raise unexpected(OPEN_PARTITION, reply)

    pairs = (part for name, value in log.settings.items() for part in (name, str(value)))
    return Command(
        OPEN_PARTITION,
        (
            *(keys.state, keys.messages, keys.segments, keys.offsets),
            *(keys.paused, keys.prepared),
        ),
        (log.born, log.version, *pairs),
        decode,
    )


def append_messages(
    keys: PartitionKeys, operation: Operation, born: str, parts: int, messages: Prepacked
) -> Command[tuple[str, int]]:
    """Append messages of so many parts each (1: body; 2: also key; 4: also headers and event time);
    the answer is the id of the first, and how many there were. Raises NoPartition.
    """

    def decode(reply: list[Any]) -> tuple[str, int]:
        if reply[0] == b"ok":
            return reply[1].decode(), int(reply[2])
        if reply[0] == b"no_partition":
            raise NoPartition
        raise unexpected(APPEND_MESSAGES, reply)

    return Command(
        APPEND_MESSAGES,
        (keys.memory(operation.lane), keys.messages, keys.state, keys.segments),
        (operation.number, born, keys.appended, parts),
        decode,
        messages,
    )


def describe_partition(keys: PartitionKeys) -> Command[PartitionInfo]:
    """What is known of a partition, at one instant."""

    def decode(reply: list[Any]) -> PartitionInfo:
        if reply[0] == b"ok":
            return _partition_info(keys.number, reply)
        raise unexpected(DESCRIBE_PARTITION, reply)

    return Command(DESCRIBE_PARTITION, (keys.messages, keys.state, keys.offsets), (), decode)


def describe_range(
    keys: PartitionKeys, start: str, end: str = "+", most: int = 0, parts: int = 1
) -> Command[RangeInfo]:
    """What follows the message `start` up to the message `end` ('+': to the newest), of that `most`
    messages at most (0: all), in so many parts.
    """

    def decode(reply: list[Any]) -> RangeInfo:
        if reply[0] != b"ok":
            raise unexpected(DESCRIBE_RANGE, reply)
        _, now, born, trimmed_to, last, at, count, *ends = reply
        return RangeInfo(
            now=int(now) / 1000,
            born=born.decode(errors="replace"),
            trimmed_to=trimmed_to.decode(errors="replace"),
            last=last.decode(),
            start=start,
            at=at.decode(),
            messages=count,
            ends=tuple(id.decode() for id in ends if id),
        )

    return Command(
        DESCRIBE_RANGE,
        (keys.state, keys.messages, keys.segments),
        (start, end, most, parts),
        decode,
    )


def trim_partition(
    keys: PartitionKeys, operation: Operation, before: str = "", force: bool = False
) -> Command[tuple[Trimmed, bool]]:
    """Remove messages before an id ('': those that are kept no longer), but without `force` none
    that a reader has still to read; the answer is how much is gone, and whether there may be more.
    """

    def decode(reply: list[Any]) -> tuple[Trimmed, bool]:
        if reply[0] == b"ok":
            return Trimmed(int(reply[1]), int(reply[2])), bool(reply[3])
        raise unexpected(TRIM_PARTITION, reply)

    return Command(
        TRIM_PARTITION,
        (keys.memory(operation.lane), keys.state, keys.messages, keys.segments, keys.offsets),
        (operation.number, before, int(force)),
        decode,
    )


class DeletedLog(NamedTuple):
    """What is still to be deleted of a log."""

    born: str
    partitions: int
    incarnation: str
    groups: list[str]


def delete_log(keys: QueueKeys, operation: Operation) -> Command[DeletedLog | None]:
    """Delete a log; its partitions are to be deleted afterwards. None if there was none."""

    def decode(reply: list[Any]) -> DeletedLog | None:
        match reply[0]:
            case b"ok":
                born, partitions, incarnation, *groups = [part.decode() for part in reply[1:]]
                return DeletedLog(born, int(partitions or 0), incarnation, groups)
            case b"absent":
                return None
            case b"tasks":
                raise is_queue(keys, reply[1])
        raise unexpected(DELETE_LOG, reply)

    return Command(
        DELETE_LOG,
        (
            *(keys.memory(operation.lane), keys.meta, keys.groups),
            *(keys.batches, keys.batch_times, keys.batch_tokens),
        ),
        (operation.number,),
        decode,
    )


def delete_partition(keys: PartitionKeys, born: str, groups: Sequence[str]) -> Command[int]:
    """Delete a partition of a log that was deleted, with the errors of these groups; the answer is
    how many messages there were: 0 if a newer log has it by now.
    """

    def decode(reply: list[Any]) -> int:
        if reply[0] == b"ok":
            return int(reply[1])
        if reply[0] == b"other_log":
            return 0
        raise unexpected(DELETE_PARTITION, reply)

    own = (keys.state, keys.messages, keys.segments, keys.offsets, keys.paused, keys.prepared)
    return Command(DELETE_PARTITION, (*own, *map(keys.errors, groups)), (born,), decode)


def open_entries(partition: int, entries: list[Any]) -> list[Message]:
    """The messages in the answer to XRANGE or XREVRANGE."""
    return [Message(partition, id, fields) for id, fields in entries]


def _log_facts(keys: QueueKeys, reply: list[Any]) -> LogFacts:
    settings = {name.decode(): whole_number(value) for name, value in _pairs(reply[4])}
    # `penstock fsck` names a group whose name is no text.
    listed = [(text_of(name), value) for name, value in _pairs(reply[5:6])]
    groups = {name: whole_number(value) or 0 for name, value in listed if name is not None}
    return LogFacts(
        name=keys.queue,
        born=reply[1].decode(errors="replace"),
        partitions=whole_number(reply[2]) or 0,
        version=whole_number(reply[3]) or 0,
        settings={name: value for name, value in settings.items() if value is not None},
        groups=groups,
    )


def _partition_info(number: int, reply: list[Any]) -> PartitionInfo:
    _, now, flat, length, first, last, offsets = reply
    state = {name.decode(errors="replace"): value for name, value in _pairs(flat)}
    settings = {name: whole_number(state.get(name, b"")) for name in LOG_SETTINGS}

    def size(name: str) -> int:
        return whole_number(state.get(name, b"")) or 0

    trimmed_to = state.get("trimmed_to", b"").decode(errors="replace")
    return PartitionInfo(
        number=number,
        now=int(now) / 1000,
        messages=length,
        bytes=size("added_bytes") - size("trimmed_bytes"),
        added=size("added"),
        trimmed=size("trimmed"),
        trimmed_to=trimmed_to,
        lost=size("lost"),
        first=first.decode(),
        last=last.decode() or trimmed_to,
        readers=tuple(open_readers(offsets)),
        floor=state.get("floor", b"").decode(errors="replace"),
        is_open="born" in state,
        born=state.get("born", b"").decode(errors="replace"),
        version=size("version"),
        settings={name: value for name, value in settings.items() if value is not None},
    )


def open_readers(flat: list[bytes]) -> Iterator[Reader]:
    """Those entries that say how far somebody has come; `penstock fsck` names the others."""
    for name, entry in _pairs(flat):
        line, _, more = entry.decode(errors="replace").partition("\n")
        epoch, offset, seen, owner = (*line.split(" ", 3), "", "", "")[:4]
        deaths = _DEATHS.fullmatch(more)
        is_whole = deaths is not None or not more
        if epoch.isdecimal() and seen.isdecimal() and id_key(offset)[0] >= 0 and is_whole:
            text = name.decode(errors="replace")
            last = Deaths(int(deaths[1]), deaths[2]) if deaths else NO_DEATHS
            yield Reader(text, int(epoch), offset, int(seen) / 1000, owner, last)


def is_queue(keys: QueueKeys, kind: bytes) -> WrongKind:
    holds = f"holds {kind.decode(errors='backslashreplace')}" if kind else "has been used as one"
    return WrongKind(
        f"{keys.queue!r} is a queue that {holds}, so it cannot be a log; choose another name, or "
        "delete the queue first"
    )


def _pairs(flat: list[Any]) -> list[tuple[Any, Any]]:
    if flat and isinstance(flat[0], list):
        flat = flat[0]
    return list(zip(flat[::2], flat[1::2], strict=True))
