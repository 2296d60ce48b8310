"""Calls a thread that waits for a connection to say something."""

from __future__ import annotations

import socket
from contextlib import suppress


class Bell:
    """Rung by any thread, and waited for together with sockets."""

    def __init__(self) -> None:
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)

    def fileno(self) -> int:
        return self._inside.fileno()

    def ring(self) -> None:
        with suppress(OSError):  # it has been rung often enough, or nobody is there any more
            self._outside.send(b"!")

    def was_rung(self) -> bool:
        """Whether somebody has rung since it was asked last."""
        try:
            return bool(self._inside.recv(4096))
        except OSError:
            return False

    def close(self) -> None:
        self._inside.close()
        self._outside.close()
