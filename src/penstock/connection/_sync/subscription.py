# Generated from _async/subscription.py by tools/generate_sync.py. Edit that file instead.

"""Messages that the server pushes, over a connection that is renewed by itself."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.connection._sync.transport import Listener, pause
from penstock.connection.answers import is_passing, store_error
from penstock.connection.retry import Patience
from penstock.connection.wire import ConnectionLost, ReplyError, pack
from penstock.store.script import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from penstock.connection._sync.store import Store

E = TypeVar("E")

_SILENCE_S = 15.0


class Subscription:
    """Channels of one queue, or of any number of queues on a server of its own.

    Messages sent while the connection is down are missed. A caller that must not miss anything
    looks for itself each time that `receive` says that the subscription is new.
    """

    def __init__(self, store: Store, key: str, channels: Sequence[str]) -> None:
        self._store = store
        self._key = key
        self._channels = list(channels)
        self._listener: Listener | None = None
        self._is_pinged = False
        is_sharded = store.dialect.channels == CLUSTER.channels
        self._subscribe = "SSUBSCRIBE" if is_sharded else "SUBSCRIBE"

    def receive(self, timeout_s: float = _SILENCE_S) -> tuple[str, bytes] | None:
        """The next message as (channel, message).

        ("", b"") says that the subscription has just been made, or made again. None: nothing came
        within `timeout_s`. Never raises for a lost connection; it connects again, for as long as it
        takes.
        """
        try:
            if self._listener is None:
                self._open()
                return "", b""
            return self._next(timeout_s)
        except ConnectionLost:
            self.close()
            self._store.router.forget()
            self._reopen()
            return "", b""

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _next(self, timeout_s: float = _SILENCE_S) -> tuple[str, bytes] | None:
        while (message := self._hear(timeout_s)) is not None:
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
        self._opened().send(pack("PING"))
        return None

    def _hear(self, timeout_s: float) -> Any:
        return self._opened().receive(timeout_s)

    def _opened(self) -> Listener:
        assert self._listener is not None
        return self._listener

    def _open(self) -> None:
        listener = Listener(self._store.router.node_for(self._key))
        listener.open()
        self._listener = listener
        self._is_pinged = False
        listener.send(pack(self._subscribe, *self._channels))
        for _ in self._channels:
            answer = listener.receive(_SILENCE_S)
            if answer is None:
                raise ConnectionLost("the server does not confirm the subscription")
            if isinstance(answer, ReplyError):
                if str(answer).startswith("MOVED") or is_passing(answer):
                    raise ConnectionLost(str(answer))
                raise store_error(answer, self._store.address)

    def _reopen(self) -> None:
        patience = Patience(None)
        while True:
            try:
                self._open()
                return
            except ConnectionLost:
                self.close()
                self._store.router.forget()
                pause(patience.next_wait_s() or 0)


def listen(
    subscription: Subscription,
    read: Callable[[str, bytes], E | None],
    timeout_s: float | None,
) -> Generator[E, None, None]:
    """What `read` makes of each message from now on (of a channel), without the Nones; ends when
    nothing else comes for `timeout_s`.

    The subscription has been made when this returns, and goes when the generator does.
    """
    heard = _heard(subscription, read, timeout_s)
    next(heard)
    return heard


def _heard(
    subscription: Subscription,
    read: Callable[[str, bytes], E | None],
    timeout_s: float | None,
) -> Generator[Any, None, None]:
    """As above, but first of all it says that the subscription has been made."""
    try:
        subscription.receive()
        yield None
        since = time.monotonic()
        while True:
            left_s = _SILENCE_S if timeout_s is None else since + timeout_s - time.monotonic()
            message = subscription.receive(max(left_s, 0.0))
            event = read(*message) if message is not None and message[0] else None
            if event is not None:
                yield event
                since = time.monotonic()
            elif timeout_s is not None and (message is None or left_s <= 0):
                return
    finally:
        subscription.close()
