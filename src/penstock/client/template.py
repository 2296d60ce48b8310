"""A command packed once, with holes for what differs from one request to the next.

Putting the dozen parts of a command together is most of what a client spends on adding one task;
this leaves three of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.codec.elements import plain_element
from penstock.store.command import Command, Operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from penstock.store.command import Argument

# Values that no real request has, to find the places by.
_LANE = "\0lane"
_NUMBER = -1
_TASK = b"\0task"


class TaskTemplate:
    """A numbered command with one task: the same but for lane, number and task."""

    def __init__(self, build: Callable[[Operation, bytes], Command[Any]], digest: str) -> None:
        command = build(Operation(_LANE, _NUMBER), _TASK)
        self.key = command.keys[0]
        parts: tuple[Argument, ...] = ("EVALSHA", digest, len(command.keys))
        parts += (*command.keys, *command.arguments)
        holes = [part for part in parts if part in (self.key, _NUMBER, _TASK)]
        assert holes == [self.key, _NUMBER, _TASK], "the command is not of this form"
        self._format = b"*%d\r\n" % len(parts) + b"".join(
            b"$%d\r\n%b\r\n" if part in holes else _constant(part) for part in parts
        )
        self._memories: dict[str, bytes] = {}

    def fill(self, lane: str, number: int, task: bytes) -> bytes:
        """The whole command as it goes over the wire."""
        memory = self._memories.get(lane)
        if memory is None:
            memory = self._memories[lane] = self.key.replace(_LANE, lane).encode()
        count = b"%d" % number
        task = plain_element(task)
        return self._format % (len(memory), memory, len(count), count, len(task), task)


def _constant(part: Argument) -> bytes:
    data = part if isinstance(part, bytes) else str(part).encode()
    return (b"$%d\r\n%b\r\n" % (len(data), data)).replace(b"%", b"%%")
