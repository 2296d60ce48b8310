"""Messages that the server pushes, over a connection that is renewed by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.connection._async.transport import AsyncListener, pause
from penstock.connection.answers import is_passing, store_error
from penstock.connection.retry import Patience
from penstock.connection.wire import ConnectionLost, ReplyError, pack
from penstock.store.script import CLUSTER

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

    from penstock.connection._async.store import AsyncStore

E = TypeVar("E")

_SILENCE_S = 15.0


class AsyncSubscription:
    """Channels of one queue, or of any number of queues on a server of its own.

    Messages sent while the connection is down are missed. A caller that must not miss anything
    looks for itself each time that `receive` says that the subscription is new.
    """

    def __init__(self, store: AsyncStore, key: str, channels: Sequence[str]) -> None:
        self._store = store
        self._key = key
        self._channels = list(channels)
        self._listener: AsyncListener | None = None
        self._is_pinged = False
        is_sharded = store.dialect.channels == CLUSTER.channels
        self._subscribe = "SSUBSCRIBE" if is_sharded else "SUBSCRIBE"

    async def receive(self, timeout_s: float = _SILENCE_S) -> tuple[str, bytes] | None:
        """The next message as (channel, message).

        ("", b"") says that the subscription has just been made, or made again. None: nothing came
        within `timeout_s`. Never raises for a lost connection; it connects again, for as long as it
        takes.
        """
        try:
            if self._listener is None:
                await self._open()
                return "", b""
            return await self._next(timeout_s)
        except ConnectionLost:
            await self.close()
            await self._store.router.forget()
            await self._reopen()
            return "", b""

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None

    async def _next(self, timeout_s: float = _SILENCE_S) -> tuple[str, bytes] | None:
        while (message := await self._hear(timeout_s)) is not None:
            self._is_pinged = False
            if isinstance(message, ReplyError):
                raise ConnectionLost(str(message))
            if message[0] in (b"message", b"smessage"):
                return message[1].decode(), message[2]
            if message[0] == b"sunsubscribe":
                raise ConnectionLost("the channel has moved to another node")
        if self._is_pinged:
            raise ConnectionLost("the server is silent")
        # A connection can be dead without an error; to send something is the only way to find out.
        self._is_pinged = True
        await self._opened().send(pack("PING"))
        return None

    async def _hear(self, timeout_s: float) -> Any:
        return await self._opened().receive(timeout_s)

    def _opened(self) -> AsyncListener:
        assert self._listener is not None
        return self._listener

    async def _open(self) -> None:
        listener = AsyncListener(await self._store.router.node_for(self._key))
        await listener.open()
        self._listener = listener
        self._is_pinged = False
        await listener.send(pack(self._subscribe, *self._channels))
        for _ in self._channels:
            answer = await listener.receive(_SILENCE_S)
            if answer is None:
                raise ConnectionLost("the server does not confirm the subscription")
            if isinstance(answer, ReplyError):
                if str(answer).startswith("MOVED") or is_passing(answer):
                    raise ConnectionLost(str(answer))
                raise store_error(answer, self._store.address)

    async def _reopen(self) -> None:
        patience = Patience(None)
        while True:
            try:
                await self._open()
                return
            except ConnectionLost:
                await self.close()
                await self._store.router.forget()
                await pause(patience.next_wait_s() or 0)


async def listen(
    subscription: AsyncSubscription,
    read: Callable[[str, bytes], E | None],
    timeout_s: float | None,
) -> AsyncGenerator[E, None]:
    """What `read` makes of each message from now on (of a channel), without the Nones; ends when
    nothing else comes for `timeout_s`.

    The subscription has been made when this returns, and goes when the generator does.
    """
    heard = _heard(subscription, read, timeout_s)
    await anext(heard)
    return heard


async def _heard(
    subscription: AsyncSubscription,
    read: Callable[[str, bytes], E | None],
    timeout_s: float | None,
) -> AsyncGenerator[Any, None]:
    """As above, but first of all it says that the subscription has been made."""
    try:
        await subscription.receive()
        yield None
        since = time.monotonic()
        while True:
            left_s = _SILENCE_S if timeout_s is None else since + timeout_s - time.monotonic()
            message = await subscription.receive(max(left_s, 0.0))
            event = read(*message) if message is not None and message[0] else None
            if event is not None:
                yield event
                since = time.monotonic()
            elif timeout_s is not None and (message is None or left_s <= 0):
                return
    finally:
        await subscription.close()
