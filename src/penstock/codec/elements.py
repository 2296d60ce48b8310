"""Tasks as elements of the ready list, as `scripts/fragments/element.lua` has them."""

from __future__ import annotations

import struct

TAG = b"\x00\xffpenstock\xff"
_KEY_LENGTH = struct.Struct(">H")
_HOLDER_BYTES = 8


def plain_element(task: bytes) -> bytes:
    """The task itself, byte for byte, unless it happens to begin with the tag of a unique one."""
    return TAG + _KEY_LENGTH.pack(0) + task if task.startswith(TAG) else task


def task_of(element: bytes) -> bytes:
    """The task as it was put in."""
    if not element.startswith(TAG):
        return element
    (key_length,) = _KEY_LENGTH.unpack_from(element, len(TAG))
    start = len(TAG) + _KEY_LENGTH.size
    return element[start + key_length + _HOLDER_BYTES :] if key_length else element[start:]
