"""What a worker and its child processes say to each other.

A message is a JSON header and raw bytes, each behind its length. Nothing in it is ever executed on
arrival, as a pickle would be.
"""

from __future__ import annotations

import json
import struct
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import socket

_SIZES = struct.Struct(">IQ")
_CHUNK = 256 * 1024
_MAX_HEADER = 16 * 1024 * 1024


class Message(NamedTuple):
    kind: str
    header: dict[str, Any]
    body: bytes


class Pipe:
    """One end of a pair of sockets. Any thread may send; one thread receives."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._received = bytearray()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: str, body: bytes = b"", **header: Any) -> None:
        """Raises OSError if the other end is gone, or does not read within the socket's timeout;
        TypeError or ValueError if the header cannot be sent.
        """
        head = json.dumps({"kind": kind, **header}).encode()
        if len(head) > _MAX_HEADER:
            raise ValueError(f"{len(head)} bytes are too many, the most is {_MAX_HEADER}")
        with self._sending:
            self._socket.sendall(_SIZES.pack(len(head), len(body)) + head + body)

    def receive(self) -> list[Message]:
        """Wait for bytes, and return the messages that they complete, if any.

        Raises EOFError at the end, OSError if the socket is broken or has nothing yet and must not
        wait, and ValueError if the other end sends something that is no message.
        """
        chunk = self._socket.recv(_CHUNK)
        if not chunk:
            raise EOFError
        self._received += chunk
        messages: list[Message] = []
        while message := self._take():
            messages.append(message)
        return messages

    def close(self) -> None:
        self._socket.close()

    def _take(self) -> Message | None:
        received = self._received
        if len(received) < _SIZES.size:
            return None
        head, body = _SIZES.unpack_from(received)
        if head > _MAX_HEADER:
            raise ValueError(f"a header of {head} bytes")
        begin, end = _SIZES.size + head, _SIZES.size + head + body
        if len(received) < end:
            return None
        header = json.loads(received[_SIZES.size : begin])
        message = Message(header.pop("kind"), header, bytes(received[begin:end]))
        del received[:end]
        return message
