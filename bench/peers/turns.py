"""What one system does in its turn of a round, on a fresh Redis."""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bench.peers import harness
from bench.peers.adapters.stopwatch import BATCH_JOBS, redis_usage
from bench.peers.harness import StepFailed, Worker
from bench.peers.report import Outcome
from bench.peers.systems import Jobs

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench.peers.harness import Server
    from bench.peers.install import Environment
    from bench.peers.systems import System

    Step = Callable[[Server, Outcome], None]

WARM_UP_SAMPLES = 20
SETTLE_S = 1.0
IDLE_S = 10.0


class Turn:
    """One system's turn in one round. What is done in it, a kind of turn says."""

    # What the adapters are told, so that they keep results or do not.
    kind: str

    def __init__(
        self, system: System, environment: Environment, options: Namespace, *, is_first: bool
    ) -> None:
        self._system = system
        self._environment = environment
        self._samples: int = options.samples
        self._call: int = options.call
        self._is_first = is_first
        fixed = options.jobs
        self._jobs = Jobs(fixed, fixed, fixed) if fixed else system.jobs

    def run(self, server: Server, outcome: Outcome) -> None:
        if self._system.has_own_producer:
            self._try(self._send, server, outcome)
        self._try(self._work, server, outcome)

    def _try(self, step: Step, server: Server, outcome: Outcome) -> None:
        try:
            step(server, outcome)
        except StepFailed as error:
            outcome.errors.append(str(error))

    def _send(self, server: Server, outcome: Outcome) -> None:
        raise NotImplementedError

    def _work(self, server: Server, outcome: Outcome) -> None:
        raise NotImplementedError

    @contextmanager
    def _drained(self, server: Server, outcome: Outcome) -> Iterator[Worker]:
        """A worker that has just emptied a queue, and how fast it was."""
        server.flush()
        queued = int(self._adapter(server, "enqueue-bulk", self._jobs.drain)["queued"])
        records = self._records(server)
        records.write_bytes(b"")
        env = self._env(server)
        with harness.running(self._command("worker"), env, server.folder, "worker") as process:
            worker = Worker(process, server, records)
            drained = harness.drain(worker, queued)
            for figure in ("per_s", "worker_us", "redis_us"):
                if (value := drained[figure]) is not None:
                    outcome.add(f"drain_{figure}", value)
            time.sleep(SETTLE_S)
            yield worker

    def _adapter(self, server: Server, verb: str, jobs: int) -> dict[str, Any]:
        return harness.run_step(self._command(verb, str(jobs)), self._env(server), server.folder)

    def _command(self, *arguments: str) -> list[str]:
        adapter = harness.ADAPTERS / self._system.adapter
        return [*self._environment.command, str(adapter), *arguments]

    def _env(self, server: Server) -> dict[str, str]:
        source = [str(harness.ROOT / "src")] if self._system.peer == "penstock" else []
        return {
            "BENCH_KIND": self.kind,
            "BENCH_PORT": str(server.port),
            "BENCH_RECORDS": str(self._records(server)),
            "BENCH_SETTING": self._system.setting,
            "BENCH_CALL": str(self._call),
            "BENCH_PEER_DIR": str(self._environment.folder),
            "PYTHONPATH": os.pathsep.join([str(harness.ADAPTERS), *source]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _records(self, server: Server) -> Path:
        return server.folder / "records"


class TaskTurn(Turn):
    """Results not kept: enqueue, bulk, drain, pick-up latency and, once, idle."""

    kind = "tasks"

    def _send(self, server: Server, outcome: Outcome) -> None:
        one = self._adapter(server, "enqueue-one", self._jobs.one_by_one)
        outcome.add("one_per_s", one["jobs"] / one["seconds"])
        outcome.add("one_client_us", one["client_us"])
        outcome.add("one_redis_us", one["redis_us"])
        outcome.add("bytes_per_job", one["bytes_per_job"])
        server.flush()
        bulk = self._adapter(server, "enqueue-bulk", self._jobs.bulk)
        outcome.bulk = bulk["bulk"]
        if outcome.bulk != "none":
            outcome.add("bulk_per_s", bulk["jobs"] / bulk["seconds"])
            outcome.add("bulk_client_us", bulk["client_us"])
            outcome.add("bulk_redis_us", bulk["redis_us"])

    def _work(self, server: Server, outcome: Outcome) -> None:
        with self._drained(server, outcome) as worker:
            self._latency(worker, outcome)
            if self._is_first:
                time.sleep(SETTLE_S)
                quiet = harness.idle(worker, IDLE_S)
                outcome.add("idle_sent_per_s", quiet["sent_per_s"])
                outcome.add("idle_executed_per_s", quiet["executed_per_s"])
                outcome.add("idle_ms_per_s", quiet["worker_ms_per_s"])

    def _latency(self, worker: Worker, outcome: Outcome) -> None:
        start = worker.count()
        self._adapter(worker.server, "latency", WARM_UP_SAMPLES + self._samples)
        times = worker.times(start)
        waits = [(began - made) / 1e6 for began, made in times[WARM_UP_SAMPLES:]]
        outcome.add("p50_ms", harness.percentile(waits, 0.50))
        outcome.add("p99_ms", harness.percentile(waits, 0.99))


class JobTurn(Turn):
    """Results kept: bulk with the bytes of a waiting job, drain, round trip to the result."""

    kind = "jobs"

    def _send(self, server: Server, outcome: Outcome) -> None:
        if self._is_first:
            # Redis keeps something for every command and script that it has once seen.
            self._adapter(server, "enqueue-bulk", BATCH_JOBS)
            server.flush()
        empty = redis_usage(server.port)["data_bytes"]
        bulk = self._adapter(server, "enqueue-bulk", self._jobs.bulk)
        if self._is_first:
            # The producer has gone and its connections with it: what is left is the jobs.
            full = redis_usage(server.port)["data_bytes"]
            outcome.add("bytes_per_job", (full - empty) / bulk["queued"])
        outcome.bulk = bulk["bulk"]
        # Who has no bulk call sends one by one: that is as fast as it can fill a queue.
        outcome.add("bulk_per_s", bulk["jobs"] / bulk["seconds"])
        outcome.add("bulk_client_us", bulk["client_us"])
        outcome.add("bulk_redis_us", bulk["redis_us"])

    @contextmanager
    def asking(self, server: Server) -> Iterator[Callable[[int], list[float]]]:
        """A worker that waits; and how long so many jobs take there and back, in ms."""
        with (
            self._drained(server, Outcome(self._system)),
            harness.talking(self._command("roundtrips"), self._env(server), server.folder) as ask,
        ):
            yield lambda jobs: json.loads(ask(str(jobs)))["ms"]

    def _work(self, server: Server, outcome: Outcome) -> None:
        samples = WARM_UP_SAMPLES + min(self._samples, self._system.most_samples)
        with self._drained(server, outcome):
            taken = self._adapter(server, "roundtrip", samples)["ms"][WARM_UP_SAMPLES:]
            outcome.add("roundtrip_p50_ms", harness.percentile(taken, 0.50))
            outcome.add("roundtrip_p99_ms", harness.percentile(taken, 0.99))
