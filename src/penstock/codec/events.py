"""Channel messages to events."""

from __future__ import annotations

from penstock.codec.forms import FINISHED_TASK
from penstock.model.events import Event, EventKind


def decode_event(kind: EventKind, queue: str, message: bytes) -> Event:
    """Read what the scripts publish on the channel `kind` of `queue`."""
    if kind == "cancel":
        return Event(kind, queue, task=message.partition(b" ")[2])
    if kind == "done":
        found = FINISHED_TASK.open(message)
        worker, task, result = found["worker"].decode(), found["task"], found["result"]
        return Event(kind, queue, task=task, worker=worker, result=result)
    return Event(kind, queue, count=int(message.partition(b" ")[0]))
