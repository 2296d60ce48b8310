"""Messages of a partition on their way to a child process: as they are stored, with their bytes."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

from penstock.model.logs import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

_LENGTH = struct.Struct(">I")


def pack_messages(messages: Sequence[Message]) -> bytes:
    """Messages of one partition. In front stands how long each of their fields is."""
    all_parts = [message.parts for message in messages]
    lengths = [[len(part) for part in parts] for parts in all_parts]
    partition = messages[0].partition if messages else 0
    head = json.dumps([partition, lengths]).encode()
    return b"".join([_LENGTH.pack(len(head)), head, *(p for parts in all_parts for p in parts)])


def unpack_messages(data: bytes) -> list[Message]:
    """Raises ValueError or struct.error for bytes that `pack_messages` has not made."""
    [head_length] = _LENGTH.unpack_from(data)
    at = _LENGTH.size + head_length
    partition, lengths = json.loads(data[_LENGTH.size : at])
    messages: list[Message] = []
    for of_message in lengths:
        parts: list[bytes] = []
        for length in of_message:
            parts.append(data[at : at + length])
            at += length
        messages.append(Message(partition, parts[0], parts[1:]))
    return messages
