"""Who reads a log, and how far each has come: groups of consumers, archives and other readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import LogNotFound, OffsetRefused, QueueFull, WrongKind
from penstock.model.logs import FailedMessage, Lag
from penstock.model.taken import Deaths, Taken
from penstock.store.command import Command, Operation, unexpected
from penstock.store.commands.logs import NoPartition, is_queue
from penstock.store.script import Script, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.logs import Message
    from penstock.store.keys import PartitionKeys, QueueKeys

NOTE_GROUP = load("logs/note_group")
TAKE_PARTITION = load("logs/take_partition")
COMMIT_OFFSET = load("logs/commit_offset")
SEEK_GROUP = load("logs/seek_group")
MARK_PARTITION = load("logs/mark_partition")
FORGET_GROUP = load("logs/forget_group")
NOTE_ERROR = load("logs/note_error")
NOTE_DEATH = load("logs/note_death")
REPLAY_ERRORS = load("logs/replay_errors")
COUNT_LAG = load("logs/count_lag")


def note_group(keys: QueueKeys, group: str, reads: bool = True) -> Command[None]:
    """Put a group on the list of those that read a log, or take it off. Raises LogNotFound."""

    def decode(reply: list[Any]) -> None:
        if reply[0] == b"ok":
            return
        if reply[0] == b"absent":
            raise LogNotFound(
                f"there is no log {keys.queue!r} in namespace {keys.namespace!r} that group "
                f"{group!r} could read; the first message brings it into being"
            )
        if reply[0] == b"tasks":
            raise is_queue(keys, reply[1])
        _check_readers(keys.queue, NOTE_GROUP, reply)

    return Command(NOTE_GROUP, (keys.meta, keys.groups), (group, int(reads)), decode)


def take_partition(
    keys: PartitionKeys,
    operation: Operation,
    born: str,
    group: str,
    owner: str,
    epoch: int = 0,
    start: str = "earliest",
) -> Command[Taken]:
    """Make `owner` the owner of a partition for its group; the answer is its epoch and where to go
    on. `epoch` is one that was given elsewhere (0: the next). `start` is "earliest" or "latest" for
    a group that is new here, or an id: the group goes on from there if it has not come so far.

    Raises OffsetRefused if `epoch` is not greater than that of the present owner; NoPartition.
    """

    def decode(reply: list[Any]) -> Taken:
        match reply[0]:
            case b"ok":
                deaths = Deaths(int(reply[4]), reply[5].decode(errors="replace"))
                return Taken(int(reply[1]), reply[2].decode(), int(reply[3]), deaths)
            case b"stale":
                raise refused(keys, group, epoch, int(reply[1]))
        _check_partition(keys, TAKE_PARTITION, reply)
        raise unexpected(TAKE_PARTITION, reply)

    return Command(
        TAKE_PARTITION,
        (keys.memory(operation.lane), keys.state, keys.offsets, keys.messages),
        (operation.number, born, group, owner, epoch, start),
        decode,
    )


def commit_offset(keys: PartitionKeys, group: str, epoch: int, offset: str) -> Command[None]:
    """Note that a group has handled everything up to a message. The same offset may be committed
    again, which says that the group is alive.

    Raises OffsetRefused if the partition has a newer owner, or the group has come further.
    """

    def decode(reply: list[Any]) -> None:
        match reply[0]:
            case b"ok":
                return
            case b"stale":
                raise refused(keys, group, epoch, int(reply[1]))
            case b"back":
                raise OffsetRefused(
                    f"group {group!r} has come to {reply[1].decode()} in partition {keys.number} "
                    f"of log {keys.log!r}, so it does not go back to {offset}; seek to read "
                    "messages again"
                )
        raise unexpected(COMMIT_OFFSET, reply)

    return Command(
        COMMIT_OFFSET,
        (keys.state, keys.offsets, keys.messages, keys.segments),
        (group, epoch, offset),
        decode,
    )


def seek_group(
    keys: PartitionKeys, operation: Operation, born: str, group: str, offset: str
) -> Command[int]:
    """Let a group go on after another message; the answer is an epoch that is greater than that of
    the present owner, which is refused from now on and takes the partition again.
    """

    def decode(reply: list[Any]) -> int:
        if reply[0] == b"ok":
            return int(reply[1])
        _check_partition(keys, SEEK_GROUP, reply)
        raise unexpected(SEEK_GROUP, reply)

    return Command(
        SEEK_GROUP,
        (keys.memory(operation.lane), keys.state, keys.offsets, keys.messages),
        (operation.number, born, group, offset, keys.appended),
        decode,
    )


def mark_partition(keys: PartitionKeys, born: str, reader: str, offset: str) -> Command[None]:
    """Note how far a reader has come that is no group ('': it reads no more)."""

    def decode(reply: list[Any]) -> None:
        if reply[0] == b"ok":
            return
        if reply[0] == b"group":
            raise WrongKind(
                f"{reader!r} is a group of consumers of log {keys.log!r}, which moves by itself; "
                "give the reader another name"
            )
        _check_partition(keys, MARK_PARTITION, reply)
        raise unexpected(MARK_PARTITION, reply)

    return Command(MARK_PARTITION, (keys.state, keys.offsets), (born, reader, offset), decode)


def forget_group(keys: PartitionKeys, operation: Operation, group: str) -> Command[bool]:
    """Forget how far a group has come, and its errors; False if it was not known."""

    def decode(reply: list[Any]) -> bool:
        if reply[0] == b"ok":
            return bool(reply[1])
        raise unexpected(FORGET_GROUP, reply)

    return Command(
        FORGET_GROUP,
        (
            *(keys.memory(operation.lane), keys.state, keys.offsets),
            *(keys.errors(group), keys.paused),
        ),
        (operation.number, group),
        decode,
    )


def note_error(
    keys: PartitionKeys,
    operation: Operation,
    group: str,
    epoch: int,
    message: Message,
    reason: str,
    attempts: int,
) -> Command[str]:
    """Keep a message that a group has given up; the answer is the id under which it is kept. Raises
    OffsetRefused if the partition has a newer owner.
    """

    def decode(reply: list[Any]) -> str:
        if reply[0] == b"ok":
            return str(reply[1].decode())
        if reply[0] == b"stale":
            raise refused(keys, group, epoch, int(reply[1]))
        raise unexpected(NOTE_ERROR, reply)

    return Command(
        NOTE_ERROR,
        (keys.memory(operation.lane), keys.offsets, keys.errors(group)),
        (
            *(operation.number, group, epoch, message.id, reason.encode(errors="replace")),
            *(attempts, *message.stored),
        ),
        decode,
    )


def note_death(keys: PartitionKeys, worker: str, how: str) -> Command[int]:
    """Note with each group of whose partition a worker was the last owner how it has died; the
    answer is for how many groups that counts.
    """

    def decode(reply: list[Any]) -> int:
        if reply[0] == b"ok":
            return int(reply[1])
        raise unexpected(NOTE_DEATH, reply)

    return Command(NOTE_DEATH, (keys.offsets, keys.messages), (worker, how), decode)


def replay_errors(
    keys: PartitionKeys, operation: Operation, born: str, group: str, ids: Sequence[str]
) -> Command[int]:
    """Append up to 100 messages again that a group has given up, for this group alone; the answer
    is how many of them there were. Raises NoPartition.
    """

    def decode(reply: list[Any]) -> int:
        if reply[0] == b"ok":
            return int(reply[1])
        _check_partition(keys, REPLAY_ERRORS, reply)
        raise unexpected(REPLAY_ERRORS, reply)

    return Command(
        REPLAY_ERRORS,
        (
            *(keys.memory(operation.lane), keys.messages, keys.state),
            *(keys.segments, keys.errors(group)),
        ),
        (operation.number, born, keys.appended, group, *ids),
        decode,
    )


def count_lag(keys: PartitionKeys) -> Command[list[Lag]]:
    """How many messages of a partition each reader has still to read."""

    def decode(reply: list[Any]) -> list[Lag]:
        if reply[0] != b"ok":
            raise unexpected(COUNT_LAG, reply)
        now_ms = int(reply[1])
        return [
            Lag(
                reader=reader.decode(errors="replace"),
                partition=keys.number,
                messages=lag,
                seconds=max(0, now_ms - int(following.partition(b"-")[0])) / 1000
                if following
                else 0.0,
            )
            for reader, lag, following in zip(reply[2::3], reply[3::3], reply[4::3], strict=True)
        ]

    return Command(COUNT_LAG, (keys.state, keys.messages, keys.segments, keys.offsets), (), decode)


def open_errors(partition: int, entries: list[Any]) -> list[FailedMessage]:
    """The errors in the answer to XRANGE."""
    return [FailedMessage.opened(partition, id, fields) for id, fields in entries]


def refused(keys: PartitionKeys, group: str, epoch: int, present: int) -> OffsetRefused:
    """The error for an owner that is none any more."""
    by = f"was taken with epoch {present}" if present else "is not taken by any"
    return OffsetRefused(
        f"partition {keys.number} of log {keys.log!r} {by}, so nothing is accepted of the owner "
        f"with epoch {epoch} of group {group!r}; stop, and take the partition again if it is yours"
    )


def _check_partition(keys: PartitionKeys, script: Script, reply: list[Any]) -> None:
    if reply[0] == b"no_partition":
        raise NoPartition
    _check_readers(f"{keys.log}/{keys.number}", script, reply)


def _check_readers(name: str, script: Script, reply: list[Any]) -> None:
    if reply[0] != b"too_many":
        raise unexpected(script, reply)
    raise QueueFull(
        f"{name!r} has {reply[1]} readers, which is as many as it may have; forget one that is no "
        "longer needed"
    )
