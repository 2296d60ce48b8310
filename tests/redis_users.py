"""Users of a test on the servers that tests share."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.servers import RedisCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers import RedisServer


class RedisUser:
    """A user with a name of its own, on every server of a store."""

    def __init__(self, store: RedisServer | RedisCluster) -> None:
        self._store = store
        self._nodes = store.nodes if isinstance(store, RedisCluster) else [store]
        self.name = f"test-{uuid.uuid4().hex}"
        self._command("SETUSER", self.name, "on", ">secret")

    @property
    def url(self) -> str:
        return self._store.url.replace("://", f"://{self.name}:secret@", 1)

    def set(self, *rules: str) -> None:
        self._command("SETUSER", self.name, *rules)

    def delete(self) -> None:
        self._command("DELUSER", self.name)

    def _command(self, *parts: str) -> None:
        for node in self._nodes:
            node.command("ACL", *parts)


@contextmanager
def redis_user(store: RedisServer | RedisCluster, *rules: str) -> Iterator[RedisUser]:
    """A user with these rules, as long as it is needed."""
    user = RedisUser(store)
    try:
        user.set(*rules)
        yield user
    finally:
        user.delete()
