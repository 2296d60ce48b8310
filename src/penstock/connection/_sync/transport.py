"""Connections for threads: blocking sockets, one request at a time on each.

Written by hand, as `_async/transport.py` is: sockets differ too much to be generated.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.connection.answers import expect_ok
from penstock.connection.wire import OTHERS_FIRST, ConnectionLost, NotSent, new_reader

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from penstock.connection.address import Address, Endpoint
    from penstock.connection.waker import Waker
    from penstock.connection.wire import Meanwhile

T = TypeVar("T")

_READ_BYTES = 65536


class Node:
    """One server that requests are sent to. Any number of threads may use it; each request has a
    connection to itself.
    """

    def __init__(
        self, endpoint: Endpoint, address: Address, greeting: list[bytes], timeout_s: float
    ) -> None:
        self.endpoint = endpoint
        self._address = address
        self._greeting = greeting
        self._timeout_s = timeout_s
        self._free: deque[_Connection] = deque()
        self._pid = os.getpid()

    def exchange(
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
        if self._pid != os.getpid():
            # The parent goes on using its sockets; a child that touched them would mix up both
            # conversations.
            inherited, self._free = self._free, deque()
            self._pid = os.getpid()
            for connection in inherited:
                connection.close()
        try:
            connection = self._free.pop()
        except IndexError:
            connection = self.connect()
        is_sent = False
        try:
            connection.socket.sendall(packed)
            is_sent = True
            if meanwhile is not None:
                meanwhile()
            reply = connection.receive(replies)
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError):
                # Without its last byte no server does it.
                lost = ConnectionLost if is_sent else NotSent
                raise lost(str(error) or type(error).__name__) from error
            raise
        if connection.reader.has_data():
            # A reply that nobody asked for would be taken for that of the next request.
            connection.close()
        else:
            self._free.append(connection)
        return reply

    def connect(self) -> _Connection:
        """A new connection, greeted."""
        try:
            connection = _Connection(self.endpoint, self._address, self._timeout_s)
        except OSError as error:
            raise NotSent(f"cannot connect to {self.endpoint}: {error}") from error
        try:
            for packed in self._greeting:
                connection.send(packed)
            expect_ok([connection.receive() for _ in self._greeting], self._address)
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError | ConnectionLost):
                raise NotSent(f"{self.endpoint} did not greet: {error}") from error
            raise
        return connection

    def close(self) -> None:
        with suppress(IndexError):  # asked in one step, as others may close it too
            while True:
                self._free.pop().close()


class _Connection:
    """One socket and its parser."""

    def __init__(self, endpoint: Endpoint, address: Address, timeout_s: float) -> None:
        if endpoint.path:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout_s)
            self._open(lambda: self.socket.connect(endpoint.path))
        else:
            place = (endpoint.host, endpoint.port)
            tls = address.tls
            self.socket = socket.create_connection(place, timeout_s)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if tls:
                self._open(lambda: self._secure(tls, endpoint.host))
        self.reader = new_reader()
        self._buffer = bytearray(_READ_BYTES)  # a new one for each read costs more than the read
        self._pending = getattr(self.socket, "pending", None)
        """how much TLS holds that poll cannot see"""
        self._ready: select.poll | None = None
        """says whether there is something to read, or the waker was woken"""
        self._file = -1

    def send(self, packed: bytes) -> None:
        self.socket.sendall(packed)

    def receive(self, replies: int = 1) -> Any:
        """The last of so many replies."""
        reader = self.reader
        while True:
            while (reply := reader.gets()) is False:
                self._read()
            replies -= 1
            if replies <= 0:
                return reply

    def receive_within(self, timeout_s: float) -> Any:
        """The next message, or None if none came in time."""
        deadline = time.monotonic() + timeout_s
        reader = self.reader
        while (reply := reader.gets()) is False:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            self.socket.settimeout(left_s)
            try:
                self._read()
            except TimeoutError:
                return None
        return reply

    def receive_unless(self, waker: Waker, timeout_s: float) -> Any:
        """The next message, or None if none came in time or the waker was woken."""
        reader, pending, deadline = self.reader, self._pending, 0.0
        while (reply := reader.gets()) is False:
            if pending is None or not pending():
                if self._ready is None:
                    self._ready = select.poll()  # select() cannot see descriptors above 1023
                    self._ready.register(self.socket, select.POLLIN)
                    self._ready.register(waker, select.POLLIN)
                    self._file = self.socket.fileno()
                if not deadline:
                    deadline = time.monotonic() + timeout_s
                else:  # only a part of a message has come
                    timeout_s = deadline - time.monotonic()
                said = self._ready.poll(1000 * timeout_s if timeout_s > 0 else 0)
                # The first of those that have something to say is the socket, if it has.
                if not said or said[0][0] != self._file:
                    return None
            self._read()
        return reply

    def _read(self) -> None:
        """Take what has come, at least something."""
        size = self.socket.recv_into(self._buffer)
        if not size:
            raise ConnectionLost("the server closed the connection")
        self.reader.feed(self._buffer, 0, size)

    def close(self) -> None:
        self.socket.close()

    def _open(self, step: Any) -> None:
        try:
            step()
        except BaseException:
            self.socket.close()
            raise

    def _secure(self, tls: Any, host: str) -> None:
        self.socket = tls.wrap_socket(self.socket, server_hostname=host)


class Listener:
    """A connection of its own for messages that the server pushes."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._connection: _Connection | None = None

    def open(self) -> None:
        self._connection = self._node.connect()

    def send(self, packed: bytes) -> None:
        try:
            self._opened().send(packed)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def receive(self, timeout_s: float) -> Any:
        """The next message, or None if none came in time."""
        try:
            return self._opened().receive_within(timeout_s)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def receive_unless(self, waker: Waker, timeout_s: float) -> Any:
        """The next message, or None if none came in time or the waker was woken."""
        try:
            return (self._connection or self._opened()).receive_unless(waker, timeout_s)
        except OSError as error:
            raise ConnectionLost(str(error)) from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _opened(self) -> _Connection:
        if self._connection is None:
            raise ConnectionLost("the subscription is not connected")
        return self._connection


def pause(seconds: float) -> None:
    time.sleep(seconds)


def run_blocking(action: Callable[[], None]) -> None:
    action()


class Arrivals(Generic[T]):
    """Futures of another thread, in the order in which they are done. Each says so itself, once, so
    the cost of many grows with their number and no faster.
    """

    # Not a SimpleQueue: if its time is up before it has begun to wait, which takes a moment on a
    # busy machine, its get(timeout=...) waits for ever (CPython 3.11).

    def __init__(self) -> None:
        self._done: deque[Future[T]] = deque()
        self._is_some = threading.Lock()
        """released when one has come since they were last taken"""
        self._is_some.acquire()

    def expect(self, future: Future[T]) -> None:
        future.add_done_callback(self._came)

    def take(self, timeout_s: float | None) -> list[Future[T]]:
        """Those that are done, as soon as one is; none if time is up."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._done:
            left_s = -1.0
            if deadline is not None:
                left_s = min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
            if not self._is_some.acquire(timeout=left_s):
                break
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._done.popleft())
        return found

    def _came(self, future: Future[T]) -> None:
        self._done.append(future)
        with suppress(RuntimeError):  # it is known already
            self._is_some.release()
