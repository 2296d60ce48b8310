"""Connections for an event loop: one per server, any number of requests under way on it.

Written by hand, as `_sync/transport.py` is: sockets differ too much to be generated.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.connection.answers import expect_ok
from penstock.connection.wire import OTHERS_FIRST, ConnectionLost, NotSent, new_reader
from penstock.errors import WrongLoop

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock.connection.address import Address, Endpoint
    from penstock.connection.wire import Meanwhile

T = TypeVar("T")


class AsyncNode:
    """One server that requests are sent to. Replies come in the order of the requests, so one
    connection serves all.
    """

    def __init__(
        self, endpoint: Endpoint, address: Address, greeting: list[bytes], timeout_s: float
    ) -> None:
        self.endpoint = endpoint
        self._address = address
        self._greeting = greeting
        self._timeout_s = timeout_s
        self._link: _Link | None = None
        self._connecting: asyncio.Lock | None = None
        self._pid = os.getpid()

    async def exchange(
        self,
        packed: bytes,
        replies: int = 1,
        meanwhile: Meanwhile = None,
        *,
        others_first: bool = False,
    ) -> Any:
        """Send packed commands, call `meanwhile`, and return the last of their replies.

        With `others_first`, clients to which the commands publish are told before this reply comes.

        Raises ConnectionLost if not all came, NotSent if the server cannot have got them.
        """
        if others_first:
            packed, replies = OTHERS_FIRST + packed, replies + 1
        link = self._link
        if link is None or link.is_closed or self._pid != os.getpid():
            link = await self._connected()
        else:
            link.check_loop()
        reply = link.exchange(packed, replies)
        if meanwhile is not None:
            meanwhile()
        return await reply

    async def _connected(self) -> _Link:
        if self._connecting is None or self._pid != os.getpid():
            self._link = None
            self._pid = os.getpid()
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._link is None or self._link.is_closed:
                self._link = await self.connect(_Link)
            return self._link

    async def connect(self, kind: type[_Link]) -> _Link:
        """A new connection, greeted."""
        loop = asyncio.get_running_loop()
        endpoint, tls = self.endpoint, self._address.tls
        try:
            async with asyncio.timeout(self._timeout_s):
                if endpoint.path:
                    _, link = await loop.create_unix_connection(
                        lambda: kind(self._timeout_s), endpoint.path
                    )
                else:
                    host = endpoint.host if tls else None
                    _, link = await loop.create_connection(
                        lambda: kind(self._timeout_s),
                        endpoint.host,
                        endpoint.port,
                        ssl=tls,
                        server_hostname=host,
                    )
        except OSError as error:
            reason = str(error) or "timed out"
            raise NotSent(f"cannot connect to {self.endpoint}: {reason}") from error
        try:
            expect_ok([await link.exchange(packed) for packed in self._greeting], self._address)
        except BaseException as error:
            link.close()
            if isinstance(error, ConnectionLost):
                raise NotSent(f"{self.endpoint} did not greet: {error}") from error
            raise
        return link

    async def close(self) -> None:
        if self._link is not None:
            self._link.check_loop()
            self._link.close()
            await self._link.closed()


class _Link(asyncio.Protocol):
    """One socket, its parser, and the futures that wait for the next replies."""

    def __init__(self, timeout_s: float) -> None:
        self.is_closed = False
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._reader = new_reader()
        self._heard_at = 0.0
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._ended = self._loop.create_future()
        self._nobody: asyncio.Future[Any] = self._loop.create_future()
        """takes replies that no caller waits for"""
        self._nobody.set_result(None)
        self._reason = "the connection was closed"

    def check_loop(self) -> None:
        """Raises WrongLoop if another event loop is running than that of this connection."""
        if self._loop is not asyncio.get_running_loop():
            raise WrongLoop(
                "this async client was opened on another event loop, which its connections belong "
                "to; open one for each loop, inside the function that is given to asyncio.run "
                "(`async with await penstock.aconnect() as ps`), and close it there"
            )

    def exchange(self, packed: bytes, replies: int = 1) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        now = self._loop.time()
        for _ in range(replies - 1):
            self._waiting.append((self._nobody, now))
        self._waiting.append((future, now))
        if self.is_closed:
            future.set_exception(NotSent("the connection is closed"))
            return future
        self._transport.write(packed)
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._check_oldest)
        return future

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self.reply_received(reply)
        except (ConnectionLost, IndexError):
            # Not RESP, or a reply without a request: nothing after it can be trusted.
            self._transport.abort()

    def reply_received(self, reply: Any) -> None:
        future, _ = self._waiting.popleft()
        if not future.done():
            future.set_result(reply)

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True
        if self._watch is not None:
            self._watch.cancel()
        for future, _ in self._waiting:
            if not future.done():
                future.set_exception(ConnectionLost(str(error or self._reason)))
        self._waiting.clear()
        if not self._ended.done():
            self._ended.set_result(None)

    def _check_oldest(self) -> None:
        # One timer per connection, not one per request: requests are many and time-outs are few.
        self._watch = None
        if not self._waiting:
            return
        # A long reply that is on its way is not silence.
        since = max(self._waiting[0][1], self._heard_at)
        due_in_s = since + self._timeout_s - self._loop.time()
        if due_in_s <= 0:
            self._reason = "timed out"
            self._transport.abort()
        else:
            self._watch = self._loop.call_later(due_in_s, self._check_oldest)

    def close(self) -> None:
        self.is_closed = True
        self._transport.close()

    async def closed(self) -> None:
        await asyncio.shield(self._ended)


_MESSAGES = (b"message", b"smessage")


class _PushLink(_Link):
    """A connection on which the server sends messages without being asked for each."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(timeout_s)
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self.is_listening = False
        self.divert: Callable[[bytes, bytes], None] | None = None

    def reply_received(self, reply: Any) -> None:
        if self.divert is not None and type(reply) is list and reply[0] in _MESSAGES:
            self.divert(reply[1], reply[2])
        elif self.is_listening:
            self.messages.put_nowait(reply)
        else:
            super().reply_received(reply)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.messages.put_nowait(ConnectionLost(str(error or "the connection was closed")))

    def listen(self, packed: bytes) -> None:
        self.is_listening = True
        self._transport.write(packed)


class AsyncListener:
    """A connection of its own for messages that the server pushes."""

    def __init__(self, node: AsyncNode) -> None:
        self._node = node
        self._link: _PushLink | None = None

    async def open(self) -> None:
        link = await self._node.connect(_PushLink)
        assert isinstance(link, _PushLink)
        self._link = link

    async def send(self, packed: bytes) -> None:
        if self._link is None or self._link.is_closed:
            raise ConnectionLost("the subscription is not connected")
        self._link.listen(packed)

    def divert(self, deliver: Callable[[bytes, bytes], None]) -> None:
        """Call a function with each channel and message as they are read; `receive` skips them."""
        if self._link is not None:
            self._link.divert = deliver

    async def receive(self, timeout_s: float) -> Any:
        """The next message, or None if none came in time."""
        if self._link is None:
            raise ConnectionLost("the subscription is not connected")
        try:
            async with asyncio.timeout(timeout_s):
                message = await self._link.messages.get()
        except TimeoutError:
            return None
        if isinstance(message, ConnectionLost):
            raise message
        return message

    async def close(self) -> None:
        if self._link is not None:
            self._link.close()
            await self._link.closed()
            self._link = None


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def run_blocking(action: Callable[[], None]) -> None:
    """Wait for something that blocks, without blocking the loop. In a thread of its own: those of
    the loop may all be busy with what the program does there.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
        if not done.done():
            done.set_exception(error) if error else done.set_result(None)

    def run() -> None:
        error: BaseException | None = None
        try:
            action()
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the loop is closed, so nothing waits there any more
            loop.call_soon_threadsafe(tell, error)

    threading.Thread(target=run, name="penstock-aside", daemon=True).start()
    await done


class AsyncArrivals(Generic[T]):
    """Futures of another thread, in the order in which they are done. Each future reports itself,
    once, so the cost grows with their number and no faster.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Queue[Future[T]] = asyncio.Queue()

    def expect(self, future: Future[T]) -> None:
        future.add_done_callback(self._arrive)

    async def take(self, timeout_s: float | None) -> list[Future[T]]:
        """Those that are done, as soon as one is; none if time is up."""
        found = []
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                found.append(await self._done.get())
        while not self._done.empty():
            found.append(self._done.get_nowait())
        return found

    def _arrive(self, future: Future[T]) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing waits there any more
            self._loop.call_soon_threadsafe(self._done.put_nowait, future)
