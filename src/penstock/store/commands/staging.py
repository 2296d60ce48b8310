"""Batches on their way in: staged, decided, moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.codec.layouts import unknown_layout
from penstock.errors import BatchTooLarge, PayloadTooLarge, StageLost, WrongKind
from penstock.model.jobs import LAYOUT
from penstock.model.staging import NOT_KEPT, REMEMBER_MS, STAGE_MS, Keep, Moved, Stage
from penstock.store.command import Command, Operation, check_queue, refuse_log, unexpected
from penstock.store.script import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.queues import KindName
    from penstock.store.keys import PartitionKeys, QueueKeys

STAGE_CHUNK = load("batches/stage_chunk")
DECIDE_BATCH = load("batches/decide_batch")
MOVE_TASKS = load("tasks/move_tasks")
DROP_STAGES = load("batches/drop_stages")


def stage_chunk(
    keys: QueueKeys | PartitionKeys,
    batch: str,
    stage: str,
    index: int,
    chunk: bytes,
    max_bytes: int,
) -> Command[int]:
    """Keep a chunk aside; the answer is how many bytes are staged for the batch, whose attempts
    are counted together under `batch`.

    Raises BatchTooLarge if that is more than `max_bytes`, StageLost if the batch was decided
    without this chunk.
    """

    def decode(reply: list[Any]) -> int:
        if reply[0] == b"ok":
            return int(reply[1])
        if reply[0] == b"too_much":
            raise BatchTooLarge(
                f"the batch has more than {max_bytes} bytes, so nothing of it was sent to "
                f"{keys.shown}; send it in several batches, or raise max_staged_bytes if the "
                "store has room for more"
            )
        if reply[0] == b"decided":
            raise StageLost(
                f"the batch for {keys.shown} was decided without this chunk; nothing is "
                "lost if another attempt has written the same rows"
            )
        raise unexpected(STAGE_CHUNK, reply)

    return Command(
        STAGE_CHUNK,
        (keys.stage(stage), keys.staging(batch)),
        (index, chunk, STAGE_MS, max_bytes),
        decode,
    )


def decide_batch(
    keys: QueueKeys,
    operation: Operation,
    batch: str,
    version: int,
    kind: KindName,
    stages: Sequence[Stage],
    incarnation: str = "",
    remember_ms: int = REMEMBER_MS,
    keep: Keep = NOT_KEPT,
) -> Command[bool]:
    """Make the stages part of the queue, unless a batch of this name and version, or a later one,
    was decided before; then the answer is False.

    Raises StageLost, WrongKind, PayloadTooLarge; QueueAbsent and QueueTaken for the client.
    """
    largest = max((stage.largest for stage in stages), default=0)

    def decode(reply: list[Any]) -> bool:
        check_queue(reply)
        match reply[0]:
            case b"ok" | b"known":
                return bool(reply[0] == b"ok")
            case b"stage_lost":
                raise StageLost(
                    f"rows that were staged for batch {batch!r} are not in the store any more, so "
                    f"nothing of it was sent to queue {keys.queue!r}; stages are kept for "
                    f"{STAGE_MS // 3_600_000} hours; write the batch again"
                )
            case b"jobs":
                refuse_log(keys.queue, reply[1])
                raise WrongKind(
                    f"queue {keys.queue!r} holds jobs, so it takes no plain tasks; "
                    "write the rows as jobs, or choose another queue"
                )
            case b"tasks":
                refuse_log(keys.queue, reply[1])
                raise WrongKind(
                    f"queue {keys.queue!r} holds plain tasks, so it cannot hold jobs; "
                    "choose another queue, or delete this one first"
                )
            case b"too_large":
                raise PayloadTooLarge(
                    f"queue {keys.queue!r} takes {int(reply[2])} bytes of data (its max_bytes), "
                    f"and one job of batch {batch!r} has {int(reply[1])}, so nothing of it was "
                    "sent; send less data, or raise max_bytes"
                )
            case b"other_layout":
                raise unknown_layout(reply[1])
        raise unexpected(DECIDE_BATCH, reply)

    return Command(
        DECIDE_BATCH,
        (
            keys.memory(operation.lane),
            keys.meta,
            keys.moving,
            keys.batches,
            keys.batch_times,
            keys.keeps,
            *(keys.stage(stage.name) for stage in stages),
        ),
        (
            *(operation.number, incarnation, batch, version, kind),
            *(sum(stage.rows for stage in stages), largest, LAYOUT, remember_ms),
            *(keep.tag, keep.keep_ms),
            *(stage.chunks for stage in stages),
        ),
        decode,
    )


def drop_stages(keys: QueueKeys | PartitionKeys, names: Sequence[str]) -> Command[int]:
    """Drop stages that were not decided; the answer is how many."""

    def decode(reply: list[Any]) -> int:
        if reply[0] == b"ok":
            return int(reply[1])
        raise unexpected(DROP_STAGES, reply)

    return Command(DROP_STAGES, tuple(keys.stage(name) for name in names), (), decode)


def move_tasks(keys: QueueKeys) -> Command[Moved]:
    """Move the next chunk of decided tasks into the queue, or what of it there is room for."""

    def decode(reply: list[Any]) -> Moved:
        match reply[0]:
            case b"ok":
                return Moved(int(reply[1]), 0, int(reply[2]), is_full=False)
            case b"no_room":
                return Moved(0, 0, int(reply[3]), is_full=True)
            case b"empty":
                return Moved(0, 0, 0, is_full=False)
        raise unexpected(MOVE_TASKS, reply)

    return Command(
        MOVE_TASKS, (keys.meta, keys.ready, keys.moving, keys.idle), (keys.work, keys.wake), decode
    )
