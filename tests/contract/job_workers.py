"""Workers for the tests of jobs: one whose every request the test makes, and one that runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.codec.attempts import pack_error
from penstock.codec.progress import pack_progress
from penstock.codec.values import pack_result
from penstock.model.jobs import HandedOut, JobError, Progress, Report
from penstock.store.commands import jobs, workers
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import penstock
    from penstock.model.claims import Claim
    from penstock.model.queues import KindName, Returned
    from tests.stored import Stored

MINUTE_MS = 60_000


def written(stored: Stored) -> dict[str, object]:
    """Everything that is stored but what is remembered about requests."""
    return {key: value for key, value in stored.everything().items() if ":memory:" not in key}


def age_job(ps: penstock.Penstock, job: penstock.Job[Any], by_ms: int) -> None:
    """Let a job have ended that long ago."""
    tag = ps.keys.queue(job.queue).tag
    seconds, _ = ps.store.call(tag, "TIME")
    ended_ms = int(seconds) * 1000 - by_ms
    number, facts = str(job._number), f"{tag}:facts"
    before = round(job.info().finished_at * 1000).to_bytes(6)
    text = ps.store.call(facts, "HGET", facts, number).replace(before, ended_ms.to_bytes(6))
    ps.store.call(facts, "HSET", facts, number, text)
    for key in (f"{tag}:finished", f"{tag}:buried"):
        ps.store.call(key, "ZADD", key, "XX", ended_ms, number)


def now_s(mail: penstock.Jobs) -> float:
    """The clock of the store."""
    seconds, microseconds = mail._store.call(mail._keys.meta, "TIME")
    return int(seconds) + int(microseconds) / 1e6


class Hand:
    """A worker that does nothing by itself. Its lease outlasts any test."""

    def __init__(
        self,
        ps: penstock.Penstock,
        name: str = "hand",
        types: Sequence[str] | None = None,
        queue: str = "mail",
        slots: int = 0,
    ) -> None:
        self.id = name
        self.keys = ps.keys.queue(queue)
        self._ps = ps
        self._store = ps.store
        about = json.dumps({"concurrency": slots} if slots else {})
        self._store.run_once(lambda o: workers.start_worker(ps.keys, o, name, MINUTE_MS, about))
        self._store.run(workers.start_work(ps.keys, name, queue, "jobs"))
        ps.queue(queue)._in_queue(
            lambda incarnation: self._store.run_once(
                lambda o: jobs.join_jobs(self.keys, o, name, types, incarnation)
            )
        )

    def claim(self, limit: int = 1, wait: bool = True, offer: int = 0) -> Claim[HandedOut]:
        """One request for jobs."""
        return self._store.run_once(
            lambda o: jobs.start_jobs(self.keys, o, self.id, limit, wait, offer)
        )

    def take(self, limit: int = 1) -> list[HandedOut]:
        """Jobs, by as many requests as the store asks for."""
        claim = self.claim(limit)
        while claim.word == "again":
            claim = self.claim(limit)
        return list(claim.found)

    def take_one(self) -> HandedOut:
        [job] = self.take()
        return job

    def take_named(self, limit: int = 1) -> list[Any]:
        """What the data of the next jobs say."""
        return [json.loads(job.data) for job in self.take(limit)]

    def run_all(self) -> list[Any]:
        """Run one job after the other until none is left; returns what their data say."""
        ran = []
        while taken := self.take():
            ran += [json.loads(job.data) for job in taken]
            assert self.report(*(Report(job.process, "done") for job in taken)) == []
        return ran

    def wait_and_run_all(self) -> list[Any]:
        """The same as soon as there is something to run."""
        ran: list[Any] = []

        def has_run() -> bool:
            ran.extend(self.run_all())
            return ran != []

        wait_for(has_run)
        return ran

    def report(self, *reports: Report) -> list[int]:
        """Say what became of jobs; returns the processes of which nothing was believed."""
        claim = self._store.run_once(
            lambda o: jobs.report_jobs(self.keys, o, self.id, list(reports))
        )
        return claim.refused

    def finish(self, job: HandedOut, result: object = None) -> bool:
        """False if it was refused."""
        return not self.report(Report(job.process, "done", 20, 10, 0, "", pack_result(result)))

    def fail(self, job: HandedOut, message: str = "no", delay_ms: int = 0) -> bool:
        error = pack_error(JobError("ValueError", message, "Traceback"))
        return not self.report(Report(job.process, "failed", 20, 10, delay_ms, "", error))

    def reject(self, job: HandedOut, reason: str = "rejected") -> bool:
        error = pack_error(JobError("Reject", "of no use"))
        return not self.report(Report(job.process, "final", 20, 10, 0, reason, error))

    def crash(self, job: HandedOut) -> bool:
        error = pack_error(JobError("JobCrashed", "ended by signal 9 (SIGKILL), peak memory 7 MiB"))
        return not self.report(Report(job.process, "crashed", 20, 10, 0, "", error))

    def stop(self, *held: HandedOut) -> bool:
        """Give jobs back at no cost."""
        return not self.report(*(Report(job.process, "stopped") for job in held))

    def end(self, job: HandedOut) -> bool:
        """Say that a job has ended because it was asked to."""
        return not self.report(Report(job.process, "cancelled"))

    def end_as(self, job: HandedOut, state: str) -> None:
        """Let a job come to one of its ends."""
        ends: dict[str, Callable[[HandedOut], bool]] = {
            "done": self.finish,
            "dead": self.fail,
            "cancelled": self.end,
        }
        assert ends[state](job)

    def note(self, job: HandedOut, percent: float | None, *lines: bytes, data: Any = None) -> bool:
        """Say on behalf of a running job how far it is; False if it is not held any more."""
        progress = b"" if percent is None else pack_progress(Progress(percent, data))
        return self._store.run_once(
            lambda o: jobs.note_job(self.keys, o, self.id, job.process, progress, lines)
        )

    def leave(self) -> Returned | KindName:
        """Give everything back and go."""
        return self._store.run_once(lambda o: jobs.leave_jobs(self.keys, o, self.id, is_lost=False))

    def die(self) -> Returned:
        """Die, and be reported dead by its parent."""
        return self._ps.fail_worker(self.id, "signal 9 (SIGKILL), peak memory 7 MiB")

    def expire(self, ago_s: float) -> None:
        """Let its lease have lapsed so long ago, and nobody have seen it yet."""
        command = workers.keep_worker_alive(self._ps.keys, self.id, -round(1000 * ago_s))
        self._store.run(command)

    def lapse(self) -> Returned:
        """Not renew its lease, and be given up by a peer."""
        return self._ps.fail_worker(self.id)
