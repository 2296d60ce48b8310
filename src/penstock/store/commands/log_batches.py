"""Batches on their way into a log: staged and prepared in the slots of its partitions, decided in
its own, then moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from penstock.errors import StageLost
from penstock.model.staging import REMEMBER_MS, STAGE_MS
from penstock.store.command import Command, unexpected
from penstock.store.commands.logs import NoPartition
from penstock.store.script import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.store.keys import PartitionKeys, QueueKeys

PREPARE_STAGES = load("logs/prepare_stages")
DECIDE_APPEND = load("logs/decide_append")
MOVE_MESSAGES = load("logs/move_messages")
DROP_PREPARED = load("logs/drop_prepared")


class Decision(NamedTuple):
    """What was said to an attempt to decide a batch."""

    answer: Literal["ok", "known", "unfinished", "too_late", "no_log"]
    """as `decide_append.lua` has it"""
    token: str = ""
    """of the attempt that was decided before"""


class Prepared(NamedTuple):
    """A stage that waits for the decision about its batch, or to be moved."""

    stage: str
    token: str
    version: int
    prepared_at: float
    batch: str
    entry: str
    """as it is stored"""


def prepare_stages(
    keys: PartitionKeys,
    born: str,
    token: str,
    batch: str,
    version: int,
    stages: Mapping[str, int],
) -> Command[int]:
    """Keep stages (name -> chunks) until it is known whether their batch was decided; the answer is
    when that was done (ms). Raises StageLost or NoPartition.
    """

    def decode(reply: list[Any]) -> int:
        match reply[0]:
            case b"ok":
                return int(reply[1])
            case b"stage_lost":
                raise StageLost(
                    f"rows that were staged for batch {batch!r} are not in the store any more, so "
                    f"nothing of it was appended to log {keys.log!r}; stages are kept for "
                    f"{STAGE_MS // 3_600_000} hours; write the batch again"
                )
            case b"no_partition":
                raise NoPartition
        raise unexpected(PREPARE_STAGES, reply)

    return Command(
        PREPARE_STAGES,
        (keys.state, keys.prepared, *map(keys.stage, stages)),
        (born, token, batch, version, *(f"{name} {chunks}" for name, chunks in stages.items())),
        decode,
    )


def decide_append(
    keys: QueueKeys,
    born: str,
    batch: str,
    version: int,
    token: str,
    finished: str,
    prepared_ms: int,
) -> Command[Decision]:
    """Make what was prepared under this token part of the log, unless a batch of this name and
    version, or a later one, was decided before. `finished` is the token that was decided before it
    under this name, of which nothing is left to be moved; `prepared_ms` is when the first stage was
    prepared.
    """

    def decode(reply: list[Any]) -> Decision:
        match reply[0]:
            case b"ok":
                return Decision("ok")
            case b"known":
                return Decision("known", reply[2].decode())
            case b"unfinished":
                return Decision("unfinished", reply[1].decode())
            case b"too_late":
                return Decision("too_late")
            case b"no_log":
                return Decision("no_log")
        raise unexpected(DECIDE_APPEND, reply)

    return Command(
        DECIDE_APPEND,
        (keys.meta, keys.batches, keys.batch_times, keys.batch_tokens),
        (born, batch, version, token, finished, prepared_ms + STAGE_MS // 2, REMEMBER_MS),
        decode,
    )


def move_messages(keys: PartitionKeys, born: str, stage: str) -> Command[int]:
    """Append the next chunk of a decided stage; the answer is how many chunks are left. Raises
    NoPartition.
    """

    def decode(reply: list[Any]) -> int:
        match reply[0]:
            case b"ok":
                return int(reply[2])
            case b"empty":
                return 0
            case b"no_partition":
                raise NoPartition
        raise unexpected(MOVE_MESSAGES, reply)

    return Command(
        MOVE_MESSAGES,
        (keys.messages, keys.state, keys.segments, keys.prepared, keys.stage(stage)),
        (born, stage, keys.appended),
        decode,
    )


def drop_prepared(keys: PartitionKeys, stage: str, entry: str) -> Command[bool]:
    """Drop a stage of an attempt that was not decided, if it is what was found."""

    def decode(reply: list[Any]) -> bool:
        if reply[0] == b"ok":
            return bool(reply[1])
        raise unexpected(DROP_PREPARED, reply)

    return Command(DROP_PREPARED, (keys.prepared, keys.stage(stage)), (stage, entry), decode)


def open_prepared(stage: bytes, entry: bytes) -> Prepared | None:
    """What is stored of a stage; None if that cannot be read."""
    parts = entry.decode(errors="replace").split(" ", 4)
    token, version, at, chunks, batch = (*parts, "", "", "", "", "")[:5]
    if not (version.isdecimal() and at.isdecimal() and chunks.isdecimal()):
        return None
    name, text = stage.decode(errors="replace"), entry.decode(errors="replace")
    return Prepared(name, token, int(version), int(at) / 1000, batch, text)
