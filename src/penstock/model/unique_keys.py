"""Unique keys of jobs as they are stored: the key, and with which jobs it is compared."""

from __future__ import annotations

import hashlib
from typing import Literal, NamedTuple

from penstock.errors import InvalidArgument
from penstock.model.names import shown

UniqueScope = Literal["type", "queue"]
_MAX_BYTES = 255
_END_OF_TYPE = "\0"
"""Ends the type in front of a key. A type has no control characters, so its end is certain."""
_MARKS: dict[UniqueScope, tuple[bytes, bytes]] = {"type": (b":", b"%"), "queue": (b"=", b"#")}
"""Scope -> what a stored key begins with: one that is stored as it is, and the digest of a longer
one.
"""


class UniqueKey(NamedTuple):
    """A stored key, opened. Of a long one there is only the digest."""

    text: str
    scope: UniqueScope


def pack_unique_key(type: str, key: str, scope: UniqueScope) -> bytes:
    """The form in which jobs are compared: equal for equal keys of one type, or, in the scope of
    the queue, of all types.
    """
    if scope not in ("type", "queue"):
        raise InvalidArgument(f"unique_scope is {shown(scope)}; give 'type' or 'queue'")
    owned = key if scope == "queue" else f"{type}{_END_OF_TYPE}{key}"
    try:
        encoded = owned.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"unique key {key!r} is not valid Unicode text (it holds a lone surrogate)"
        ) from None
    mark, mark_of_digest = _MARKS[scope]
    if len(encoded) < _MAX_BYTES:
        return mark + encoded
    return mark_of_digest + hashlib.sha256(encoded).hexdigest().encode()


def open_unique_key(stored: str) -> UniqueKey:
    """What was given when the job was sent; an empty text if it has no key."""
    mark, text = stored[:1].encode(), stored[1:]
    scope: UniqueScope = "type" if mark in _MARKS["type"] else "queue"
    if mark == _MARKS["type"][0]:
        text = text.partition(_END_OF_TYPE)[2]
    return UniqueKey(text, scope)
