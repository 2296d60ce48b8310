"""Groups that read a log: who is in one, who owns which partition, and what the owner reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.errors import QueueFull
from penstock.store.command import Command, Page, unexpected
from penstock.store.commands.logs import NoPartition, open_entries
from penstock.store.script import Script, load

if TYPE_CHECKING:
    from penstock.model.logs import Message
    from penstock.store.keys import PartitionKeys, QueueKeys

KEEP_MEMBER = load("logs/keep_member")
OWN_PARTITION = load("logs/own_partition")
DISOWN_PARTITIONS = load("logs/disown_partitions")
CHECK_READING = load("logs/check_reading")
TRY_MESSAGE = load("logs/try_message")
PAUSE_READING = load("logs/pause_reading")


class GroupView(NamedTuple):
    """A group that Redis coordinates, at one instant."""

    weights: dict[str, int]
    """of each member"""
    owners: dict[int, str]
    partitions: int
    """the most that a member knows of"""
    wait_ms: int
    """until another member's time is up, unless it says something; -1: there is none"""


@dataclass(frozen=True, slots=True)
class Read:
    """The answer to an owner that asks for messages."""

    word: str
    """ok, empty, paused, trimmed, lost"""
    messages: list[Message] = field(default_factory=list)
    trimmed_to: str = ""


def keep_member(
    keys: QueueKeys,
    group: str,
    member: str,
    lease_ms: int,
    weight: int,
    partitions: int,
    *,
    joins: bool = False,
) -> Command[GroupView | None]:
    """Join a group, or stay in it; None: its time was up. Raises QueueFull."""

    def decode(reply: list[Any]) -> GroupView | None:
        if reply[0] == b"lost":
            return None
        if reply[0] == b"ok":
            return _view(reply)
        if reply[0] == b"too_many":
            raise QueueFull(
                f"group {group!r} of log {keys.queue!r} has {reply[1]} members, which is as many "
                "as it may have; start fewer workers, as each partition is read by one"
            )
        raise unexpected(KEEP_MEMBER, reply)

    return Command(
        KEEP_MEMBER,
        (keys.group_members(group), keys.group_owners(group)),
        (member, lease_ms, weight, partitions, int(joins)),
        decode,
    )


def own_partition(keys: QueueKeys, group: str, member: str, partition: int) -> Command[bool]:
    """Become the owner; False if another member is, or this one is a member no more."""

    def decode(reply: list[Any]) -> bool:
        if reply[0] in (b"ok", b"owned", b"lost"):
            return bool(reply[0] == b"ok")
        raise unexpected(OWN_PARTITION, reply)

    return Command(
        OWN_PARTITION,
        (keys.group_members(group), keys.group_owners(group)),
        (member, partition),
        decode,
    )


def disown_partitions(
    keys: QueueKeys, group: str, member: str, partition: int | None = None
) -> Command[None]:
    """Let others have a partition; without one, leave the group."""

    def decode(reply: list[Any]) -> None:
        if reply[0] != b"ok":
            raise unexpected(DISOWN_PARTITIONS, reply)

    return Command(
        DISOWN_PARTITIONS,
        (keys.group_members(group), keys.group_owners(group)),
        (member, "" if partition is None else str(partition)),
        decode,
    )


def read_messages(
    keys: PartitionKeys, group: str, epoch: int, after: str, count: int, *, is_trial: bool = False
) -> Page[Read]:
    """The next messages, for the owner with this epoch. With `is_trial` it is noted that the next
    one is tried alone.
    """

    def decode(entries: list[Any], check: Read) -> Read:
        if check.word != "ok":
            return check
        return Read("ok", open_entries(keys.number, entries)) if entries else Read("empty")

    parts = ("XRANGE", keys.messages, f"({after}", "+", "COUNT", count)
    check = try_message if is_trial else check_reading
    return Page(keys.messages, parts, check(keys, group, epoch, after), decode)


def check_reading(keys: PartitionKeys, group: str, epoch: int, after: str) -> Command[Read]:
    """Whether what was just read after a message counts."""
    decode = partial(_open_check, CHECK_READING)
    held = keys.state, keys.offsets, keys.paused
    return Command(CHECK_READING, held, (group, epoch, after), decode)


def try_message(keys: PartitionKeys, group: str, epoch: int, after: str) -> Command[Read]:
    """The same, and the owner is about to try the next message alone, as one before it has died."""
    decode = partial(_open_check, TRY_MESSAGE)
    held = keys.state, keys.offsets, keys.paused, keys.messages
    return Command(TRY_MESSAGE, held, (group, epoch, after), decode)


def pause_reading(keys: PartitionKeys, born: str, group: str, is_paused: bool) -> Command[None]:
    """Let a group read nothing of a partition, or go on. Raises NoPartition."""

    def decode(reply: list[Any]) -> None:
        if reply[0] == b"no_partition":
            raise NoPartition
        if reply[0] != b"ok":
            raise unexpected(PAUSE_READING, reply)

    return Command(
        PAUSE_READING,
        (keys.state, keys.paused),
        (born, group, int(is_paused), keys.appended),
        decode,
    )


def _open_check(script: Script, reply: list[Any]) -> Read:
    match reply[0]:
        case b"ok" | b"paused" | b"lost":
            return Read(reply[0].decode())
        case b"trimmed":
            return Read("trimmed", trimmed_to=reply[1].decode())
    raise unexpected(script, reply)


def _view(reply: list[Any]) -> GroupView:
    _, members, owners, wait_ms = reply
    names = [name.decode() for name in members[::3]]
    return GroupView(
        dict(zip(names, map(int, members[1::3]), strict=True)),
        {int(p): m.decode() for p, m in zip(owners[::2], owners[1::2], strict=True)},
        max(map(int, members[2::3]), default=0),
        int(wait_ms),
    )
