"""Chunks of staged tasks and jobs: arrays of strings in MessagePack, which scripts can open.

Every string has a header of the same length, so that many can be packed at once, column by column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

EMPTY = b"\xa0"
"""a string without bytes"""
STRING = b"\xdb"
"""begins any other string; its length follows in four bytes"""


def array_header(length: int) -> bytes:
    """What comes before the strings of a chunk."""
    return b"\xdd" + length.to_bytes(4)


def pack_string(value: bytes) -> bytes:
    return STRING + len(value).to_bytes(4) + value


def pack_chunk(values: Iterable[bytes]) -> bytes:
    """A chunk with these strings."""
    packed = [pack_string(value) for value in values]
    return array_header(len(packed)) + b"".join(packed)
