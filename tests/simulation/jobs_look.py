"""Everything that a simulation of jobs has stored at one instant, taken apart.

Records are taken apart here once more, not by the scripts that are to be checked.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.codec.heads import open_head
from penstock.codec.ids import id_text
from penstock.model.job_snapshot import Entry, JobSnapshot, QueueTotals, StoredHead, StoredJob
from penstock.model.jobs import JOB_STATES, STATE_CODES, STATES_BY_CODE
from penstock.model.schedules import decode_schedule
from penstock.store.commands.job_checks import counts_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.simulation.batches_look import Staging

_LAYOUT, _STATE, _MARKS, _COUNT, _TIME, _PROCESS = 1, 1, 1, 2, 6, 7
_FACTS = (_LAYOUT, _STATE, _MARKS, _TIME, _TIME, _TIME, _COUNT, 1, 1, *(4 * [_TIME]), _PROCESS, 4)
"""How many bytes each number of the facts takes."""
_RECORD = 15
_TURN_DIGITS = 16
AT_MOST_ONCE, FORGET_WHEN_DONE = 2, 1
CANCEL_ASKED = 1


class Job(NamedTuple):
    """A job with what its snapshot leaves out."""

    stored: StoredJob
    expires_ms: int
    data: bytes
    started_ms: int
    reason: str

    @property
    def is_at_most_once(self) -> bool:
        return bool(self.stored.head.flags & AT_MOST_ONCE)

    @property
    def is_forgotten(self) -> bool:
        return bool(self.stored.head.flags & FORGET_WHEN_DONE)

    @property
    def is_cancel_asked(self) -> bool:
        return bool(self.stored.marks & CANCEL_ASKED)

    def is_expired(self, now_ms: int) -> bool:
        return self.expires_ms > 0 and self.stored.since_ms + self.expires_ms <= now_ms


class Limit(NamedTuple):
    """How many jobs of a key may run, and start in a time; 0 for any number."""

    slots: int
    rate: float
    per_ms: int
    burst: float


@dataclass(frozen=True)
class QueueLook:
    """One queue of jobs."""

    snapshot: JobSnapshot
    jobs: Mapping[str, Job]
    limits: Mapping[str, Limit]
    paused_types: frozenset[str]
    types: Mapping[str, frozenset[str] | None]
    """worker -> what it handles; None: everything"""
    offers: frozenset[str]
    """worker -> how many jobs it takes unasked"""
    schedules: Mapping[str, bytes]
    slots: Mapping[str, int]
    alarms: Mapping[str, int]
    history: int
    """how many entries it has: attempts that have ended, and jobs that ended without one"""
    staging: Staging

    @property
    def is_paused(self) -> bool:
        return "paused" in self.snapshot.totals.meta

    @property
    def ageing_ms(self) -> int:
        return int(self.snapshot.totals.meta.get("ageing_ms", 0))

    @property
    def incarnation(self) -> str:
        return self.snapshot.totals.meta.get("incarnation", "")

    def limit_of(self, key: str) -> Limit | None:
        """What holds for jobs of this key; '' is the queue itself."""
        return self.limits.get(key) or (self.limits.get("*") if key else None)

    def handles(self, worker: str, job_type: str) -> bool:
        types = self.types.get(worker, frozenset())
        return types is None or job_type in types


@dataclass(frozen=True)
class Look:
    """Everything."""

    queues: Mapping[str, QueueLook]
    registry: frozenset[str] = frozenset()
    """incarnations"""
    leases: Mapping[str, int] = field(default_factory=dict)
    condemned: frozenset[str] = frozenset()
    work: Mapping[str, frozenset[str]] = field(default_factory=dict)
    info: frozenset[str] = frozenset()

    @property
    def known_workers(self) -> frozenset[str]:
        return self.condemned.union(self.leases)


def open_value(kind: str, value: Any) -> Any:
    """What a key of this kind holds, taken apart."""
    return _OPENERS[kind](value)


Parts = dict[str, dict[str, Any]]
"""kind -> owner -> what the key holds; without an owner for what a queue has one of"""


def queue_look(name: str, parts: Parts, staging: Staging) -> QueueLook:
    """A queue from everything that is stored under its tag."""

    def one(kind: str) -> Any:
        return parts.get(kind, {}).get("", {})

    records, facts = one("jobs"), one("facts")
    jobs = {
        text: job
        for number in records.keys() | facts.keys()
        for text, job in [_job(number, records.get(number, b""), facts.get(number, b""))]
    }
    meta = one("meta")
    counts = counts_in(meta.items())
    pages = {}
    for owner, ids in parts.get("page", {}).items():
        page, _, listing = owner.partition(":")
        pages[listing, int(page)] = ids
    return QueueLook(
        snapshot=JobSnapshot(
            queue=name,
            totals=QueueTotals(
                meta={name: value for name, value in meta.items() if not {":", " "} & set(name)},
                members=frozenset(one("members")),
                idle=frozenset(name.removeprefix("+") for name in one("idle")),
                sizes={
                    kind: len(one(kind)) for kind in ("jobs", "facts", "due", "finished", "buried")
                },
                held={worker: len(held) for worker, held in parts.get("running", {}).items()},
                states={state: counts.get(f"{STATE_CODES[state]}A:", 0) for state in JOB_STATES},
            ),
            jobs={text: job.stored for text, job in jobs.items()},
            levels=one("levels"),
            rings=parts.get("ring", {}),
            lines=parts.get("line", {}),
            unhandled_types=frozenset(one("unhandled_types")),
            unhandled=parts.get("unhandled", {}),
            unparks=one("unparks"),
            parked=parts.get("parked", {}),
            due=one("due"),
            finished=one("finished"),
            buried=one("buried"),
            running=parts.get("running", {}),
            counts=counts,
            directories=parts.get("pages", {}),
            pages=pages,
            unique=one("unique_jobs"),
            windows=one("windows"),
            busy=one("busy"),
            types=frozenset(one("types")),
            suspects=one("suspects"),
            alarms=frozenset(one("alarms")),
            progress=frozenset(one("progress")),
            logs=frozenset(id_text(int(number)) for number in parts.get("log", {})),
            attempts=frozenset(id_text(int(number)) for number in parts.get("attempts", {})),
            schedules={name: decode_schedule(text) for name, text in one("schedules").items()},
            slots=frozenset(one("slots")),
        ),
        jobs=jobs,
        limits=one("limits"),
        paused_types=frozenset(one("paused_types")),
        types=one("types"),
        offers=frozenset(name[1:] for name in one("idle") if name.startswith("+")),
        schedules=one("schedules"),
        slots=one("slots"),
        alarms=one("alarms"),
        history=one("history") or 0,
        staging=staging,
    )


@lru_cache(maxsize=100_000)
def _job(number: bytes, record: bytes, facts: bytes) -> tuple[str, Job]:
    """A job from its record and its facts, either of which may be empty."""
    text = id_text(int(number))
    created, serial, data = 0, 0, b""
    head = b""
    if record:
        created, serial = _number(record[1:7]), _number(record[7:13])
        data_at = _RECORD + _number(record[13:15])
        head, data = record[_RECORD:data_at], record[data_at:]
    if not facts:
        stored = StoredJob(
            *(text, True, False, "ready", 0, serial, serial, 0, 0, 0),
            *(created, created, 0, 0, "", len(data), 0, _head(head)[0]),
        )
        return text, Job(stored, _head(head)[1], data, 0, "")
    numbers, at = [], 0
    for size in _FACTS:
        numbers.append(_number(facts[at : at + size]))
        at += size
    _, state, marks, turn, created, serial, *counts = numbers
    failures, crashes, lapses, since, updated, started, finished, process, length = counts
    texts = []
    for size in (1, 1, 2):
        end = at + size + _number(facts[at : at + size])
        texts.append(facts[at + size : end])
        at = end
    stored = StoredJob(
        *(text, bool(record), True, STATES_BY_CODE[chr(state)], marks, serial, turn),
        *(failures, crashes, lapses, since, updated, finished),
        *(process, texts[0].decode(), length, len(facts) - at, _head(texts[2])[0]),
    )
    return text, Job(stored, _head(texts[2])[1], data, started, texts[1].decode())


@lru_cache(maxsize=10_000)
def _head(packed: bytes) -> tuple[StoredHead, int]:
    """The head of a job, and after how long it expires."""
    head = open_head(packed)
    words = ()  # jobs of a simulation cannot be searched for
    stored = StoredHead(
        *(head.flags, head.priority, head.attempts, head.type, head.tenant, head.key),
        *(head.unique.encode(), head.tags, words),
    )
    return stored, head.expires_ms


def _number(packed: bytes) -> int:
    return int.from_bytes(packed)


def _pairs(flat: list[bytes]) -> zip[tuple[bytes, bytes]]:
    return zip(flat[::2], flat[1::2], strict=True)


def _mapping(name: Callable[[bytes], Any], value: Callable[[bytes], Any]) -> Callable[..., Any]:
    def read(flat: list[bytes]) -> dict[Any, Any]:
        return {name(left): value(right) for left, right in _pairs(flat)}

    return read


def _tuple(read: Callable[[bytes], Any]) -> Callable[..., Any]:
    return lambda values: tuple(map(read, values))


def _entry(text: bytes) -> Entry:
    number, _, turn = text.partition(b".")
    return Entry(_id(number), int(turn) if turn else None)


def _aside(flat: list[bytes]) -> tuple[Entry, ...]:
    members = (member for member, _ in _pairs(flat))
    return tuple(Entry(_id(m[_TURN_DIGITS:]), int(m[:_TURN_DIGITS])) for m in members)


@lru_cache(maxsize=100_000)
def _id(number: bytes) -> str:
    return id_text(int(number))


def _limit(text: bytes) -> Limit:
    slots, rate, per_ms, burst = text.split()
    return Limit(int(slots), float(rate), int(per_ms), float(burst))


def _types(text: bytes) -> frozenset[str] | None:
    return None if text == b"*" else frozenset(text.decode().strip("\0").split("\0"))


def _raw(value: bytes) -> bytes:
    return value


def _set(read: Callable[[bytes], Any]) -> Callable[..., Any]:
    return lambda values: frozenset(map(read, values))


_OPENERS: dict[str, Callable[..., Any]] = defaultdict(
    lambda: _set(bytes.decode),
    {
        "meta": _mapping(bytes.decode, bytes.decode),
        "jobs": _mapping(_raw, _raw),
        "facts": _mapping(_raw, _raw),
        "levels": _mapping(bytes.decode, float),
        "ring": lambda flat: tuple(tenant.decode() for tenant, _ in _pairs(flat)),
        "line": _tuple(_entry),
        "unhandled": _aside,
        "parked": _aside,
        "unparks": _mapping(bytes.decode, float),
        "due": _mapping(_id, int),
        "finished": _mapping(_id, int),
        "buried": _mapping(_id, int),
        "running": _mapping(int, _id),
        "pages": lambda flat: frozenset(int(page) for page, _ in _pairs(flat)),
        "page": _set(_id),
        "unique_jobs": _mapping(_raw, _id),
        "windows": _mapping(_raw, int),
        "limits": _mapping(bytes.decode, _limit),
        "buckets": _mapping(bytes.decode, _raw),
        "busy": _mapping(bytes.decode, int),
        "shares": _mapping(bytes.decode, int),
        "types": _mapping(bytes.decode, _types),
        "suspects": _mapping(bytes.decode, _id),
        "progress": _mapping(_id, _raw),
        "log": len,
        "attempts": len,
        "alarms": _mapping(bytes.decode, int),
        "schedules": _mapping(bytes.decode, _raw),
        "slots": _mapping(bytes.decode, int),
        "history": int,
        "marks": _mapping(bytes.decode, bytes.decode),
        "queues": lambda flat: frozenset(name.decode() for name, _ in _pairs(flat)),
        "workers": _mapping(bytes.decode, int),
        "condemned": lambda flat: frozenset(name.decode() for name, _ in _pairs(flat)),
        "info": lambda flat: frozenset(name.decode() for name, _ in _pairs(flat)),
    },
)
"""kind of key -> how it is read; a set of names if nothing else is said"""
