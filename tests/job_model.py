"""What a queue of jobs does, in as few words as possible: the state machine of
`tests/contract/test_jobs_model.py` compares every answer of the store with what this says.

It knows nothing of pages, counts, records or memory; `tests/job_lines.py` has the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.job_lines import NEVER, Job, Lines, is_suspect

TURNS_A_REQUEST = 12

FINAL = ("done", "dead", "cancelled")
ALARMS = 2
"""how many workers at a time are told when to get up"""


@dataclass
class Claim:
    """What a worker is answered."""

    word: str
    ids: list[int] = field(default_factory=list)
    wait_ms: int = -1


class Model(Lines):
    """A queue of jobs."""

    def __init__(self, now: int) -> None:
        super().__init__(now)
        self.unique: dict[str, tuple[int, float]] = {}
        """key -> the job that holds it, until when"""
        self.members: dict[str, tuple[str, ...] | None] = {}
        """worker -> the types that it handles; None: all"""
        self.suspects: dict[str, int] = {}
        self.alarms: dict[str, int] = {}
        self.is_paused = False
        self.starts = 0

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

    def send_caused(self, jobs: list[Job], delay_ms: int) -> list[tuple[int, bool]]:
        """The id of each, and whether it is new."""
        sent = []
        for job in jobs:
            id, is_new = self._place(job)
            sent.append((id, is_new))
            if is_new:
                job.id = id
                self._admit(job, delay_ms, 0)
        return sent

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
        job.failures = job.crashes = job.lapses = 0
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

    def reschedule(self, id: int, delay_ms: int) -> tuple[str, Any]:
        job = self.jobs.get(id)
        if job is None or job.state not in ("ready", "scheduled"):
            return ("state", job.state) if job else ("absent", None)
        if delay_ms > 0:
            job.state, job.since = "scheduled", self.now + delay_ms
        elif job.state == "scheduled":
            job.since = self.now
            self._join(job)
        return "ok", job.state

    def reprioritise(self, id: int, priority: int) -> tuple[str, Any]:
        job = self.jobs.get(id)
        if job is None or job.state not in ("ready", "scheduled"):
            return ("state", job.state) if job else ("absent", None)
        if job.priority != priority:
            job.priority = priority
            if job.state == "ready":
                self._join(job)
        return "ok", job.state

    def purge(self, keep_ms: int, keep_count: int, limit: int) -> int:
        gone = 0
        for states in (("done", "cancelled"), ("dead",)):
            kept = [job for job in self.jobs.values() if job.state in states]
            kept.sort(key=lambda job: (job.finished, job.id))
            for index, job in enumerate(kept):
                is_surplus = len(kept) - index > keep_count
                if gone < limit and (is_surplus or job.finished <= self.now - keep_ms):
                    del self.jobs[job.id]
                    gone += 1
        return gone

    # What workers do.

    def start(self, worker: str, limit: int) -> Claim:
        self.rooms = {}
        return self._hand_out(worker, limit)

    def report(self, worker: str, outcomes: list[tuple[int, str, int]], limit: int) -> Claim:
        """`outcomes` are (id, outcome, delay_ms) of jobs that the worker holds."""
        self.rooms = {}
        self._settle(outcomes)
        return self._hand_out(worker, limit) if limit else Claim("idle")

    def leave(self, worker: str, loss: str) -> None:
        """`loss` is lost, lapsed, or empty if the worker goes in peace."""
        self.rooms = {}
        held = self.held(worker)
        del self.members[worker]
        self.alarms.pop(worker, None)
        lost = {job.id: loss or "lost" for job in held if loss or job.is_at_most_once}
        self._settle([(job.id, lost.get(job.id, "stopped"), 0) for job in held])

    def held(self, worker: str) -> list[Job]:
        """In the order in which they were started."""
        held = (job for job in self.jobs.values() if job.worker == worker)
        return sorted(held, key=lambda job: job.started)

    # How jobs come in and go.

    def _place(self, job: Job) -> tuple[int, bool]:
        """Where a job of this cause is, or the first id that is free; always in four at a time."""
        first = job.id
        while True:
            ids = range(first, first + 4)
            for id in ids:
                if id in self.jobs and self.jobs[id].cause == job.cause:
                    return id, False
            for id in ids:
                if id not in self.jobs:
                    return id, True
            first += 4

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
            self.push(job)

    def _debounce(self, old: Job | None, new: Job, delay_ms: int) -> None:
        """A job that waits to be sent once more takes on what came last, and waits anew."""
        if old and old.state == "scheduled" and old.mode == new.mode == "scheduled":
            new.id, new.turn, new.state = old.id, old.turn, old.state
            new.failures, new.crashes, new.lapses = old.failures, old.crashes, old.lapses
            new.since = self.now + delay_ms
            self.jobs[old.id] = new

    def _join(self, job: Job) -> None:
        """To the end of its line, under a new turn."""
        self.turns += 1
        job.state, job.turn = "ready", self.turns
        self._free(job, "scheduled")
        self.push(job)

    def _end(self, job: Job, state: str) -> None:
        job.state, job.finished, job.worker = state, self.now, ""
        job.is_cancel_asked = False
        self._free(job, "queued", "done", "scheduled")
        if state == "done" and not job.is_kept:
            del self.jobs[job.id]

    def _holder(self, unique: str) -> int | None:
        id, until = self.unique.get(unique, (0, 0))
        return id if until > self.now else None

    def _free(self, job: Job, *modes: str) -> None:
        if job.mode in modes and self.unique.get(job.unique, (0, 0))[0] == job.id:
            del self.unique[job.unique]

    # Handing out.

    def _hand_out(self, worker: str, limit: int) -> Claim:
        if worker not in self.members or self.is_paused:
            if worker not in self.members:
                return Claim("not_working")
            self.alarms.pop(worker, None)
            return Claim("paused")
        due = [job for job in self.jobs.values() if job.state == "scheduled"]
        for job in sorted(due, key=lambda job: (job.since, job.id)):
            if job.since <= self.now:
                self._join(job)
        for _, key in sorted((at, key) for key, at in self.unparks.items() if at <= self.now):
            self.unpark(key)
        whole = self.room("")
        wanted = min(limit, int(whole.left())) if whole else limit
        if whole and wanted < 1:
            return Claim("limited", [], self._alarm(worker, whole.next_token_at(self.now)))
        taken, may_be_more = self._choose(worker, wanted)
        if whole:
            whole.used = len(taken)
        self.close_rooms()
        for job in taken:
            job.state, job.worker, job.started = "running", worker, self.starts
            self.starts += 1
            self._free(job, "queued")
        ids = [job.id for job in taken]
        if len(taken) == limit:
            self.alarms.pop(worker, None)
            return Claim("ok", ids)
        if may_be_more and not (whole and whole.left() < 1):
            is_apart = worker in self.suspects
            if is_apart:
                self.alarms.pop(worker, None)
            word = "ok" if taken else "apart" if is_apart else "again"
            return Claim(word, ids, -1 if is_apart else 0)
        token_at = whole.next_token_at(self.now) if whole else NEVER
        return Claim("ok" if taken else "empty", ids, self._alarm(worker, token_at))

    def _choose(self, worker: str, wanted: int) -> tuple[list[Job], bool]:
        """What is handed out, and whether there may be more."""
        taken: list[Job] = []
        is_over = False
        while len(taken) < wanted and not is_over:
            source = self.next_source(
                self.members[worker], wanted - len(taken), max(1, wanted // TURNS_A_REQUEST)
            )
            if source is None:
                return taken, False
            before, rest = len(taken), []
            for entry in filter(self.is_valid, source.entries):
                if is_over or not self._examine(self.jobs[entry.id], worker, taken):
                    rest.append(entry)
                    is_over = True
                is_over = is_over or any(is_suspect(job) for job in taken)
            source.settle(len(taken) - before, rest)
        return taken, True

    def _examine(self, job: Job, worker: str, taken: list[Job]) -> bool:
        """Hand out or put aside; False if the job must stay, and all behind it."""
        types = self.members[worker]
        room = self.room(job.key) if job.key else None
        if job.expires_ms and job.since + job.expires_ms <= self.now:
            self._end(job, "dead")
        elif job.type in self.paused_types or (types is not None and job.type not in types):
            self.unhandled(job)
        elif room and room.left() < 1:
            self.park(job, room)
        elif is_suspect(job) and (taken or worker in self.suspects):
            return False  # what may have killed workers is handed out alone
        else:
            taken.append(job)
            if room:
                room.used += 1
            if is_suspect(job):
                self.suspects[worker] = job.id
        return True

    def _alarm(self, worker: str, token_at: float) -> int:
        """When this worker is to look again; -1: when woken."""
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
            has_failed, has_crashed = outcome in ("failed", "final"), outcome in ("crashed", "lost")
            has_lapsed = outcome == "lapsed"
            job.failures += has_failed
            job.crashes += has_crashed
            job.lapses += has_lapsed
            is_over = has_failed and (outcome == "final" or job.failures >= job.attempts)
            is_lost_too_often = job.is_at_most_once or job.crashes >= 3 or job.lapses >= 10
            is_poison = (has_crashed or has_lapsed) and is_lost_too_often
            if outcome == "cancelled" or (outcome != "done" and job.is_cancel_asked):
                self._end(job, "cancelled")
            elif outcome == "done":
                self._end(job, "done")
            elif is_over or is_poison:
                self._end(job, "dead")
            elif has_failed:
                job.state, job.since = "scheduled", self.now + delay_ms
                if not delay_ms:
                    anew.append(job)
            else:
                job.state = "ready"
                if outcome != "not begun":
                    job.since = self.now
                again.append(job)
        for job in anew:
            self._join(job)
        self.give_back(again)
        for key in freed:
            if key in self.parked:
                self.unpark(key)
