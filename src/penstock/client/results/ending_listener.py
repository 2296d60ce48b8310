"""A connection on which Redis tells how jobs end."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from penstock.connection.answers import is_passing, store_error
from penstock.connection.transport import Listener
from penstock.connection.wire import ConnectionLost, ReplyError, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connection.store import Store
    from penstock.connection.waker import Waker

_BATCH = 200


class EndingListener:
    """One connection, from when it is opened until it is lost: opens and closes channels on it."""

    def __init__(self, store: Store, key: str, is_sharded: bool) -> None:
        """Connect to the server that has `key`. Raises ConnectionLost."""
        self._address = store.address
        self._words = ("SSUBSCRIBE", "SUNSUBSCRIBE") if is_sharded else ("SUBSCRIBE", "UNSUBSCRIBE")
        self._listener = Listener(store.router.node_for(key))
        self._listener.open()
        self.asked: Counter[str] = Counter()
        """how often each channel was to be opened"""
        self.confirmed: Counter[str] = Counter()
        """how often the server said of each channel that it is open"""
        self._leaving: Counter[str] = Counter()
        """channels that are about to be closed"""
        self._heard_at = time.monotonic()
        self._is_pinged = False

    def open_channels(self, names: Sequence[str]) -> None:
        for first in range(0, len(names), _BATCH):
            self._listener.send(pack(self._words[0], *names[first : first + _BATCH]))

    def close_channels(self, names: Sequence[str]) -> None:
        if names:
            self._leaving.update(names)
            self._listener.send(pack(self._words[1], *names))

    def receive_unless(
        self, waker: Waker, wait_s: float
    ) -> list[bytes] | bytes | ReplyError | None:
        """The next message, or None if none came in time or the waker was called."""
        message: list[bytes] | bytes | ReplyError | None
        message = self._listener.receive_unless(waker, wait_s)
        if message is not None:
            self._heard_at, self._is_pinged = time.monotonic(), False
        return message

    def find_confirmed(self, message: list[bytes] | bytes | ReplyError) -> str | None:
        """The channel that is open, if a message says so.

        Raises ConnectionLost if a channel is no longer told here.
        """
        if isinstance(message, ReplyError):
            if str(message).startswith("MOVED") or is_passing(message):
                raise ConnectionLost(str(message))
            raise store_error(message, self._address)
        if not isinstance(message, list):
            return None  # a PONG, as it comes before the first channel is open
        word, name = message[0], message[1].decode(errors="replace")
        if word in (b"subscribe", b"ssubscribe"):
            self.confirmed[name] += 1
            return name
        if word in (b"unsubscribe", b"sunsubscribe"):
            if name not in self._leaving:
                raise ConnectionLost("the channel has moved to another node")
            self._leaving -= Counter([name])
        return None

    def break_silence(self, now: float, silence_s: float) -> float:
        """Send a PING if the server has said nothing for `silence_s`; returns when it will have
        been silent for so long. Raises ConnectionLost if the last PING was not answered either.
        """
        if now >= self._heard_at + silence_s:
            if self._is_pinged:
                raise ConnectionLost("the server is silent")
            self._heard_at, self._is_pinged = now, True
            self._listener.send(pack("PING"))
        return self._heard_at + silence_s

    def close(self) -> None:
        self._listener.close()
