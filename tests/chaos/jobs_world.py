"""A store, a queue of jobs with schedules and a limit, and what is expected of them together."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

from penstock.codec.values import open_result
from penstock.model.jobs import JOB_STATES, MAX_CRASHES, MAX_LAPSES
from tests.chaos.faults import cut_all
from tests.chaos.harness import World, until
from tests.chaos.jobs_functions import LIMITED_AT_ONCE
from tests.chaos.jobs_journal import JobJournal, by_key, most_at_once
from tests.invariants import assert_invariants
from tests.job_invariants import check_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from penstock.model.jobs import EndedAttempt, JobInfo, JobState
    from tests.chaos.jobs_journal import JobRecord, Key
    from tests.chaos.jobs_producers import Sent
    from tests.servers import RedisServer

_SCHEDULES = {"first": "all", "second": "all", "third": "once"}
_UNFINISHED: tuple[JobState, ...] = ("scheduled", "blocked", "ready", "running")


class JobWorld(World):
    """Everything that one chaos test of jobs has."""

    module = "tests.chaos.jobs_functions"

    def __init__(self, server: RedisServer, namespace: str, folder: Path) -> None:
        super().__init__(server, namespace, folder)
        self.jobs = self.ps.jobs(self.queue.name)
        self.schedules = self.ps.schedules(self.queue.name)
        self.runs = JobJournal(self.journal.path)
        self._first_slots: dict[str, float] = {}

    def begin_schedules(self) -> None:
        """A few that fire every second. Two send a job for each slot, whatever happens."""
        for name, misfire in _SCHEDULES.items():
            state = self.schedules.add(
                name,
                "tick",
                {"name": name},
                every=1,
                misfire=misfire,  # type: ignore[arg-type]
                tags=[name],
            )
            assert state.next_at is not None
            self._first_slots[name] = state.next_at

    def end_schedules(self) -> dict[str, tuple[int, int]]:
        """How many slots of each there were, and how many jobs they have sent."""
        found = {}
        for name, first_at in self._first_slots.items():
            while True:
                next_at = self.schedules.get(name).next_at
                sent = sum(self.jobs.counts(tag=name).values())
                if next_at is not None and next_at == self.schedules.get(name).next_at:
                    break
            self.schedules.remove(name)
            found[name] = (round(next_at - first_at), sent)
        return found

    def drain_jobs(self, timeout_s: float = 40.0) -> None:
        """Until every job has come to an end."""

        def is_drained() -> bool:
            counts = self.jobs.counts()
            return not any(counts[state] for state in _UNFINISHED)

        until(is_drained, timeout_s)

    def all_jobs(self) -> dict[str, JobInfo]:
        found = {}
        for state in JOB_STATES:
            cursor = ""
            while True:
                page = self.jobs.page(state, after=cursor, limit=500)
                found.update({job.id: job for job in page.jobs})
                cursor = page.cursor
                if not cursor:
                    break
        return found

    def history(self) -> list[EndedAttempt]:
        found: list[EndedAttempt] = []
        while page := self.jobs.history(found[-1].place if found else "-"):
            found += page
        return found

    def assert_every_job_has_ended_once(self, sent: Mapping[str, Sent]) -> dict[str, JobInfo]:
        """Nothing lost, nothing made up; each attempt ran and ended once, and the record, the
        history and the journal tell the same story.
        """
        jobs, ends = self.all_jobs(), by_key(self.history())
        starts, stops = self.runs.of("start"), self.runs.of("end", "fail")
        ticks = {id for id, job in jobs.items() if job.type == "tick"}
        assert jobs.keys() - ticks == sent.keys()
        assert {record.job for record in starts.values()} <= jobs.keys()
        assert starts.keys() <= ends.keys()
        for job in jobs.values():
            _check_job(job, ends, stops)
        return jobs

    def assert_limits_held(self, sent: Mapping[str, Sent]) -> None:
        """No more of a limited or unique kind ran at once than may."""
        ends = by_key(self.history())
        limited = {id for id, job in sent.items() if job.type == "limited"}
        most = most_at_once(self.runs, ends, lambda id: "host" if id in limited else None)
        assert most.get("host", 0) <= LIMITED_AT_ONCE
        keys = {id: job.unique for id, job in sent.items() if job.unique}
        assert set(most_at_once(self.runs, ends, keys.get).values()) <= {1}

    def assert_nothing_is_left_behind(self) -> None:
        """Of workers nothing at all; and of the queue nothing, once it is deleted."""
        assert self.ps.workers() == []
        snapshot = check_jobs(self.ps.store, self.ps.keys.queue(self.queue.name))
        assert not snapshot.totals.members
        assert not (snapshot.running or snapshot.types or snapshot.suspects or snapshot.alarms)
        assert not snapshot.totals.idle
        assert not (snapshot.busy or snapshot.unique or snapshot.lines or snapshot.parked)
        assert_invariants(self.ps)
        self.jobs.delete()
        keys = [key.decode() for key in self.server.client.scan_iter(count=10_000)]
        assert [key for key in keys if ":memory:" not in key] == []

    def close(self) -> None:
        super().close()
        self.runs.close()


def _check_job(
    job: JobInfo, ends: Mapping[Key, EndedAttempt], stops: Mapping[Key, JobRecord]
) -> None:
    attempts = [key for number in range(1, 300) if (key := (job.id, number)) in ends]
    outcomes = [ends[key].outcome for key in attempts]
    assert len(outcomes) == job.attempts_made, (job, outcomes)
    assert outcomes.count("failed") == job.failures, (job, outcomes)
    assert outcomes.count("lost") + outcomes.count("crashed") == job.crashes, (job, outcomes)
    for key, outcome in zip(attempts, outcomes, strict=True):
        if outcome in ("done", "failed"):
            assert stops[key].kind == {"done": "end", "failed": "fail"}[outcome]
    assert outcomes.count("lapsed") == job.lapses, (job, outcomes)
    if job.crashes == MAX_CRASHES:
        assert (job.state, job.reason) == ("dead", "poison")
    elif job.lapses == MAX_LAPSES:
        assert (job.state, job.reason) == ("dead", "lapsed")
    elif job.type == "doomed":
        assert (job.state, job.reason, job.failures) == ("dead", "failed", 3)
    else:
        assert job.state == "done", job
        assert outcomes.count("done") == 1
        assert outcomes[-1] == "done"
        assert open_result(job.outcome) == stops[attempts[-1]].token


class StoreFaults:
    """Cuts connections and forgets scripts all the time, and kills the store now and then, for the
    time of a `with` block. The store keeps what it has acknowledged.
    """

    def __init__(self, world: World, kills_at_s: list[float], seed: int) -> None:
        self.cuts = self.flushes = self.kills = 0
        self.away_s = 0.0
        """the longest time that the store was away"""
        self._world = world
        self._kills_at_s = sorted(kills_at_s)
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-faults")
        self._error: BaseException | None = None

    def __enter__(self) -> StoreFaults:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()
        if self._error is not None and error is None:
            raise self._error

    def _run(self) -> None:
        began_at = time.monotonic()
        try:
            while not self._stopping.wait(self._random.uniform(0.2, 1.0)):
                if self._kills_at_s and time.monotonic() - began_at > self._kills_at_s[0]:
                    self._kills_at_s.pop(0)
                    self._kill()
                elif self._random.random() < 0.5:
                    self.cuts += cut_all(self._world)
                else:
                    self._world.server.command("SCRIPT", "FLUSH")
                    self.flushes += 1
        except BaseException as error:
            self._error = error

    def _kill(self) -> None:
        killed_at = time.monotonic()
        self._world.server.kill()
        self._world.server.start()
        self.away_s = max(self.away_s, time.monotonic() - killed_at)
        self.kills += 1
