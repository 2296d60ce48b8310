"""Jobs as the store keeps them, as `scripts/fragments/jobs/records.lua` has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from penstock.codec.ids import id_text
from penstock.codec.values import pack_data
from penstock.errors import PayloadTooLarge, UnknownLayout
from penstock.model.jobs import (
    LAYOUT,
    STATES_BY_CODE,
    Attempt,
    EndedAttempt,
    HandedOut,
    JobError,
    JobEvent,
    JobInfo,
    Progress,
)
from penstock.model.numbers import whole_number

if TYPE_CHECKING:
    from penstock.model.job_options import JobOptions

_PARTS: tuple[tuple[int, int, int | bytes], ...] = (
    (64, 4, 0),
    (128, 2, 1),
    (256, 4, 0),
    (512, 6, 0),
    (1024, 1, b""),
    (2048, 1, b""),
    (4096, 1, b""),
    (8192, 1, b""),
    (16384, 2, b""),
    (32768, 2, b""),
)
"""Flag, bytes of the number or of the length, and the usual value, which is left out."""
_SIGNED = 64
_FLAGS_SIZE = 4
_CANCEL_ASKED = 1
_FLAGS = {"queued": 4, "done": 8, "window": 16, "scheduled": 32}
_FORGET_WHEN_DONE = 1
_AT_MOST_ONCE = 2
_NEVER_TRIED = b"0 0"


class Head(NamedTuple):
    """What the scripts need to know of a job."""

    flags: int
    priority: int
    attempts: int
    timeout_ms: int
    expires_ms: int
    type: str
    tenant: str
    key: str
    unique: str
    backoff: str
    tags: tuple[str, ...]
    words: tuple[str, ...]


@lru_cache(maxsize=4096)
def pack_head(options: JobOptions, words: tuple[str, ...] = ()) -> bytes:
    """The head of a job with these options. Cached, as most jobs have the options of others."""
    flags = _FLAGS.get(options.unique_mode, 0)
    flags |= 0 if options.is_kept else _FORGET_WHEN_DONE
    flags |= _AT_MOST_ONCE if options.is_at_most_once else 0
    values: tuple[int | bytes, ...] = (
        options.priority,
        options.attempts,
        options.timeout_ms,
        options.expires_ms,
        options.tenant.encode(),
        options.key.encode(),
        options.unique,
        options.backoff.encode(),
        b"\0".join(tag.encode() for tag in options.tags),
        b"\0".join(word.encode() for word in words),
    )
    parts = []
    for value, (flag, size, usual) in zip(values, _PARTS, strict=True):
        if value != usual:
            flags |= flag
            parts.append(
                value.to_bytes(size, signed=flag == _SIGNED)
                if isinstance(value, int)
                else len(value).to_bytes(size) + value
            )
    kind = options.type.encode()
    return flags.to_bytes(_FLAGS_SIZE) + len(kind).to_bytes(1) + kind + b"".join(parts)


@lru_cache(maxsize=4096)
def open_head(head: bytes) -> Head:
    flags = int.from_bytes(head[:_FLAGS_SIZE])
    at = _FLAGS_SIZE + 1 + head[_FLAGS_SIZE]
    kind = head[_FLAGS_SIZE + 1 : at].decode(errors="replace")
    values: list[Any] = []
    for flag, size, usual in _PARTS:
        value: int | bytes = usual
        if flags & flag:
            number = int.from_bytes(head[at : at + size], signed=flag == _SIGNED)
            at += size
            if isinstance(usual, int):
                value = number
            else:
                value = head[at : at + number]
                at += number
        values.append(value.decode(errors="replace") if isinstance(value, bytes) else value)
    priority, attempts, timeout_ms, expires_ms, tenant, key, unique, backoff, tags, words = values
    return Head(
        *(flags, priority, attempts, timeout_ms, expires_ms),
        *(kind, tenant, key, unique, backoff),
        tuple(tags.split("\0")) if tags else (),
        tuple(words.split("\0")) if words else (),
    )


_RECORD_SIZE = 15  # layout, created, number, length of the head


def _open_record(text: bytes, at: int = 0) -> tuple[bytes, int]:
    """The head of the record that begins here, and where its data begin."""
    head_at = at + _RECORD_SIZE
    data_at = head_at + (text[head_at - 2] << 8 | text[head_at - 1])
    return text[head_at:data_at], data_at


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
    """The id is written out for whoever asks for it, which few jobs do."""

    process: int
    number: int
    type: str
    data: bytes
    failures: int
    crashes: int
    timeout_ms: int
    attempts: int
    backoff: str

    @property
    def id(self) -> str:
        return id_text(self.number)


# As the class does it, without a function around it.
_handed_out: Callable[[tuple[Any, ...]], _HandedOut] = partial(tuple.__new__, _HandedOut)


def open_handed_over(message: bytes) -> HandedOut:
    """A job from the message that hands it to a worker; it was never begun before."""
    record_at = 8 + message[7]
    head_text, data_at = _open_record(message, record_at)
    head = open_head(head_text)
    return _handed_out(
        (
            int.from_bytes(message[:7]),
            int(message[8:record_at]),
            head.type,
            message[data_at:],
            0,
            0,
            head.timeout_ms,
            head.attempts,
            head.backoff,
        )
    )


def open_handed_out(process: int, number: int, record: bytes, tries: bytes) -> HandedOut:
    """A job as a script hands it out."""
    head_text, data_at = _open_record(record)
    head = open_head(head_text)
    failures, crashes = (0, 0) if tries == _NEVER_TRIED else map(int, tries.split())
    return _HandedOut(
        process,
        number,
        head.type,
        record[data_at:],
        failures,
        crashes,
        head.timeout_ms,
        head.attempts,
        head.backoff,
    )


_FACTS = (1, 1, 1, 6, 6, 6, 2, 1, 6, 6, 6, 6, 7, 4)


class StoredJob(NamedTuple):
    """A job as it is stored, for programs that read very many. Times are ms; 0: not yet."""

    head: Head
    state: str
    """its code"""
    data: bytes
    created_ms: int
    since_ms: int
    """when it became ready, or will"""
    updated_ms: int = 0
    started_ms: int = 0
    finished_ms: int = 0
    failures: int = 0
    crashes: int = 0
    worker: str = ""
    reason: str = ""
    outcome: bytes = b""
    is_cancel_asked: bool = False
    process: int = 0


def open_stored_job(record: bytes, facts: bytes) -> StoredJob:
    """A job from what is stored about it; `record` may be without its data, or empty if there are
    facts.
    """
    for stored in filter(None, (record, facts)):
        _check_layout(stored)
    head_text, data_at = _open_record(record) if record else (b"", 0)
    data = record[data_at:]
    if not facts:
        created_ms = int.from_bytes(record[1:7])
        return StoredJob(open_head(head_text), "r", data, created_ms, created_ms)
    values, at = [], 0
    for size in _FACTS:
        values.append(int.from_bytes(facts[at : at + size]))
        at += size
    _, state, marks, _, created_ms, _, failures, crashes, since, updated, started, finished = (
        values[:12]
    )
    texts = []
    for size in (1, 1, 2):
        length = int.from_bytes(facts[at : at + size])
        texts.append(facts[at + size : at + size + length])
        at += size + length
    return StoredJob(
        open_head(texts[2]),
        chr(state),
        data,
        created_ms,
        since,
        updated,
        started,
        finished,
        failures,
        crashes,
        texts[0].decode(),
        texts[1].decode(),
        facts[at:],
        is_cancel_asked=bool(marks & _CANCEL_ASKED),
        process=values[12],
    )


def open_job(queue: str, number: int, record: bytes, facts: bytes, progress: bytes) -> JobInfo:
    """The same as whoever asks for a job sees it."""
    stored = open_stored_job(record, facts)
    head = stored.head
    state = STATES_BY_CODE[stored.state]
    outcome = stored.outcome
    return JobInfo(
        id=id_text(number),
        queue=queue,
        type=head.type,
        state=state,
        data=stored.data,
        priority=head.priority,
        tenant=head.tenant,
        tags=head.tags,
        words=head.words,
        key=head.key,
        unique=head.unique[1:],
        attempts=head.attempts,
        failures=stored.failures,
        crashes=stored.crashes,
        timeout_s=head.timeout_ms / 1000,
        created_at=stored.created_ms / 1000,
        due_at=stored.since_ms / 1000,
        updated_at=(stored.updated_ms or stored.created_ms) / 1000,
        started_at=stored.started_ms / 1000,
        finished_at=stored.finished_ms / 1000,
        worker=stored.worker,
        reason=stored.reason,
        outcome=outcome,
        progress=open_progress(progress) if progress else None,
        error=open_error(outcome) if state in ("dead", "cancelled") and outcome else None,
        is_cancel_asked=stored.is_cancel_asked,
        process=stored.process,
    )


def pack_error(error: JobError) -> bytes:
    """The type comes first and, unlike the rest, without escapes for letters, as the scripts put
    it into the history as it stands here.
    """
    kind = json.dumps(error.type, ensure_ascii=False).encode(errors="replace")
    rest = json.dumps([error.message, error.traceback]).encode()
    return b"[%b, %b" % (kind, rest[1:])


def open_error(payload: bytes) -> JobError | None:
    """None if there is no error, as when a worker has died."""
    if not payload:
        return None
    kind, message, traceback = json.loads(payload)
    return JobError(kind, message, traceback)


MAX_PROGRESS_BYTES = 65_536


def pack_progress(progress: Progress) -> bytes:
    """Raises Unserialisable or PayloadTooLarge: it is said often, and everybody who looks reads
    it.
    """
    packed = pack_data("the data of the progress", [progress.percent, progress.data])
    if len(packed) > MAX_PROGRESS_BYTES:
        raise PayloadTooLarge(
            f"the data of the progress is {len(packed)} bytes long and {MAX_PROGRESS_BYTES} is the "
            "limit; say less, or where the rest is"
        )
    return packed


def open_progress(payload: bytes) -> Progress:
    percent, data = json.loads(payload)
    return Progress(percent, data)


def open_attempt(line: bytes) -> Attempt:
    number = int.from_bytes(line[:2])
    started, ended = int.from_bytes(line[2:8]), int.from_bytes(line[8:14])
    outcome, at = _text(line, 14)
    worker, at = _text(line, at)
    return Attempt(number, outcome, worker, started / 1000, ended / 1000, open_error(line[at:]))


_ENDED_SIZE = 19  # layout, attempt, waited, bytes, when
FOLLOWING_STATES = {**STATES_BY_CODE, "-": "removed"}
"""Code in an entry of the history -> the state that followed."""


def open_ended_attempt(place: str, packed: bytes) -> EndedAttempt:
    _check_layout(packed, oldest=1)  # an entry has only ever had more fields at its end
    texts = []
    at = _ENDED_SIZE
    for _ in range(7):
        text, at = _text(packed, at)
        texts.append(text)
    number, job_type, tenant, worker, outcome, ran_us, cpu_us = texts
    is_whole = len(packed) > at
    return EndedAttempt(
        place=place,
        job=id_text(int(number)),
        type=job_type,
        tenant=tenant,
        attempt=int.from_bytes(packed[1:3]),
        outcome=outcome,
        waited_ms=int.from_bytes(packed[3:9]),
        ran_us=int(ran_us),
        cpu_us=int(cpu_us),
        worker=worker,
        bytes=int.from_bytes(packed[9:13]),
        ended_at=int.from_bytes(packed[13:19]) / 1000,
        priority=int.from_bytes(packed[at : at + 4], signed=True) if is_whole else None,
        created_at=int.from_bytes(packed[at + 4 : at + 10]) / 1000 if is_whole else None,
        state=FOLLOWING_STATES[chr(packed[at + 10])] if is_whole else None,
        error_type=_text(packed, at + 11)[0] if is_whole else None,
    )


def open_event(queue: str, message: bytes) -> JobEvent:
    kind, at = _text(message, 0)
    number, at = _text(message, at)
    when = int.from_bytes(message[at : at + 6])
    attempt = int.from_bytes(message[at + 6 : at + 8])
    job_type, at = _text(message, at + 8)
    worker, at = _text(message, at)
    return JobEvent(
        kind,  # type: ignore[arg-type]
        queue,
        id_text(int(number)),
        job_type,
        when / 1000,
        attempt,
        worker,
        message[at:],
    )


class Notice(NamedTuple):
    """What is said when a job ends."""

    number: int
    """the id of the job"""
    state: str
    """code of the state; '-': the job was removed"""
    reason: str
    outcome: bytes | None
    """None if it is too large to be said and must be read"""


def done_notice(number: int) -> bytes:
    """How a notice begins that a job is done; what follows is its outcome. Whoever waits for one
    job need not open the notice to see that it is the one.
    """
    text = b"%d" % number
    return b"%c%bdy\0" % (len(text), text)


def open_notice(message: bytes) -> Notice:
    number, at = _text(message, 0)
    reason, outcome_at = _text(message, at + 2)
    outcome = message[outcome_at:] if message[at + 1 : at + 2] == b"y" else None
    return Notice(int(number), chr(message[at]), reason, outcome)


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + message[at]
    return message[at + 1 : end].decode(), end


def _check_layout(stored: bytes, oldest: int = LAYOUT) -> None:
    if not oldest <= stored[0] <= LAYOUT:
        raise unknown_layout(stored[0])


def unknown_layout(stored: int | bytes) -> UnknownLayout:
    layout = stored if isinstance(stored, int) else whole_number(stored)
    if layout is None:
        return UnknownLayout(
            f"the layout of these jobs is {stored!r}, which is no number, so nobody can tell what "
            f"they mean; write to `meta` of the queue what it was (this version writes {LAYOUT})"
        )
    if layout < LAYOUT:
        return UnknownLayout(
            f"these jobs were written by an older penstock (layout {layout}; this version knows "
            f"{LAYOUT}); let workers of that version empty it, or delete it with that version"
        )
    return UnknownLayout(
        f"these jobs were written by a newer penstock (layout {layout}; this version knows "
        f"{LAYOUT}); upgrade this program before it touches them"
    )
