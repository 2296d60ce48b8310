"""What a queue of jobs does, in as few words as possible: the state machine of
`tests/contract/test_jobs_model.py` compares every answer of the store with what this says.

It knows jobs, lines and limits, but nothing of pages, counts, records or memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

FINAL = ("done", "dead", "cancelled")
WAITING = ("ready", "scheduled")
NEVER = math.inf
LOOK_AGAIN_MS = 1000
ALARMS = 2


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
    state: str = "ready"
    turn: int = 0
    since: int = 0
    finished: int = 0
    failures: int = 0
    crashes: int = 0
    worker: str = ""
    started: int = 0
    """how many had been started before"""
    is_cancel_asked: bool = False


@dataclass
class Limit:
    """How many jobs may run at once (0: any number), and start in a time."""

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

    def left(self) -> int:
        return math.floor(min(self.free, self.tokens + 1e-9) - self.used)

    def next_token_at(self, now: int, more: int = 0) -> float:
        """NEVER if it is a slot that is missing."""
        tokens = self.tokens - self.used - more
        if self.limit.rate <= 0 or tokens >= 1:
            return NEVER
        return now + max(1, math.ceil((1 - tokens) * self.limit.per_ms / self.limit.rate))


@dataclass
class Claim:
    """What a worker is answered."""

    word: str
    ids: list[int] = field(default_factory=list)
    wait_ms: int = -1


class Model:
    """A queue of jobs."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.jobs: dict[int, Job] = {}
        self.lines: dict[tuple[int, str], list[tuple[int, int]]] = {}
        """priority, tenant -> (id, turn); one whose job is elsewhere by now is dropped later"""
        self.rings: dict[int, list[str]] = {}
        self.credits: dict[tuple[int, str], int] = {}
        self.shares: dict[str, int] = {}
        self.aside: dict[tuple[str, str], set[tuple[int, int, int]]] = {}
        """("stray", type) or ("parked", key) -> priority, turn, id"""
        self.unparks: dict[str, float] = {}
        self.unique: dict[str, tuple[int, float]] = {}
        self.limits: dict[str, Limit] = {}
        self.buckets: dict[str, tuple[float, int]] = {}
        self.members: dict[str, tuple[str, ...] | None] = {}
        self.suspects: dict[str, int] = {}
        self.alarms: dict[str, int] = {}
        self.is_paused = False
        self.paused_types: set[str] = set()
        self.turns = 0
        self.starts = 0
        self._rooms: dict[str, Room | None] = {}

    # What clients do.

    def send(self, jobs: list[Job], delay_ms: int, window_ms: int) -> dict[int, int]:
        """By position, the job that was there instead."""
        existing = {}
        for position, job in enumerate(jobs):
            holder = self._holder(job.unique)
            if holder is None:
                self._admit(job, delay_ms, window_ms)
            else:
                existing[position] = holder
                self._debounce(self.jobs.get(holder), job, delay_ms)
        return existing

    def cancel(self, id: int) -> str:
        job = self.jobs.get(id)
        if job is None or job.state in FINAL:
            return job.state if job else "absent"
        if job.state == "running":
            job.is_cancel_asked = True
            return "asked"
        self._end(job, "cancelled")
        return "cancelled"

    def retry(self, id: int) -> str:
        job = self.jobs.get(id)
        if job is None or job.state not in ("dead", "cancelled"):
            return job.state if job else "absent"
        if self._holder(job.unique) not in (None, id):
            return "taken"
        job.failures = job.crashes = 0
        job.since = self.now
        if job.mode in ("queued", "done"):
            self.unique[job.unique] = (id, NEVER)
        self._join(job)
        return "retried"

    def remove(self, id: int) -> str:
        job = self.jobs.get(id)
        if job is None or job.state == "running":
            return job.state if job else "absent"
        self._free(job, "queued", "done", "window", "scheduled")
        del self.jobs[id]
        return "removed"

    def change(self, id: int, delay_ms: int | None = None, priority: int = 0) -> tuple[str, Any]:
        job = self.jobs.get(id)
        if job is None or job.state not in WAITING:
            return ("state", job.state) if job else ("absent", None)
        if delay_ms is None:
            if job.priority != priority:
                job.priority = priority
                if job.state == "ready":
                    self._join(job)
        elif delay_ms > 0:
            job.state, job.since = "scheduled", self.now + delay_ms
        elif job.state == "scheduled":
            job.since = self.now
            self._join(job)
        return "ok", job.state

    def purge(self, keep_ms: int, keep_count: int, limit: int) -> int:
        gone = 0
        for states in (("done", "cancelled"), ("dead",)):
            kept = sorted(
                (job.finished, str(job.id)) for job in self.jobs.values() if job.state in states
            )
            for index, (finished, id) in enumerate(kept):
                is_surplus = len(kept) - index > keep_count
                if gone == limit or not (is_surplus or finished <= self.now - keep_ms):
                    break
                del self.jobs[int(id)]
                gone += 1
        return gone

    def set_limit(self, key: str, limit: Limit | None) -> None:
        if limit is None:
            self.limits.pop(key, None)
            self.buckets.pop(key, None)
        else:
            self.limits[key] = limit
        for parked in self.unparks:
            if key in ("*", parked):
                self.unparks[parked] = self.now

    # What workers do.

    def start(self, worker: str, limit: int) -> Claim:
        claim = self._hand_out(worker, limit)
        self._rooms.clear()
        return claim

    def report(self, worker: str, outcomes: list[tuple[int, str, int]], limit: int) -> Claim:
        """`outcomes` are (id, outcome, delay_ms) of jobs that the worker holds."""
        self._settle(outcomes)
        claim = self._hand_out(worker, limit) if limit else Claim("idle")
        self._rooms.clear()
        return claim

    def leave(self, worker: str, is_lost: bool) -> None:
        outcomes = []
        for job in self.held(worker):
            is_over = is_lost or job.is_at_most_once
            outcomes.append((job.id, "lost" if is_over else "stopped", 0))
        del self.members[worker]
        self.alarms.pop(worker, None)
        self._settle(outcomes)
        self._rooms.clear()

    def held(self, worker: str) -> list[Job]:
        """In the order in which they were started."""
        held = (job for job in self.jobs.values() if job.worker == worker)
        return sorted(held, key=lambda job: job.started)

    # Where jobs stand.

    def _admit(self, job: Job, delay_ms: int, window_ms: int) -> None:
        self.turns += 1
        job.turn, job.since = self.turns, self.now + delay_ms
        self.jobs[job.id] = job
        if job.unique:
            until = self.now + window_ms if job.mode == "window" else NEVER
            self.unique[job.unique] = (job.id, until)
        if delay_ms:
            job.state = "scheduled"
        else:
            self._push(job)

    def _debounce(self, old: Job | None, new: Job, delay_ms: int) -> None:
        if old and old.state == "scheduled" and old.mode == new.mode == "scheduled":
            for name in ("type", "priority", "tenant", "key", "attempts", "expires_ms"):
                setattr(old, name, getattr(new, name))
            old.is_kept, old.is_at_most_once = new.is_kept, new.is_at_most_once
            old.since = self.now + delay_ms

    def _holder(self, unique: str) -> int | None:
        id, until = self.unique.get(unique, (0, 0))
        return id if until > self.now else None

    def _free(self, job: Job, *modes: str) -> None:
        if job.mode in modes and self.unique.get(job.unique, (0, 0))[0] == job.id:
            del self.unique[job.unique]

    def _join(self, job: Job) -> None:
        """To the end of its line, under a new turn."""
        self.turns += 1
        job.state, job.turn = "ready", self.turns
        self._free(job, "scheduled")
        self._push(job)

    def _push(self, job: Job) -> None:
        line = self.lines.setdefault((job.priority, job.tenant), [])
        if not line:
            self.rings.setdefault(job.priority, []).append(job.tenant)
        line.append((job.id, job.turn))

    def _return(self, jobs: list[Job]) -> None:
        """Each to its old place. What stands there out of date may go or stay."""
        for name in dict.fromkeys((job.priority, job.tenant) for job in jobs):
            returned = [job for job in jobs if (job.priority, job.tenant) == name]
            line = self.lines.setdefault(name, [])
            if not line:
                self.rings.setdefault(name[0], []).append(name[1])
            line += [(job.id, job.turn) for job in returned]
            line.sort(key=lambda entry: entry[1])

    def _is_valid(self, id: int, turn: int) -> bool:
        job = self.jobs.get(id)
        return job is not None and job.state == "ready" and job.turn == turn

    def _put_aside(self, kind: str, name: str, job: Job) -> None:
        self.aside.setdefault((kind, name), set()).add((job.priority, job.turn, job.id))

    def _end(self, job: Job, state: str) -> None:
        job.state, job.finished, job.worker = state, self.now, ""
        job.is_cancel_asked = False
        self._free(job, "queued", "done", "scheduled")
        if state == "done" and not job.is_kept:
            del self.jobs[job.id]

    # Limits.

    def _room(self, key: str) -> Room | None:
        if key not in self._rooms:
            limit = self.limits.get(key) or (self.limits.get("*") if key else None)
            running = [job for job in self.jobs.values() if job.state == "running"]
            busy = len(running) if not key else sum(job.key == key for job in running)
            self._rooms[key] = None
            if limit:
                tokens, at = self.buckets.get(key, (limit.burst, self.now))
                tokens += max(0, self.now - at) * limit.rate / limit.per_ms
                free = limit.slots - busy if limit.slots else NEVER
                tokens = min(limit.burst, tokens) if limit.rate else NEVER
                self._rooms[key] = Room(limit, free, tokens)
        return self._rooms[key]

    def _unpark(self, key: str) -> None:
        parked = self.aside.get(("parked", key), set())
        room = self._room(key)
        left = room.left() if room else NEVER
        back: list[Job] = []
        while parked and len(back) < left:
            entry = min(parked)
            parked.remove(entry)
            if self._is_valid(entry[2], entry[1]):
                back.append(self.jobs[entry[2]])
        self._return(back)
        if not parked:
            self.unparks.pop(key, None)
            self.aside.pop(("parked", key), None)
            return
        at = room.next_token_at(self.now, len(back)) if room else NEVER
        if at == NEVER and back:
            at = self.now + LOOK_AGAIN_MS
        self.unparks[key] = at

    # Handing out.

    def _hand_out(self, worker: str, limit: int) -> Claim:
        if worker not in self.members or self.is_paused:
            return Claim("paused" if worker in self.members else "not_working")
        self._promote()
        for _, key in sorted((at, key) for key, at in self.unparks.items() if at <= self.now):
            self._unpark(key)
        whole = self._room("")
        wanted = min(limit, whole.left()) if whole else limit
        if wanted < 1:
            assert whole is not None
            return Claim("limited", [], self._alarm(worker, whole.next_token_at(self.now)))
        taken, may_be_more = self._choose(worker, wanted)
        if whole:
            whole.used = len(taken)
        for key, room in self._rooms.items():
            if room and room.limit.rate and room.used:
                self.buckets[key] = (float(f"{room.tokens - room.used:.9f}"), self.now)
        for job in taken:
            job.state, job.worker, job.started = "running", worker, self.starts
            self.starts += 1
            self._free(job, "queued")
        ids = [job.id for job in taken]
        if may_be_more and len(taken) < limit and not (whole and whole.left() < 1):
            is_apart = worker in self.suspects
            word = "ok" if taken else "apart" if is_apart else "again"
            return Claim(word, ids, -1 if is_apart else 0)
        if len(taken) < limit:
            token_at = whole.next_token_at(self.now) if whole else NEVER
            return Claim("ok" if taken else "empty", ids, self._alarm(worker, token_at))
        self.alarms.pop(worker, None)
        return Claim("ok", ids)

    def _promote(self) -> None:
        due = [job for job in self.jobs.values() if job.state == "scheduled"]
        for job in sorted(due, key=lambda job: (job.since, str(job.id))):
            if job.since <= self.now:
                self._join(job)

    def _choose(self, worker: str, wanted: int) -> tuple[list[Job], bool]:
        taken: list[Job] = []
        while len(taken) < wanted:
            stray = self._stray(worker)
            level = min(self.rings, default=None)
            if level is not None and not (stray and self._comes_first(stray, level)):
                entries, settle = self._take_from_line(level, 1 if stray else wanted - len(taken))
            elif stray:
                entries, settle = [stray[1:]], None
            else:
                return taken, False
            before, rest, is_over = len(taken), [], False
            for turn, id in entries:
                if self._is_valid(id, turn):
                    if is_over or not self._examine(self.jobs[id], worker, taken):
                        is_over = True
                        rest.append((id, turn))
                    is_over = is_over or bool(taken and taken[-1].crashes >= 2)
            if settle:
                settle(len(taken) - before, rest)
            elif not rest:
                assert stray is not None
                self._leave_aside(stray)
            if is_over:
                break
        return taken, True

    def _examine(self, job: Job, worker: str, taken: list[Job]) -> bool:
        """Hand out or put aside; False if the job must stay, and all behind it."""
        types = self.members[worker]
        room = self._room(job.key) if job.key else None
        if job.expires_ms and job.since + job.expires_ms <= self.now:
            self._end(job, "dead")
        elif job.type in self.paused_types or (types is not None and job.type not in types):
            self._put_aside("stray", job.type, job)
        elif room and room.left() < 1:
            self._put_aside("parked", job.key, job)
            self.unparks[job.key] = room.next_token_at(self.now)
        elif job.crashes >= 2 and (taken or worker in self.suspects):
            return False
        else:
            taken.append(job)
            if room:
                room.used += 1
            if job.crashes >= 2:
                self.suspects[worker] = job.id
        return True

    def _take_from_line(self, level: int, at_once: int) -> tuple[list[tuple[int, int]], Any]:
        ring = self.rings[level]
        name = (level, ring[0])
        line = self.lines[name]
        is_shared = len(ring) > 1
        credit = self.credits.get(name, self.shares.get(ring[0], 1)) if is_shared else NEVER
        count = min(at_once, credit, len(line))
        entries = [(turn, id) for id, turn in line[: int(count)]]
        del line[: int(count)]

        def settle(taken: int, rest: list[tuple[int, int]]) -> None:
            line[:0] = rest
            if not line:
                del self.lines[name]
                self.credits.pop(name, None)
                ring.pop(0)
                if not ring:
                    del self.rings[level]
            elif is_shared and taken:
                self.credits[name] = int(credit) - taken
                if self.credits[name] < 1:
                    del self.credits[name]
                    ring.append(ring.pop(0))

        return entries, settle

    def _stray(self, worker: str) -> tuple[int, int, int] | None:
        types = self.members[worker]
        return min(
            (
                min(entries)
                for (kind, type), entries in self.aside.items()
                if kind == "stray"
                and type not in self.paused_types
                and (types is None or type in types)
            ),
            default=None,
        )

    def _leave_aside(self, entry: tuple[int, int, int]) -> None:
        for name, entries in list(self.aside.items()):
            if name[0] == "stray" and entry in entries:
                entries.remove(entry)
                if not entries:
                    del self.aside[name]

    def _comes_first(self, stray: tuple[int, int, int], level: int) -> bool:
        id, turn = self.lines[level, self.rings[level][0]][0]
        return stray[:2] < (level, turn if self._is_valid(id, turn) else 0)

    def _alarm(self, worker: str, token_at: float) -> int:
        """When this worker is to look again; two at a time are told."""
        due = [job.since for job in self.jobs.values() if job.state == "scheduled"]
        at = min([*due, *self.unparks.values(), token_at])
        if at == NEVER:
            return -1
        self.alarms = {w: t for w, t in self.alarms.items() if t > self.now and w != worker}
        if sum(t <= at for t in self.alarms.values()) >= ALARMS:
            return -1
        self.alarms[worker] = max(int(at), self.now + 1)
        return max(int(at) - self.now, 0)

    # What becomes of jobs.

    def _settle(self, outcomes: list[tuple[int, str, int]]) -> None:
        again: list[Job] = []
        anew: list[Job] = []
        freed: dict[str, None] = {}
        for id, outcome, delay_ms in outcomes:
            job = self.jobs[id]
            if job.key:
                freed[job.key] = None
            if self.suspects.get(job.worker) == id:
                del self.suspects[job.worker]
            job.worker = ""
            job.failures += outcome in ("failed", "final")
            job.crashes += outcome in ("crashed", "lost")
            is_over = outcome == "final" or job.failures >= job.attempts
            is_lost = outcome in ("crashed", "lost") and (job.is_at_most_once or job.crashes >= 3)
            if outcome == "cancelled" or (outcome != "done" and job.is_cancel_asked):
                self._end(job, "cancelled")
            elif outcome == "done":
                self._end(job, "done")
            elif (outcome in ("failed", "final") and is_over) or is_lost:
                self._end(job, "dead")
            elif outcome == "failed":
                job.since = self.now + delay_ms
                job.state = "scheduled"
                if not delay_ms:
                    anew.append(job)
            else:
                job.state = "ready"
                again.append(job)
        for job in anew:
            self._join(job)
        self._return(again)
        for key in freed:
            self._unpark(key)
