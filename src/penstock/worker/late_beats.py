"""Renews the lease of a worker whose own beat is late, from its parent process.

A job in C code that holds the GIL stops every thread of its worker, also the one that renews the
lease. Peers would take the worker for dead and run the job a second time beside the first. Its
parent can tell: the process is there and is not stopped. So the parent renews the lease, for as
long as the job may take, and says so in the log of the job.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client.client import Penstock
from penstock.errors import LeaseLost, PenstockError
from penstock.model.workers import lease_clock
from penstock.store.commands import job_records, jobs, workers

if TYPE_CHECKING:
    from penstock.connection.settings import Settings
    from penstock.model.jobs import JobInfo
    from penstock.worker.shared_memory import SharedMemory

log = logging.getLogger("penstock.worker")

LONGEST_S = 60.0
"""how long the lease of a silent worker is renewed for a job that has no timeout"""
_LOOK_S = 0.5
_SOONEST_S = 0.02
_NOT_ALIVE = "TtZXx"
"""states of a process that is stopped or dead, as the kernel writes them"""


@dataclass
class _Silence:
    """Since when a worker has not renewed its lease by itself."""

    worker: str
    since: float
    until: float
    """when its parent ceases to do so"""
    held: list[JobInfo] = field(default_factory=list)
    """what it runs, as far as is known"""
    is_told: bool = False
    """those jobs have it in their logs"""
    is_over: bool = False
    """nothing more can be done"""


class LateBeats:
    """A thread of the parent, so that a slow store keeps it neither from passing signals on nor
    from hearing of the worker's death. To be entered after the worker was forked.
    """

    def __init__(self, settings: Settings, child: int, shared: SharedMemory) -> None:
        self._settings = settings
        self._child = child
        self._shared = shared
        self._beats = shared.beats
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock_late_beats", daemon=True)
        self._client: Penstock | None = None
        self._silence: _Silence | None = None

    def __enter__(self) -> LateBeats:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()  # soon: each request gives up, and no thread may be there at a fork

    def close(self) -> None:
        """Close the connection, if there is one; the thread does this at its end."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def look(self) -> None:
        """Renew the lease if that is due. The thread does this again and again."""
        worker, renewed_at = self._shared.worker, self._beats.renewed_at
        silence = self._silence
        if silence is not None and (silence.worker, silence.since) != (worker, renewed_at):
            self._end(silence, worker, renewed_at)
            silence = self._silence = None
        is_late = worker and renewed_at and lease_clock() - renewed_at >= self._beats.late_s
        if not is_late or _state(self._child) in _NOT_ALIVE:
            return
        silence = self._silence = silence or self._begin(worker, renewed_at)
        if not silence.is_over:
            self._renew(silence)

    def _run(self) -> None:
        while not self._ended.wait(self._wait_s()):
            try:
                self.look()
            except PenstockError as error:
                # There is a next look, and if there is not, the lease lapses as it always did.
                log.warning("could not renew the lease of a silent worker error=%s", error)
        self.close()

    def _wait_s(self) -> float:
        if not self._shared.worker or not self._beats.renewed_at:
            return _LOOK_S
        if self._silence is not None:
            return min(self._beats.heartbeat_s, _LOOK_S)
        return max(_SOONEST_S, self._beats.renewed_at + self._beats.late_s - lease_clock())

    def _begin(self, worker: str, since: float) -> _Silence:
        silence = _Silence(worker, since, since + LONGEST_S)
        with suppress(PenstockError):  # more important is that the lease is renewed
            silence.held = self._held_by(worker)
        if silence.held:
            silence.until = since + max(job.timeout_s or LONGEST_S for job in silence.held)
        return silence

    def _renew(self, silence: _Silence) -> None:
        now = lease_clock()
        said = f"the worker has not answered for {now - silence.since:.1f} s"
        if now >= silence.until:
            silence.is_over = True
            log.error("%s, so its parent lets its lease lapse id=%s", said, silence.worker)
            self._note(silence, f"{said}; its parent process lets its lease lapse")
            return
        client = self._opened()
        command = workers.keep_worker_alive(client.keys, silence.worker, self._beats.lease_ms)
        try:
            client.store.run(command)
        except LeaseLost:
            silence.is_over = True
            log.error("%s, and peers have given its work back id=%s", said, silence.worker)
            return
        if not silence.is_told:
            silence.is_told = True
            log.warning("%s, but lives, so its parent renews its lease id=%s", said, silence.worker)
            self._note(silence, f"{said}, but lives: its parent process renews its lease")

    def _end(self, silence: _Silence, worker: str, renewed_at: float) -> None:
        """The worker has renewed its lease by itself, or has left, or goes on under a new name."""
        if worker != silence.worker or not silence.is_told:
            return
        said = f"the worker did not answer for {renewed_at - silence.since:.1f} s, but lived"
        log.warning("%s id=%s", said, worker)
        self._note(silence, said)

    def _note(self, silence: _Silence, line: str) -> None:
        """In the logs of the jobs, if they are still held."""
        client = self._opened()
        for job in silence.held:
            if self._ended.is_set():
                return
            keys = client.keys.queue(job.queue)
            client.store.run_once(
                partial(
                    jobs.note_job,
                    keys,
                    worker=silence.worker,
                    process=job.process,
                    lines=[line.encode()],
                )
            )

    def _held_by(self, worker: str) -> list[JobInfo]:
        """The jobs that have its slots. What else it holds was started later, and waits."""
        client = self._opened()
        held: list[JobInfo] = []
        for queue, kind in client.store.run(workers.list_served(client.keys, worker)):
            if kind != "jobs":
                continue
            keys = client.keys.queue(queue)
            ids = client.store.run(job_records.list_running(keys, worker))[: self._beats.slots]
            if ids:
                found = client.store.run(job_records.read_jobs(keys, ids, with_data=False))
                held += [job for job in found if job is not None and job.worker == worker]
        return sorted(held, key=lambda job: job.started_at)[: self._beats.slots]

    def _opened(self) -> Penstock:
        """A connection of this thread's own. It gives up soon: there is always a next look."""
        if self._client is None:
            timeout_s = max(self._beats.heartbeat_s, 0.2)
            client = Penstock(replace(self._settings, retry_for_s=0.0, timeout_s=timeout_s))
            self._client = client.open()
        return self._client


def _state(process: int) -> str:
    """What the kernel says that a process does, in one letter; X if it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "X"
