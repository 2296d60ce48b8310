"""Entries of a history as Arrow columns, a page at a time.

An entry is a packed text, as `codec/forms.py` says: numbers of a fixed size, then
texts with their lengths before them. The entries of a page are put behind one another, and each
field is taken from all of them at once; Python does nothing for a single entry but to find its
length. `open_ended_attempt` does the same for one entry, and a test holds both to each other.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.codec.attempts import FOLLOWING_STATES
from penstock.codec.forms import ENDED
from penstock.codec.ids import id_text
from penstock.codec.layouts import unknown_layout
from penstock.errors import HistoryLost
from penstock.model.jobs import LAYOUT
from penstock.spark.schemas import HISTORY, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]
    Bytes = NDArray[np.uint8]
    Words = NDArray[Any]

SCHEMA = arrow_schema(HISTORY)

_TEXTS_AT = ENDED.offset("id")
_AFTER = {name: ENDED.offset(name, "cpu_us") for name in ("priority", "created", "state")}
"""Where what the oldest entries lack begins, behind the last text that all have."""
_ADDED_SIZE = ENDED.offset("error_type", "cpu_us") + 1
_WORD_SIZE = 8
_MOST_DIGITS = 20
_MOST_BEHIND = _TEXTS_AT + 8 * 256 + _ADDED_SIZE + _WORD_SIZE
"""How far behind its start an entry is read, whatever is in it."""
_ALPHABET = [id_text(digit)[-1].encode() for digit in range(32)]
_DIGITS = np.frombuffer(b"".join(_ALPHABET), dtype=np.uint8)
_PAIRS = np.frombuffer(
    b"".join(first + second for first in _ALPHABET for second in _ALPHABET), dtype=np.uint16
)
_SHIFTS = np.arange(50, -1, -10, dtype=np.uint64)
_STATES = sorted(FOLLOWING_STATES)
_IS_STATE = np.isin(np.arange(256), [ord(code) for code in _STATES])
_STATE_OF_CODE = np.zeros(256, dtype=np.int32)
_STATE_OF_CODE[[ord(code) for code in _STATES]] = np.arange(len(_STATES))


class Page(NamedTuple):
    """Some entries: the place of each, and what is packed there."""

    places: list[bytes]
    packed: list[bytes]


def page_of(reply: Sequence[Any]) -> Page:
    """The entries of a reply to XRANGE."""
    return Page([entry[0] for entry in reply], [entry[1][1] for entry in reply])


def history_batch(queue: str, page: Page, fails: bool = True) -> pa.RecordBatch:
    """The entries of a page as the schema of the history has them.

    Raises UnknownLayout if a newer version has written one of them, and HistoryLost if one is
    damaged; with `fails=False` a damaged one is left out.
    """
    size = len(page.packed)
    lengths = np.fromiter(map(len, page.packed), np.int64, size)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    # What follows the last entry is read for those that end too soon, and not used.
    text = b"".join(page.packed) + bytes(_MOST_BEHIND)
    data = np.frombuffer(text, dtype=np.uint8)
    words = np.ndarray(len(text) - _WORD_SIZE + 1, dtype=">u8", buffer=text, strides=(1,))
    if size and (newest := int(data[starts].max())) > LAYOUT:
        raise unknown_layout(newest)
    texts: list[_Text] = []
    at = starts + _TEXTS_AT
    for _ in range(7):
        texts.append(_Text(data, at + 1, data[at].astype(np.int64)))
        at = texts[-1].ends
    number, job_type, tenant, worker, outcome, ran_us, cpu_us = texts
    lacks = at >= ends
    error_at, state_at = at + _ADDED_SIZE, at + _AFTER["state"]
    error_type = _Text(data, error_at, np.where(lacks, 0, data[error_at - 1]).astype(np.int64))
    is_whole = (at <= ends) & (lacks | (error_type.ends <= ends) & _IS_STATE[data[state_at]])
    for digits in (number, ran_us, cpu_us):
        is_whole &= digits.lengths <= _MOST_DIGITS
    if not is_whole.all():
        if fails:
            raise _damaged(queue, page.places[int(np.argmin(is_whole))])
        return history_batch(queue, _chosen(page, is_whole))
    columns = {
        "queue": pa.repeat(pa.scalar(queue, pa.string()), size),
        "place": _joined(page.places),
        "job": _ids(_decimal(words, number)),
        "type": job_type.column(),
        "tenant": tenant.column(),
        "priority": pa.array(
            _number(words, at + _AFTER["priority"], 4).astype(np.int32), mask=lacks
        ),
        "attempt": pa.array(_number(words, starts + ENDED.offset("attempt"), 2).astype(np.int32)),
        "outcome": outcome.column(),
        "state": _state_names().take(pa.array(_STATE_OF_CODE[data[state_at]], mask=lacks)),
        "error_type": error_type.column(lacks),
        "worker": worker.column(),
        "created_at": _instants(_number(words, at + _AFTER["created"], 6), lacks),
        "ended_at": _instants(_number(words, starts + ENDED.offset("ended"), 6), None),
        "waited_ms": pa.array(_number(words, starts + ENDED.offset("waited_ms"), 6)),
        "ran_us": pa.array(_decimal(words, ran_us)),
        "cpu_us": pa.array(_decimal(words, cpu_us)),
        "bytes": pa.array(_number(words, starts + ENDED.offset("bytes"), 4)),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def _damaged(queue: str, place: bytes) -> HistoryLost:
    return HistoryLost(
        f"the entry at {place.decode()} of the history of queue {queue!r} is damaged; to pass over "
        "it, use the option failOnDataLoss=false, or --skip-gap on the command line"
    )


def _chosen(page: Page, is_chosen: NDArray[np.bool_]) -> Page:
    numbers = np.flatnonzero(is_chosen)
    return Page([page.places[n] for n in numbers], [page.packed[n] for n in numbers])


@cache
def _state_names() -> pa.Array:
    """Not made when the module is imported: Arrow imports pandas to make it, and planners, which
    open no entries, would wait for that.
    """
    return pa.array([FOLLOWING_STATES[code] for code in _STATES], pa.string())


class _Text(NamedTuple):
    """One text of every entry: where each begins in the page, and how long it is."""

    data: Bytes
    starts: Numbers
    lengths: Numbers

    @property
    def ends(self) -> Numbers:
        return self.starts + self.lengths

    def column(self, lacks: NDArray[np.bool_] | None = None) -> pa.Array:
        ends = np.cumsum(self.lengths)
        total = int(ends[-1]) if len(ends) else 0
        # Byte by byte from where it is, to where it stands in the column.
        shifts = np.repeat(self.starts - (ends - self.lengths), self.lengths)
        return _strings(ends, self.data[shifts + np.arange(total)], lacks)


def _strings(ends: Numbers, data: Bytes, lacks: NDArray[np.bool_] | None = None) -> pa.Array:
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    validity = None
    if lacks is not None and lacks.any():
        validity = pa.py_buffer(np.packbits(~lacks, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    column = pa.Array.from_buffers(pa.string(), len(ends), buffers)
    if len(data) and int(data.max()) > 127:
        # Spark trusts that it is UTF-8. What is stored is, unless somebody else has written it.
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raws = column.cast(pa.binary()).to_pylist()
            texts = [None if raw is None else raw.decode(errors="replace") for raw in raws]
            return pa.array(texts, pa.string())
    return column


def _joined(texts: list[bytes]) -> pa.Array:
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    return _strings(np.cumsum(lengths), np.frombuffer(b"".join(texts), dtype=np.uint8))


def _number(words: Words, at: Numbers, size: int) -> Numbers:
    """A number of so many bytes, the highest first; signed only if the caller makes it so small
    that its highest bit becomes a sign.
    """
    return (words[at].astype(np.uint64) >> np.uint64(8 * (_WORD_SIZE - size))).astype(np.int64)


def _decimal(words: Words, text: _Text) -> Numbers:
    """A number that is written in digits: eight at a time, from the last to the first."""
    value = np.zeros(len(text.starts), dtype=np.uint64)
    ends, scale = text.ends, 1
    for passed in range(0, int(text.lengths.max(initial=0)), _WORD_SIZE):
        digits = words[ends - passed - _WORD_SIZE].astype(np.uint64)
        # What stands before the first digit is no part of the number.
        left = np.minimum(np.maximum(text.lengths - passed, 0), _WORD_SIZE).astype(np.uint64)
        unused = np.uint64(8 * _WORD_SIZE) - np.uint64(8) * left
        digits = np.where(left > 0, digits << unused >> unused, np.uint64(0))
        digits &= np.uint64(0x0F0F0F0F0F0F0F0F)
        # Neighbours become one number of two digits, then of four, then of eight.
        for bits, mask in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0xFFFFFFFF)):
            high, low = digits >> np.uint64(bits) & np.uint64(mask), digits & np.uint64(mask)
            digits = high * np.uint64(10 ** (bits // 8)) + low
        value += digits * np.uint64(scale)
        scale *= 10**_WORD_SIZE
    return value.astype(np.int64)


def _ids(numbers: Numbers) -> pa.Array:
    """Ids as people see them: 13 characters of five bits, here the first and then pairs."""
    bits = numbers.astype(np.uint64)
    pairs = (bits[:, np.newaxis] >> _SHIFTS & np.uint64(1023)).astype(np.intp)
    width = 1 + 2 * len(_SHIFTS)
    texts = np.empty((len(numbers), width), dtype=np.uint8)
    texts[:, 0] = _DIGITS[(bits >> np.uint64(60)).astype(np.intp)]
    texts[:, 1:] = _PAIRS[pairs].view(np.uint8)
    return _strings(np.arange(width, width * (len(numbers) + 1), width), texts.ravel())


def _instants(ms: Numbers, lacks: NDArray[np.bool_] | None) -> pa.Array:
    return pa.array(ms * 1000, mask=lacks).view(pa.timestamp("us", "UTC"))
