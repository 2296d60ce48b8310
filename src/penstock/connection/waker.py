"""Wakes a thread that waits for messages of a connection."""

from __future__ import annotations

import socket
from contextlib import suppress


class Waker:
    """Woken by any thread, and waited for together with sockets."""

    def __init__(self) -> None:
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)

    def fileno(self) -> int:
        return self._inside.fileno()

    def wake(self) -> None:
        with suppress(OSError):  # it was woken often enough, or no thread waits any more
            self._outside.send(b"!")

    def was_woken(self) -> bool:
        """Whether it was woken since this was asked last."""
        try:
            return bool(self._inside.recv(4096))
        except OSError:
            return False

    def close(self) -> None:
        self._inside.close()
        self._outside.close()
