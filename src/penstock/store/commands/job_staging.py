"""Jobs of decided batches, on their way into their queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.model.staging import Moved
from penstock.store.command import Command, unexpected
from penstock.store.commands.jobs import IdTaken, check_jobs
from penstock.store.script import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.command import Operation
    from penstock.store.keys import QueueKeys

MOVE_JOBS = load("jobs/move_jobs")


def move_jobs(keys: QueueKeys, operation: Operation, ids: Sequence[int]) -> Command[Moved]:
    """Move the next chunk of decided jobs into the queue, or as much of it as there is room for.
    Jobs that came without an id get the first of `ids`, of which there are enough for any chunk.

    Raises IdTaken for the client.
    """

    def decode(reply: list[Any]) -> Moved:
        match reply[0]:
            case b"ok":
                moved, merged, left = map(int, reply[1:])
                return Moved(moved, merged, left, is_full=False)
            case b"no_room":
                return Moved(0, 0, int(reply[1]), is_full=True)
            case b"empty":
                return Moved(0, 0, 0, is_full=False)
            case b"taken":
                raise IdTaken
        check_jobs(keys, MOVE_JOBS, reply)
        raise unexpected(MOVE_JOBS, reply)

    return Command(
        MOVE_JOBS, (keys.memory(operation.lane), keys.meta), (operation.number, *ids), decode
    )
