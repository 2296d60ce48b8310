"""Which server a key lives on: the only one, the master that Sentinel names, or the owner of its
cluster slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connection._async.transport import AsyncNode
from penstock.connection.address import Address, Endpoint
from penstock.connection.wire import (
    SLOTS,
    ConnectionLost,
    NotSent,
    ReplyError,
    greeting,
    pack,
    redirection,
    sentinel_greeting,
    slot_of,
)
from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.connection.wire import Meanwhile

_MAX_REDIRECTIONS = 5


class AsyncRouter:
    """One server, named in the URL."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._greeting = greeting(address)
        self._nodes: dict[Endpoint, AsyncNode] = {}
        self._first = self._node(address.endpoints[0])

    async def exchange(
        self,
        key: str,
        packed: bytes,
        meanwhile: Meanwhile = None,
        *,
        others_first: bool = False,
    ) -> Any:
        """Send one command to where `key` lives; `meanwhile` is called while it is under way."""
        return await self._first.exchange(packed, meanwhile=meanwhile, others_first=others_first)

    async def node_for(self, key: str) -> AsyncNode:
        """The server that has `key`."""
        return self._first

    async def every_node(self) -> Iterable[AsyncNode]:
        """The servers that hold keys."""
        return [await self.node_for("")]

    async def forget(self) -> None:
        """Find out again which server has which keys: what is known may be out of date."""

    async def close(self) -> None:
        for node in self._nodes.values():
            await node.close()

    def _node(self, endpoint: Endpoint) -> AsyncNode:
        node = self._nodes.get(endpoint)
        if node is None:
            node = AsyncNode(endpoint, self.address, self._greeting, self._timeout_s)
            # Another thread may have been faster; then its node is used.
            node = self._nodes.setdefault(endpoint, node)
        return node


class AsyncSentinelRouter(AsyncRouter):
    """The master that a Sentinel names, asked again whenever the connection was lost."""

    _master: Endpoint | None = None

    async def exchange(
        self,
        key: str,
        packed: bytes,
        meanwhile: Meanwhile = None,
        *,
        others_first: bool = False,
    ) -> Any:
        node = await self.node_for(key)
        return await node.exchange(packed, meanwhile=meanwhile, others_first=others_first)

    async def node_for(self, key: str) -> AsyncNode:
        # A copy, because other threads forget the master at any time.
        master = self._master
        if master is None:
            master = self._master = await self._find_master()
        return self._node(master)

    async def forget(self) -> None:
        self._master = None

    async def _find_master(self) -> Endpoint:
        question = pack("SENTINEL", "get-master-addr-by-name", self.address.master)
        reason = "none answered"
        for endpoint in self.address.endpoints:
            greet = sentinel_greeting(self.address)
            sentinel = AsyncNode(endpoint, self.address, greet, self._timeout_s)
            try:
                answer = await sentinel.exchange(question)
            except ConnectionLost as error:
                reason = str(error)
                continue
            finally:
                await sentinel.close()
            if isinstance(answer, list):
                return Endpoint(answer[0].decode(), int(answer[1]))
            if isinstance(answer, ReplyError):
                reason = f"{endpoint} answered {str(answer)!r}"
            else:
                reason = f"{endpoint} knows no master named {self.address.master!r}"
        raise NotSent(f"no Sentinel could name the master: {reason}")


class AsyncClusterRouter(AsyncRouter):
    """The owner of the key's slot, by the cluster's own map."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        super().__init__(address, timeout_s)
        self._owners: list[Endpoint | None] = [None] * SLOTS

    async def exchange(
        self,
        key: str,
        packed: bytes,
        meanwhile: Meanwhile = None,
        *,
        others_first: bool = False,
    ) -> Any:
        node = await self.node_for(key)
        reply = await node.exchange(packed, meanwhile=meanwhile, others_first=others_first)
        for _ in range(_MAX_REDIRECTIONS):
            redirect = redirection(reply) if isinstance(reply, ReplyError) else None
            if redirect is None:
                return reply
            kind, host, port = redirect
            endpoint = Endpoint(host or node.endpoint.host, port)
            node = self._node(endpoint)
            if kind == "ASK":
                reply = await node.exchange(pack("ASKING") + packed, replies=2)
            else:
                self._owners[slot_of(key)] = endpoint
                reply = await node.exchange(packed)
        if isinstance(reply, ReplyError) and redirection(reply):
            # Nodes that do not agree yet send a client in circles.
            raise NotSent(f"{node.endpoint} answered {str(reply)!r}")
        return reply

    async def node_for(self, key: str) -> AsyncNode:
        slot = slot_of(key)
        owner = self._owners[slot] or (await self._read_map())[slot]
        if owner is None:
            raise NotSent(f"no node of the cluster owns slot {slot}")
        return self._node(owner)

    async def every_node(self) -> Iterable[AsyncNode]:
        owners = dict.fromkeys(owner for _, owner in await self._ask_for_ranges())
        return [self._node(owner) for owner in owners]

    async def forget(self) -> None:
        self._owners = [None] * SLOTS

    async def _read_map(self) -> list[Endpoint | None]:
        owners: list[Endpoint | None] = [None] * SLOTS
        for slots, owner in await self._ask_for_ranges():
            owners[slots.start : slots.stop] = [owner] * len(slots)
        self._owners = owners
        return owners

    async def _ask_for_ranges(self) -> list[tuple[range, Endpoint]]:
        """Which slots belong to which node, by the first node that answers."""
        reason = "none answered"
        for endpoint in dict.fromkeys([*self.address.endpoints, *self._nodes]):
            try:
                reply = await self._node(endpoint).exchange(pack("CLUSTER", "SLOTS"))
            except ConnectionLost as error:
                reason = str(error)
                continue
            if isinstance(reply, ReplyError):
                raise StoreError(
                    f"{endpoint} does not answer as part of a cluster ({reply}); use redis:// for "
                    "a server of its own"
                )
            return [
                (range(first, last + 1), Endpoint((host or b"").decode() or endpoint.host, port))
                for first, last, (host, port, *_), *_ in reply
            ]
        raise NotSent(f"no node of the cluster could be asked for its map: {reason}")


def async_router(address: Address, timeout_s: float) -> AsyncRouter:
    routers = {"sentinel": AsyncSentinelRouter, "cluster": AsyncClusterRouter}
    return routers.get(address.topology, AsyncRouter)(address, timeout_s)
