"""Which server a key lives on: the only one, the master that Sentinel names, or the owner of its
cluster slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connection._async.transport import AsyncChannel
from penstock.connection.address import Address, Endpoint
from penstock.connection.wire import (
    SLOTS,
    ConnectionLost,
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
        self._channels: dict[Endpoint, AsyncChannel] = {}
        self._first = self._channel(address.endpoints[0])

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

    async def channel_for(self, key: str) -> AsyncChannel:
        return self._first

    async def every_channel(self) -> Iterable[AsyncChannel]:
        """One channel per server that holds keys."""
        return [await self.channel_for("")]

    async def forget(self) -> None:
        """What was known about who is where may be out of date."""

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()

    def _channel(self, endpoint: Endpoint) -> AsyncChannel:
        channel = self._channels.get(endpoint)
        if channel is None:
            channel = AsyncChannel(endpoint, self.address, self._greeting, self._timeout_s)
            # Another thread may have been faster; then its channel is the one.
            channel = self._channels.setdefault(endpoint, channel)
        return channel


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
        channel = await self.channel_for(key)
        return await channel.exchange(packed, meanwhile=meanwhile, others_first=others_first)

    async def channel_for(self, key: str) -> AsyncChannel:
        # A copy, because other threads forget the master at any time.
        master = self._master
        if master is None:
            master = self._master = await self._find_master()
        return self._channel(master)

    async def forget(self) -> None:
        self._master = None

    async def _find_master(self) -> Endpoint:
        question = pack("SENTINEL", "get-master-addr-by-name", self.address.master)
        reason = "none answered"
        for endpoint in self.address.endpoints:
            greet = sentinel_greeting(self.address)
            sentinel = AsyncChannel(endpoint, self.address, greet, self._timeout_s)
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
        raise ConnectionLost(f"no Sentinel could name the master: {reason}")


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
        channel = await self.channel_for(key)
        reply = await channel.exchange(packed, meanwhile=meanwhile, others_first=others_first)
        for _ in range(_MAX_REDIRECTIONS):
            redirect = redirection(reply) if isinstance(reply, ReplyError) else None
            if redirect is None:
                return reply
            kind, host, port = redirect
            endpoint = Endpoint(host or channel.endpoint.host, port)
            channel = self._channel(endpoint)
            if kind == "ASK":
                reply = await channel.exchange(pack("ASKING") + packed, replies=2)
            else:
                self._owners[slot_of(key)] = endpoint
                reply = await channel.exchange(packed)
        if isinstance(reply, ReplyError) and redirection(reply):
            # Nodes that do not agree yet send one in circles.
            raise ConnectionLost(f"{channel.endpoint} answered {str(reply)!r}")
        return reply

    async def channel_for(self, key: str) -> AsyncChannel:
        slot = slot_of(key)
        owner = self._owners[slot] or (await self._read_map())[slot]
        if owner is None:
            raise ConnectionLost(f"no node of the cluster owns slot {slot}")
        return self._channel(owner)

    async def every_channel(self) -> Iterable[AsyncChannel]:
        owners = dict.fromkeys(owner for _, owner in await self._ask_for_ranges())
        return [self._channel(owner) for owner in owners]

    async def forget(self) -> None:
        self._owners = [None] * SLOTS

    async def _read_map(self) -> list[Endpoint | None]:
        owners: list[Endpoint | None] = [None] * SLOTS
        for slots, owner in await self._ask_for_ranges():
            owners[slots.start : slots.stop] = [owner] * len(slots)
        self._owners = owners
        return owners

    async def _ask_for_ranges(self) -> list[tuple[range, Endpoint]]:
        """Which slots belong to whom, by the first node that answers."""
        reason = "none answered"
        for endpoint in dict.fromkeys([*self.address.endpoints, *self._channels]):
            try:
                reply = await self._channel(endpoint).exchange(pack("CLUSTER", "SLOTS"))
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
        raise ConnectionLost(f"no node of the cluster could be asked for its map: {reason}")


def async_router(address: Address, timeout_s: float) -> AsyncRouter:
    routers = {"sentinel": AsyncSentinelRouter, "cluster": AsyncClusterRouter}
    return routers.get(address.topology, AsyncRouter)(address, timeout_s)
