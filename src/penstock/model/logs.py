"""Logs: messages in the order of time, in partitions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypedDict
from zlib import crc32

from penstock.errors import InvalidArgument
from penstock.model.instants import Instant, instant_ms
from penstock.model.names import shown
from penstock.model.taken import NO_DEATHS, Deaths

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PARTITIONS = 1024
MAX_KEY_BYTES = 1024
MAX_HEADER_BYTES = 65_536
DEFAULT_EXPIRE_MS = 7 * 24 * 3_600_000
"""For how long a group that is not seen holds back retention, if the log does not say."""
START = "0-0"
"""The offset of a reader that has read nothing."""

_ID = re.compile(r"(\d{1,16})-(\d{1,16})")


class NewMessage(NamedTuple):
    """A message that is to be appended."""

    body: bytes
    key: str | None = None
    headers: Mapping[str, str] | None = None
    at: Instant | None = None
    partition: int | None = None


class Appended(NamedTuple):
    """Where a message is."""

    partition: int
    id: str


class Message:
    """One entry of a partition. Neither frozen nor opened before it is asked for what is in it: a
    reader makes hundreds of thousands of them each second.
    """

    __slots__ = ("_fields", "_id", "partition")

    def __init__(self, partition: int, id: bytes, fields: list[bytes]) -> None:
        """`fields` are name, value, ... as the store has them, always in the same order."""
        self.partition = partition
        self._id = id
        self._fields = fields

    @property
    def id(self) -> str:
        """Grows within the partition; the server's time in ms, a minus, and a number."""
        return self._id.decode()

    @property
    def body(self) -> bytes:
        """As it was appended."""
        return self._fields[1]

    @property
    def key(self) -> str | None:
        fields = self._fields
        return fields[3].decode() if len(fields) > 3 and fields[3] else None

    @property
    def headers(self) -> dict[str, str]:
        fields = self._fields
        return unpack_headers(fields[5]) if len(fields) > 5 else {}

    @property
    def at(self) -> float:
        """The time of the event if the producer gave one, else when it was appended, in seconds
        since 1970.
        """
        fields = self._fields
        if len(fields) > 7 and fields[7]:
            return int(fields[7]) / 1000
        return self.appended_at

    @property
    def appended_at(self) -> float:
        """When it was appended by the server's clock, which reads by time go by."""
        return int(self._id.partition(b"-")[0]) / 1000

    @property
    def only_for(self) -> str | None:
        """The group that it was appended for once more, out of the group's errors; other groups
        have had it, and pass over it.
        """
        fields = self._fields
        return fields[9].decode() if len(fields) > 9 else None

    @property
    def stored(self) -> tuple[bytes, bytes, bytes, bytes]:
        """Body, key, headers and time of the event, as they are stored."""
        body, key, headers, at = (*self._fields[1:8:2], b"", b"", b"")[:4]
        return body, key, headers, at

    @property
    def parts(self) -> list[bytes]:
        """The id, and then what it was made of."""
        return [self._id, *self._fields]

    @property
    def place(self) -> tuple[int, int, int]:
        """What messages of several partitions are merged by: time, partition, number."""
        ms, _, number = self._id.partition(b"-")
        return int(ms), self.partition, int(number)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return (self.partition, self._id, self._fields) == (
            other.partition,
            other._id,
            other._fields,
        )

    def __hash__(self) -> int:
        return hash((self.partition, self._id))

    def __repr__(self) -> str:
        key = f", key={self.key!r}" if self.key else ""
        return f"<Message {self.partition}/{self.id}{key}, {len(self.body)} bytes>"


class FailedMessage(NamedTuple):
    """A message that a group has given up."""

    id: str
    """under which it is kept; it begins with the time at which that was"""
    message: Message
    reason: str
    attempts: int
    """how often it was tried"""

    @classmethod
    def opened(cls, partition: int, id: bytes, fields: list[bytes]) -> FailedMessage:
        """As the store has it: the message, then its id, the reason and the attempts."""
        message = Message(partition, fields[9], fields[:8])
        return cls(id.decode(), message, fields[11].decode(errors="replace"), int(fields[13]))

    @property
    def failed_at(self) -> float:
        return int(self.id.partition("-")[0]) / 1000


class Lag(NamedTuple):
    """How far a reader is behind in a partition."""

    reader: str
    partition: int
    messages: int
    seconds: float
    """for how long the next message that it has to read has waited"""


class LogSettings(TypedDict, total=False):
    """What can be set for a log, for each of its partitions; None stands for: without a bound."""

    keep_s: float | None
    keep_count: int | None
    keep_bytes: int | None
    max_bytes: int | None
    expire_s: float | None


class LogFacts(NamedTuple):
    """What a log says of itself."""

    name: str
    born: str
    """grows with each log that is made under this name"""
    partitions: int
    version: int
    """of the settings"""
    settings: dict[str, int]
    """as they are stored: keep_ms, keep_count, keep_bytes, max_bytes, expire_ms"""
    groups: dict[str, int]
    """group -> when it was first seen (ms)"""


class Reader(NamedTuple):
    """How far a group, an archive or another reader has come in a partition."""

    name: str
    epoch: int
    """of the owner; 0 for a reader without one"""
    offset: str
    """the last message that it has read, or '0-0'"""
    seen_at: float
    owner: str
    deaths: Deaths = NO_DEATHS


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition at one instant."""

    number: int
    now: float
    messages: int
    bytes: int
    """of bodies, keys and headers, and 32 for each message"""
    added: int
    """messages that were ever appended"""
    trimmed: int
    """messages that are gone"""
    trimmed_to: str
    """the last of those; empty if there are none"""
    lost: int
    """of those, the ones that a reader had not read"""
    first: str
    """id of the oldest message; empty if there is none"""
    last: str
    """id of the newest message; that of the last one trimmed if there is none"""
    readers: tuple[Reader, ...]
    floor: str
    """what the slowest reader has read; empty if there is no reader"""
    is_open: bool
    born: str = ""
    version: int = 0
    settings: Mapping[str, int] = field(default_factory=dict)
    """as the log had them when the partition was opened or changed"""


class RangeInfo(NamedTuple):
    """What follows a message of a partition, at one instant."""

    now: float
    born: str
    """of the log; empty if the partition was not opened"""
    trimmed_to: str
    """the last message that is gone; empty if there are none"""
    last: str
    """the newest message; empty if there is none"""
    start: str
    """what comes after it was meant"""
    at: str
    """the last message that is there up to the start; empty if there is none"""
    messages: int
    """how many were meant"""
    ends: tuple[str, ...]
    """the last message of each part"""

    @property
    def earliest(self) -> str:
        """The offset of a reader that has still to read all that is there."""
        return self.trimmed_to or START

    @property
    def latest(self) -> str:
        """The offset of a reader that has read all that is there."""
        return self.last or self.earliest

    @property
    def is_whole(self) -> bool:
        """Whether every message is there that was ever appended after the start.

        The oldest are trimmed first, and what is gone is noted in the same step. So nothing is lost
        if the start is the last that is gone, or is still there; a store that was put back to an
        older state has neither.
        """
        return self.start in (self.at, self.earliest)


class Trimmed(NamedTuple):
    """The answer to a trim."""

    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LogInfo:
    """A log, partition by partition, each at one instant."""

    name: str
    settings: dict[str, int]
    groups: tuple[str, ...]
    partitions: tuple[PartitionInfo, ...] = field(default=())

    @property
    def messages(self) -> int:
        return sum(partition.messages for partition in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(partition.bytes for partition in self.partitions)


def partition_of(key: str, partitions: int) -> int:
    """Where messages with this key go: CRC-32 of its UTF-8 modulo the number of partitions, the
    same in every version and every language.
    """
    return crc32(key.encode()) % partitions


def check_partitions(partitions: int | None) -> int | None:
    if partitions is None or (type(partitions) is int and 1 <= partitions <= MAX_PARTITIONS):
        return partitions
    raise InvalidArgument(
        f"partitions is {shown(partitions)}; give a whole number from 1 to {MAX_PARTITIONS}"
    )


def check_log_settings(given: LogSettings) -> dict[str, int | None]:
    """The settings as they are stored, if each is known and makes sense."""
    checked: dict[str, int | None] = {}
    for name, value in given.items():
        if name not in LogSettings.__annotations__:
            known = ", ".join(LogSettings.__annotations__)
            raise InvalidArgument(f"a log has no setting {name!r}; it has {known}")
        is_time = name.endswith("_s")
        stored = f"{name.removesuffix('_s')}_ms" if is_time else name
        checked[stored] = None if value is None else _stored(name, value, is_time)
    return checked


def _stored(name: str, value: object, is_time: bool) -> int:
    if is_time and type(value) in (int, float) and 0 < value < 1e10:  # type: ignore[operator]
        return max(1, round(value * 1000))  # type: ignore[operator]
    if not is_time and type(value) is int and 0 < value < 10**15:
        return value
    wanted = "a number of seconds" if is_time else "a whole number from 1 up"
    raise InvalidArgument(f"{name} is {shown(value)}; give {wanted}, or None")


def check_key(key: object) -> bytes:
    if key is None:
        return b""
    try:
        encoded = key.encode() if isinstance(key, str) else b""
    except UnicodeEncodeError:
        encoded = b""
    if not 0 < len(encoded) <= MAX_KEY_BYTES:
        raise InvalidArgument(
            f"the key of a message is {shown(key)}; give text of 1 to {MAX_KEY_BYTES} bytes"
        )
    return encoded


def pack_headers(headers: Mapping[str, str] | None) -> bytes:
    """Headers as they are stored; empty if there are none."""
    if not headers:
        return b""
    try:
        are_texts = all(isinstance(part, str) for pair in headers.items() for part in pair)
        "".join(part for pair in headers.items() for part in pair).encode()
    except (AttributeError, TypeError, UnicodeEncodeError):
        are_texts = False  # half a surrogate pair could not be read by others, such as Spark
    if not are_texts:
        raise InvalidArgument(f"headers are {shown(headers)}; give a dict of text to text")
    packed = json.dumps(dict(headers), separators=(",", ":")).encode()
    if len(packed) > MAX_HEADER_BYTES:
        raise InvalidArgument(
            f"the headers have {len(packed)} bytes and {MAX_HEADER_BYTES} is the limit; put more "
            "into the body"
        )
    return packed


def unpack_headers(packed: bytes) -> dict[str, str]:
    return json.loads(packed) if packed else {}


def pack_at(at: Instant | None) -> bytes:
    return b"" if at is None else b"%d" % instant_ms("at", at)


def check_id(id: object) -> str:
    """Return what is given if it is the id of a message."""
    if isinstance(id, str) and _ID.fullmatch(id):
        return id
    raise InvalidArgument(f"{shown(id)} is no id of a message; ids look like 1700000000000-0")


def id_key(id: str) -> tuple[int, int]:
    """What ids are ordered by; what is no id comes before all."""
    found = _ID.fullmatch(id)
    return (int(found[1]), int(found[2])) if found else (-1, 0)
