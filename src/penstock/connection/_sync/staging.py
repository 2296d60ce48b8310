# Generated from _async/staging.py by tools/generate_sync.py. Edit that file instead.

"""Writes batches to a queue: staged by many, decided once, moved by any client."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from penstock.connection._sync.queues import in_queue
from penstock.connection._sync.transport import pause
from penstock.connection.job_ids import new_ids
from penstock.errors import StageLost
from penstock.model.staging import MAX_CHUNK_JOBS, NOT_KEPT, Moved
from penstock.store.commands import queues, staging
from penstock.store.commands.jobs import IdTaken
from penstock.store.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.connection._sync.store import Store
    from penstock.model.queues import KindName
    from penstock.model.staging import Keep, Stage
    from penstock.store.command import Command, Operation
    from penstock.store.keys import NamespaceKeys, QueueKeys

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.5


def stage_chunk(
    store: Store,
    keys: QueueKeys,
    batch: str,
    stage: str,
    index: int,
    chunk: bytes,
    max_bytes: int,
) -> None:
    """Keep a chunk aside until its batch is decided. Sent again, it counts once.

    Raises BatchTooLarge if more than `max_bytes` would be staged for the batch.
    """
    store.run(staging.stage_chunk(keys, batch, stage, index, chunk, max_bytes))


def decide_batch(
    store: Store,
    namespace: NamespaceKeys,
    queue: str,
    kind: KindName,
    batch: str,
    version: int,
    stages: Sequence[Stage],
    keep: Keep = NOT_KEPT,
) -> bool:
    """Make stages part of the queue, in one step; False if the batch was decided before.

    A queue that does not exist comes into being. Raises StageLost, WrongKind or PayloadTooLarge,
    and then nothing of the batch is in the queue.
    """
    written = [stage for stage in stages if stage.chunks]
    keys = namespace.queue(queue)

    def command(incarnation: str, operation: Operation) -> Command[bool]:
        return staging.decide_batch(
            keys, operation, batch, version, kind, written, incarnation, keep=keep
        )

    def decide(incarnation: str) -> bool:
        is_decided = False
        try:
            is_decided = store.run_once(partial(command, incarnation))
        except StageLost:
            unregister(incarnation)
            raise
        if not is_decided:
            unregister(incarnation)
        return is_decided

    def unregister(incarnation: str) -> None:
        """No queue was created with it, and none will be."""
        if incarnation:
            store.run(queues.unregister_queue(namespace, incarnation))

    return in_queue(store, namespace, queue, decide)


def drop_stages(store: Store, keys: QueueKeys, names: Sequence[str]) -> int:
    """Drop stages that were not decided, and say how many. What is not dropped expires."""
    return store.run(staging.drop_stages(keys, names)) if names else 0


def move_batches(
    store: Store,
    keys: QueueKeys,
    kind: KindName,
    wait_s: float | None = 0.0,
    on_progress: Callable[[Moved], None] | None = None,
) -> Moved:
    """Move what was decided into the queue, until nothing is left or, for `wait_s` (None: for
    ever), nothing has found room.
    """
    moved = merged = 0
    pause_s, deadline = _FIRST_WAIT_S, _deadline(wait_s)
    while True:
        step = _move_chunk(store, keys, kind)
        moved, merged = moved + step.moved, merged + step.merged
        total = Moved(moved, merged, step.left, step.is_full)
        if on_progress is not None:
            on_progress(total)
        if step.moved:
            pause_s, deadline = _FIRST_WAIT_S, _deadline(wait_s)
        elif not step.is_full:
            return total
        else:
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return total
            pause(pause_s if left_s is None else min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_WAIT_S)


def _move_chunk(store: Store, keys: QueueKeys, kind: KindName) -> Moved:
    while True:
        ids = new_ids(MAX_CHUNK_JOBS)
        try:
            return store.run_once(partial(KINDS[kind].move, keys, ids=ids))
        except IdTaken:
            continue  # another client has made the same ids


def _deadline(wait_s: float | None) -> float | None:
    return None if wait_s is None else time.monotonic() + wait_s
