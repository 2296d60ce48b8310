"""What a namespace holds, read back with a plain client."""

from __future__ import annotations

from typing import Any

from tests.servers import RedisCluster, RedisServer

Entry = tuple[bytes, dict[bytes, bytes]]
Value = bytes | list[bytes] | set[bytes] | dict[bytes, bytes] | dict[bytes, float] | list[Entry]


class Stored:
    """Every key of one namespace, on a server of its own or on a cluster."""

    def __init__(self, store: RedisServer | RedisCluster, namespace: str) -> None:
        servers = store.nodes if isinstance(store, RedisCluster) else [store]
        self._clients: list[Any] = [server.client for server in servers]
        self._pattern = f"{{{namespace}*"

    def everything(self) -> dict[str, Value]:
        """Key -> value."""
        found: dict[str, Value] = {}
        for client in self._clients:
            keys = list(client.scan_iter(self._pattern, count=10_000))
            found.update(zip((key.decode() for key in keys), _values(client, keys), strict=True))
        return found

    def types(self) -> dict[str, str]:
        """Key -> its type."""
        return {
            key.decode(): client.type(key).decode()
            for client in self._clients
            for key in client.scan_iter(self._pattern, count=10_000)
        }

    def on_each_server(self, *command: str) -> None:
        for client in self._clients:
            client.execute_command(*command)

    def __getitem__(self, key: str) -> Value:
        return self.everything()[key]

    def __contains__(self, key: str) -> bool:
        return key in self.everything()

    def hash(self, key: str) -> dict[bytes, bytes]:
        """A hash that is there; KeyError if it is not."""
        value = self[key]
        assert isinstance(value, dict)
        return {field: entry for field, entry in value.items() if isinstance(entry, bytes)}


def part_of(key: str) -> str:
    """What the headers of the scripts call a key: `{ns:queue}:running:w1` is `running`."""
    return key.split("}:")[1].split(":", maxsplit=1)[0]


def _values(client: Any, keys: list[bytes]) -> list[Value]:
    """The value of each key, in two round trips."""
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.type(key)
    types = pipeline.execute()
    for key, kind in zip(keys, types, strict=True):
        match kind:
            case b"string":
                pipeline.get(key)
            case b"list":
                pipeline.lrange(key, 0, -1)
            case b"hash":
                pipeline.hgetall(key)
            case b"set":
                pipeline.smembers(key)
            case b"stream":
                pipeline.xrange(key)
            case _:
                pipeline.zrange(key, 0, -1, withscores=True)
    found = zip(types, pipeline.execute(), strict=True)
    return [dict(value) if kind == b"zset" else value for kind, value in found]
