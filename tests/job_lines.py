"""Where jobs that are ready stand, and which of them comes next: the half of `tests/job_model.py`
that is about order and limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER = math.inf
LONG_AGO = 10**15
LOOK_AGAIN_MS = 1000
ALMOST_A_ROUND = 0.999


@dataclass
class Job:
    """One job. `turn` is its place among those of equal priority and tenant."""

    id: int
    type: str
    priority: int = 0
    tenant: str = ""
    key: str = ""
    unique: str = ""
    mode: str = ""
    """until when the unique key is taken: queued, done, window or scheduled"""
    attempts: int = 1
    expires_ms: int = 0
    is_kept: bool = True
    is_at_most_once: bool = False
    tags: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    cause: bytes = b""
    """what its id is derived from, if it is"""
    state: str = "ready"
    turn: int = 0
    since: int = 0
    """when it became ready, or will"""
    finished: int = 0
    failures: int = 0
    crashes: int = 0
    lapses: int = 0
    worker: str = ""
    started: int = 0
    """how many had been started before"""
    is_cancel_asked: bool = False


def is_suspect(job: Job) -> bool:
    """Whether it may have taken workers down, and is handed out alone."""
    return job.crashes + job.lapses >= 2


class Entry(NamedTuple):
    """A place in a line. It counts as long as its job is ready and has this turn."""

    priority: int
    turn: int
    id: int


class Limit(NamedTuple):
    """How many jobs may run at once (0: any number), and how many may start in a time."""

    slots: int
    rate: float
    per_ms: int
    burst: float


@dataclass
class Room:
    """What a limit leaves open during one request."""

    limit: Limit
    free: float
    tokens: float
    used: int = 0

    def left(self) -> float:
        return math.floor(min(self.free, self.tokens + 1e-9, LONG_AGO) - self.used)

    def next_token_at(self, now: int, more: int = 0) -> float:
        """NEVER if it is not a token that is missing."""
        tokens = self.tokens - self.used - more
        if not self.limit.rate or tokens >= 1:
            return NEVER
        return now + max(1, math.ceil((1 - tokens) * self.limit.per_ms / self.limit.rate))


class Source(NamedTuple):
    """Where the next jobs come from."""

    entries: list[Entry]
    settle: Callable[[int, list[Entry]], None]
    """told how many were handed out, and which must stay"""


class Lines:
    """One line for each priority and tenant; a ring of tenants for each priority."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.jobs: dict[int, Job] = {}
        self.turns = 0
        self.lines: dict[tuple[int, str], list[Entry]] = {}
        self.rings: dict[int, dict[str, float]] = {}
        """how many rounds each tenant has had"""
        self.shares: dict[str, int] = {}
        self.unhandled_types: dict[str, set[Entry]] = {}
        """by type: nobody who asked could take them"""
        self.parked: dict[str, set[Entry]] = {}
        """by key: a limit holds them back"""
        self.unparks: dict[str, float] = {}
        """when to look at what is parked"""
        self.paused_types: set[str] = set()
        self.ageing_ms = 0
        self.limits: dict[str, Limit] = {}
        self.buckets: dict[str, tuple[float, int]] = {}
        self.rooms: dict[str, Room | None] = {}
        """those looked at during this request"""

    def set_limit(self, key: str, limit: Limit | None) -> None:
        if limit is None:
            self.limits.pop(key, None)
            self.buckets.pop(key, None)
        else:
            self.limits[key] = limit
        for parked in self.unparks:
            if key in ("*", parked):
                self.unparks[parked] = self.now

    def push(self, job: Job) -> None:
        """To the end of its line."""
        self._line(job).append(Entry(job.priority, job.turn, job.id))

    def give_back(self, jobs: list[Job]) -> None:
        """Each to its old place: before everything that came after it."""
        for name in dict.fromkeys((job.priority, job.tenant) for job in jobs):
            returned = [job for job in jobs if (job.priority, job.tenant) == name]
            line = self._line(returned[0])
            last = max(job.turn for job in returned)
            front = [Entry(job.priority, job.turn, job.id) for job in returned]
            while line and not (self.is_valid(line[0]) and line[0].turn > last):
                front += filter(self.is_valid, [line.pop(0)])
            line[:0] = sorted(front)

    def is_valid(self, entry: Entry) -> bool:
        job = self.jobs.get(entry.id)
        return job is not None and job.state == "ready" and job.turn == entry.turn

    def unhandled(self, job: Job) -> None:
        self.unhandled_types.setdefault(job.type, set()).add(Entry(job.priority, job.turn, job.id))

    def park(self, job: Job, room: Room) -> None:
        self.parked.setdefault(job.key, set()).add(Entry(job.priority, job.turn, job.id))
        self.unparks[job.key] = room.next_token_at(self.now)

    def unpark(self, key: str) -> None:
        """As many as may start now go back in line."""
        room, parked = self.room(key), self.parked.get(key, set())
        back: list[Job] = []
        while parked and (room is None or len(back) < room.left()):
            entry = min(parked)
            parked.remove(entry)
            if self.is_valid(entry):
                back.append(self.jobs[entry.id])
        self.give_back(back)
        at = room.next_token_at(self.now, len(back)) if room else NEVER
        self.unparks[key] = self.now + LOOK_AGAIN_MS if at == NEVER and back else at
        if not parked:
            del self.unparks[key]
            self.parked.pop(key, None)

    def room(self, key: str) -> Room | None:
        """What the limit of the key leaves, or of the queue if it is empty; None: no limit."""
        if key not in self.rooms:
            limit = self.limits.get(key) or (self.limits.get("*") if key else None)
            self.rooms[key] = self._room(key, limit) if limit else None
        return self.rooms[key]

    def close_rooms(self) -> None:
        """Write down which tokens were used."""
        for key, room in self.rooms.items():
            if room and room.limit.rate and room.used:
                self.buckets[key] = (float(f"{room.tokens - room.used:.9f}"), self.now)

    def next_source(
        self, types: tuple[str, ...] | None, wanted: int, turn_jobs: int
    ) -> Source | None:
        """What a worker that handles these types (None: all) is to be given next: so many of those
        that it still wants, and so many of one tenant.
        """
        levels = [(self._weight(self._first(level)), level) for level in self.rings]
        weight, level = min(levels, default=(NEVER, None))
        unhandled = self._first_unhandled(types)
        if unhandled is not None:
            first = self._first(level) if level is not None else None
            turn = first.turn if first and self.is_valid(first) else 0
            if first is None or (self._weight(unhandled), unhandled.turn) < (weight, turn):
                return Source(
                    [unhandled], lambda _, rest: None if rest else self._drop_unhandled(unhandled)
                )
        if level is None:
            return None
        at_once = 1 if unhandled is not None or self.ageing_ms else wanted
        return self._from_line(level, at_once, turn_jobs)

    def _line(self, job: Job) -> list[Entry]:
        name = (job.priority, job.tenant)
        if name not in self.lines:
            self.lines[name] = []
            ring = self.rings.setdefault(job.priority, {})
            places = sorted(ring.values()) or [-ALMOST_A_ROUND]
            ring[job.tenant] = max(places[0] + ALMOST_A_ROUND, places[-1])
        return self.lines[name]

    def _room(self, key: str, limit: Limit) -> Room:
        running = [job for job in self.jobs.values() if job.state == "running"]
        busy = sum(job.key == key for job in running) if key else len(running)
        tokens, at = self.buckets.get(key, (limit.burst, self.now))
        tokens = min(limit.burst, tokens + max(0, self.now - at) * limit.rate / limit.per_ms)
        free = limit.slots - busy if limit.slots else NEVER
        return Room(limit, free, tokens if limit.rate else NEVER)

    def _first(self, level: int) -> Entry:
        return self.lines[level, self._next_tenant(level)][0]

    def _next_tenant(self, level: int) -> str:
        """Who has had the fewest rounds."""
        ring = self.rings[level]
        return min(ring, key=lambda tenant: (ring[tenant], tenant))

    def _weight(self, entry: Entry) -> int:
        if not self.ageing_ms:
            return entry.priority
        waited = self.now - self.jobs[entry.id].since if self.is_valid(entry) else LONG_AGO
        return entry.priority - waited // self.ageing_ms

    def _first_unhandled(self, types: tuple[str, ...] | None) -> Entry | None:
        """The most urgent that may start here."""
        first = [
            min(entries)
            for type, entries in self.unhandled_types.items()
            if type not in self.paused_types and (types is None or type in types)
        ]
        return min(first, key=lambda entry: (self._weight(entry), entry.turn), default=None)

    def _drop_unhandled(self, entry: Entry) -> None:
        for type, entries in list(self.unhandled_types.items()):
            entries.discard(entry)
            if not entries:
                del self.unhandled_types[type]

    def _from_line(self, level: int, at_once: int, turn_jobs: int) -> Source:
        """The line of the tenant whose turn it is."""
        ring, tenant = self.rings[level], self._next_tenant(level)
        line, is_shared = self.lines[level, tenant], len(ring) > 1
        entries = line[: min(at_once, turn_jobs) if is_shared else at_once]
        del line[: len(entries)]

        def settle(taken: int, rest: list[Entry]) -> None:
            line[:0] = rest
            if not line:
                del self.lines[level, tenant]
                del ring[tenant]
                if not ring:
                    del self.rings[level]
            elif is_shared:
                ring[tenant] += taken / self.shares.get(tenant, 1)

        return Source(entries, settle)
