"""Tasks as elements of the ready list, as `scripts/fragments/tasks/element.lua` has them."""

from __future__ import annotations

import hashlib
import struct

from penstock.model.snapshot import Element

TAG = b"\x00\xffpenstock\xff"
_KEY_LENGTH = struct.Struct(">H")
HOLDER_BYTES = 8


def plain_element(task: bytes) -> bytes:
    """The task itself, byte for byte, unless it happens to begin with the tag of a unique one."""
    return TAG + _KEY_LENGTH.pack(0) + task if task.startswith(TAG) else task


def task_of(element: bytes) -> bytes:
    """The task as it was put in."""
    return open_element(element).task if element.startswith(TAG) else element


def open_element(element: bytes) -> Element:
    """Everything an element says."""
    digest = hashlib.sha1(element, usedforsecurity=False).hexdigest()
    if not element.startswith(TAG):
        return Element(digest, element)
    (key_length,) = _KEY_LENGTH.unpack_from(element, len(TAG))
    key_start = len(TAG) + _KEY_LENGTH.size
    if not key_length:
        return Element(digest, element[key_start:])
    holder_start = key_start + key_length
    task_start = holder_start + HOLDER_BYTES
    key, holder = element[key_start:holder_start], element[holder_start:task_start]
    return Element(digest, element[task_start:], key, holder)


def open_unique(value: bytes) -> tuple[bytes, bytes]:
    """Holder and task, from a value of the table of unique keys."""
    return value[:HOLDER_BYTES], value[HOLDER_BYTES:]
