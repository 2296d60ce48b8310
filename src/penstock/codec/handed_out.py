"""Jobs as workers are given them, in a reply or in a message."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

from penstock.codec.forms import HANDED_OVER
from penstock.codec.heads import open_head
from penstock.codec.ids import id_text
from penstock.codec.records import open_record
from penstock.model.jobs import HandedOut

_NEVER_TRIED = b"0 0 0"


class HandedOutJobs(Sequence[HandedOut]):
    """What a worker was given. Unpacked when it is looked at, so that a busy worker can ask
    for more before it does.
    """

    def __init__(self, first_process: int, items: list[bytes]) -> None:
        self._first_process = first_process
        self._items = items

    def __len__(self) -> int:
        return len(self._items) // 3

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, index: int) -> HandedOut: ...
    @overload
    def __getitem__(self, index: slice) -> list[HandedOut]: ...
    def __getitem__(self, index: int | slice) -> HandedOut | list[HandedOut]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        number, record, tries = self._items[3 * at : 3 * at + 3]
        return open_handed_out(self._first_process + at, int(number), record, tries)

    def __iter__(self) -> Iterator[HandedOut]:
        items = self._items
        parts = zip(items[::3], items[1::3], items[2::3], strict=True)
        for process, (number, record, tries) in enumerate(parts, self._first_process):
            yield open_handed_out(process, int(number), record, tries)


class _HandedOut(NamedTuple):
    """The id is written out when it is asked for, which few jobs do."""

    process: int
    number: int
    type: str
    data: bytes
    failures: int
    crashes: int
    lapses: int
    timeout_ms: int
    attempts: int
    backoff: str

    @property
    def id(self) -> str:
        return id_text(self.number)


def open_handed_over(message: bytes) -> HandedOut:
    """A job from the message that hands it to a worker; it was never begun before."""
    found = HANDED_OVER.open(message)
    return open_handed_out(found["process"], int(found["id"]), found["record"], _NEVER_TRIED)


def open_handed_out(process: int, number: int, record: bytes, tries: bytes) -> HandedOut:
    """A job as a script hands it out."""
    head_text, data = open_record(record)
    head = open_head(head_text)
    counts = (0, 0, 0) if tries == _NEVER_TRIED else map(int, tries.split())
    failures, crashes, lapses = counts
    return _HandedOut(
        process,
        number,
        head.type,
        data,
        failures,
        crashes,
        lapses,
        head.timeout_ms,
        head.attempts,
        head.backoff,
    )
