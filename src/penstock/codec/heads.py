"""What the scripts need to know of a job, packed into the head that its record begins with."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.codec.forms import HEAD, HEAD_FLAGS, PARTS

if TYPE_CHECKING:
    from penstock.model.job_options import JobOptions

_UNIQUE_FLAGS = {
    "queued": HEAD_FLAGS["unique_queued"],
    "done": HEAD_FLAGS["unique_until_done"],
    "window": HEAD_FLAGS["unique_window"],
    "scheduled": HEAD_FLAGS["unique_scheduled"],
}
_PARTS = tuple(
    (part.flag, part.field, part.usual.encode() if isinstance(part.usual, str) else part.usual)
    for part in PARTS
)
"""Flag, field, and the usual value, which is left out."""
_CAUSE = PARTS[-1]
_FLAGS_SIZE = HEAD.fields[0].size


class Head(NamedTuple):
    """A head, opened."""

    flags: int
    priority: int
    attempts: int
    timeout_ms: int
    expires_ms: int
    type: str
    tenant: str
    key: str
    unique: str
    backoff: str
    tags: tuple[str, ...]
    words: tuple[str, ...]


@lru_cache(maxsize=4096)
def pack_head(options: JobOptions, words: tuple[str, ...] = ()) -> bytes:
    """The head of a job with these options. Cached, as most jobs have the options of others."""
    flags = _UNIQUE_FLAGS.get(options.unique_mode, 0)
    flags |= 0 if options.is_kept else HEAD_FLAGS["forget_when_done"]
    flags |= HEAD_FLAGS["at_most_once"] if options.is_at_most_once else 0
    values: dict[str, int | bytes] = {
        "priority": options.priority,
        "attempts": options.attempts,
        "timeout_ms": options.timeout_ms,
        "expires_ms": options.expires_ms,
        "tenant": options.tenant.encode(),
        "key": options.key.encode(),
        "unique": options.unique,
        "backoff": options.backoff.encode(),
        "tags": b"\0".join(tag.encode() for tag in options.tags),
        "words": b"\0".join(word.encode() for word in words),
    }
    parts = []
    for flag, field, usual in _PARTS:
        value = values.get(field.name, usual)
        if value != usual:
            flags |= flag
            parts.append(field.pack(value))
    return HEAD.pack(flags=flags, type=options.type.encode(), parts=b"".join(parts))


def with_cause(head: bytes, cause: bytes) -> bytes:
    """The same head for one job alone: `cause` tells what it is sent for, and comes last."""
    flags = int.from_bytes(head[:_FLAGS_SIZE]) | _CAUSE.flag
    return flags.to_bytes(_FLAGS_SIZE) + head[_FLAGS_SIZE:] + _CAUSE.field.pack(cause)


@lru_cache(maxsize=4096)
def open_head(head: bytes) -> Head:
    found = HEAD.open(head)
    flags, text, at = found["flags"], found["parts"], 0
    values: dict[str, Any] = {}
    for flag, field, usual in _PARTS:
        value: Any = usual
        if flags & flag:
            value, at = field.open(text, at)
        values[field.name] = value.decode(errors="replace") if field.is_text else value
    tags, words = values["tags"], values["words"]
    return Head(
        flags=flags,
        priority=values["priority"],
        attempts=values["attempts"],
        timeout_ms=values["timeout_ms"],
        expires_ms=values["expires_ms"],
        type=found["type"].decode(errors="replace"),
        tenant=values["tenant"],
        key=values["key"],
        unique=values["unique"],
        backoff=values["backoff"],
        tags=tuple(tags.split("\0")) if tags else (),
        words=tuple(words.split("\0")) if words else (),
    )
