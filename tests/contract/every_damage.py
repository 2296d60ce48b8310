"""Every damage that can be done to a key by deleting it, or by writing something else into it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Damage = Callable[[], object]

PHANTOM = b"phantom \xff\0"
"""What no script writes anywhere, and what is no text, number or id."""

SNAPSHOT = """
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  found[#found + 1] = key
  found[#found + 1] = redis.call('DUMP', key)
  found[#found + 1] = redis.call('PTTL', key)
end
return found
"""


class Saved:
    """All keys of a namespace, to be brought back after each damage."""

    def __init__(self, client: Any, pattern: str) -> None:
        self._client = client
        self._pattern = pattern
        found = client.eval(SNAPSHOT, 0, pattern)
        self._values = list(zip(found[::3], found[1::3], found[2::3], strict=True))

    def restore(self) -> None:
        pipeline = self._client.pipeline()
        for key in self._client.keys(self._pattern):
            pipeline.delete(key)
        for key, value, ttl_ms in self._values:
            pipeline.restore(key, max(0, ttl_ms), value)
        pipeline.execute()


def damages(client: Any, key: bytes) -> Iterator[tuple[str, Damage]]:
    """What can be done to a key that exists: its name, and what does it."""
    yield "deleted", lambda: client.delete(key)
    match client.type(key):
        case b"hash":
            yield from _hash(client, key)
        case b"zset":
            yield "phantom", lambda: client.zadd(key, {PHANTOM: 5})
        case b"set":
            yield "phantom", lambda: client.sadd(key, PHANTOM)
        case b"list":
            yield "phantom", lambda: client.rpush(key, PHANTOM)
            yield "phantom first", lambda: client.lpush(key, PHANTOM)
        case b"string":
            yield "garbage", lambda: client.set(key, PHANTOM, keepttl=True)
        case b"stream":
            yield "phantom", lambda: client.xadd(key, {"phantom": PHANTOM})


def _hash(client: Any, key: bytes) -> Iterator[tuple[str, Damage]]:
    yield "phantom", lambda: client.hset(key, PHANTOM, PHANTOM)
    for field in sorted(client.hkeys(key)):
        name = field.decode(errors="backslashreplace")
        yield f"{name} deleted", partial(client.hdel, key, field)
        yield f"{name} emptied", partial(client.hset, key, field, b"")
        yield f"{name} garbage", partial(client.hset, key, field, PHANTOM)
