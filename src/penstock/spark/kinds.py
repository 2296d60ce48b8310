"""Every kind of read and write that `format("penstock")` knows, with its options."""

from __future__ import annotations

from penstock.spark.options import Kind, Option, text

_QUEUE = "the name of a queue"


def _one_of(*words: str) -> Option:
    def parse(value: str) -> str:
        if value not in words:
            raise ValueError
        return value

    return Option("state", parse, " or ".join(words), default=words[0])


READ_QUEUE = Kind(
    "to read tasks of a queue",
    Option("queue", text, _QUEUE),
    (_one_of("waiting", "dead"),),
)
