"""Channel messages to events."""

from __future__ import annotations

import struct

from penstock.model.events import Event, EventKind

_WORKER_LENGTH = struct.Struct(">H")
_TASK_LENGTH = struct.Struct(">I")


def decode_event(kind: EventKind, queue: str, message: bytes) -> Event:
    """Read what the scripts publish on the channel `kind` of `queue`."""
    if kind == "cancel":
        return Event(kind, queue, task=message.partition(b" ")[2])
    if kind == "done":
        (worker_length,) = _WORKER_LENGTH.unpack_from(message)
        at = _WORKER_LENGTH.size
        worker = message[at : at + worker_length].decode()
        at += worker_length
        (task_length,) = _TASK_LENGTH.unpack_from(message, at)
        at += _TASK_LENGTH.size
        task, result = message[at : at + task_length], message[at + task_length :]
        return Event(kind, queue, task=task, worker=worker, result=result)
    return Event(kind, queue, count=int(message.partition(b" ")[0]))
