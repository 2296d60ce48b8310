"""A command packed once, with holes for what differs from one request to the next.

Putting the dozen parts of a command together is most of what a client spends on sending one task
or job; this leaves a few of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.store.command import Operation

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from penstock.store.command import Argument, Command

# Values that no real request has, to find the places by.
_LANE = "\0lane"
_NUMBER = -1
_NO_ANSWER: list[object] = [object()]  # equal to nothing that a server can say
_MARKS = (b"\0first", b"\0second", b"\0third", b"\0fourth")


class Template:
    """A numbered command: the same but for lane, number, and so many values in the order in which
    `build` takes them. The usual answer is `usual` and as many more items as `more` says.
    """

    def __init__(
        self,
        build: Callable[..., Command[Any]],
        digest: str,
        values: int,
        usual: list[object],
        more: int,
    ) -> None:
        marks = _MARKS[:values]
        command = build(Operation(_LANE, _NUMBER), *marks)
        self.key = command.keys[0]
        self.tells_others = command.script.tells_others
        self.whole_usual = usual if more == 0 else _NO_ANSWER
        """the usual answer, if it is always the same"""
        self._usual = usual
        self._usual_items = len(usual) + more
        parts: tuple[Argument, ...] = ("EVALSHA", digest, len(command.keys))
        parts += (*command.keys, *command.arguments)
        expected = [self.key, _NUMBER, *marks]
        holes = [part for part in parts if part in expected]
        assert holes == expected, "the command is not of this form"
        self._format = b"*%d\r\n" % len(parts) + b"".join(
            b"$%d\r\n%b\r\n" if part in holes else _constant(part) for part in parts
        )
        self._memories: dict[str, bytes] = {}

    def fill(self, lane: str, number: int, *values: bytes) -> bytes:
        """The whole command as it goes over the wire."""
        memory = self._memories.get(lane)
        if memory is None:
            memory = self._memories[lane] = self.key.replace(_LANE, lane).encode()
        count = b"%d" % number
        parts: list[int | bytes] = [len(memory), memory, len(count), count]
        for value in values:
            parts += (len(value), value)
        return self._format % tuple(parts)

    def is_usual(self, reply: object) -> bool:
        """Whether there is nothing more to learn from a reply."""
        usual = self._usual
        is_of_size = type(reply) is list and len(reply) == self._usual_items
        return is_of_size and reply[: len(usual)] == usual  # type: ignore[index]


def _constant(part: Argument) -> bytes:
    data = part if isinstance(part, bytes) else str(part).encode()
    return (b"$%d\r\n%b\r\n" % (len(data), data)).replace(b"%", b"%%")
