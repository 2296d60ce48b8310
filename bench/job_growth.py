"""Whether a job of penstock costs more when many jobs wait, or when they belong to many tenants.

    python bench/job_growth.py [--backlogs 1000,1000000] [--tenants 1,1000] [--out FILE]

A private Redis is filled, then one worker runs jobs whose handler sends as many new ones as it has
run, by the hundred (by ten for tenants, who take turns). So the backlog stays as it is, and one
process sends, starts and finishes. All loads of a table are there at once, each on a Redis of its
own, and have windows of time in turn while the others are paused, so that a slow minute of the
machine falls on all of them; figures are medians over the windows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.peers import harness
from bench.peers.adapters.stopwatch import payload, record, redis_usage, setting, url
from bench.peers.harness import StepFailed, Worker

import penstock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.peers.harness import Server

NAMESPACE = "bench"
QUEUE = "bench"
TYPE = "noop"
BATCH_JOBS = 100
# So few a call, and so many in all, that each of a thousand tenants always has some waiting.
TENANT_BATCH_JOBS = 10
TENANT_BACKLOG = 20_000
WARM_UP_S = 1.0
SETTLE_S = 0.3
FILL_TIMEOUT_S = 240.0


@dataclass(frozen=True)
class Load:
    """What waits, and how it is sent. With `tenants` 0 no job has one."""

    backlog: int
    tenants: int
    batch: int

    @classmethod
    def from_text(cls, text: str) -> Load:
        backlog, tenants, batch = (int(number) for number in text.split(","))
        return cls(backlog, tenants, batch)

    def as_text(self) -> str:
        return f"{self.backlog},{self.tenants},{self.batch}"


@dataclass(frozen=True)
class Cost:
    """Of one job: sent, started and finished."""

    wall_us: float
    client_us: float
    redis_us: float


def main() -> int:
    options = _options()
    if options.role == "fill":
        _fill()
    elif options.role == "worker":
        _work()
    else:
        _measure_all(options)
    return 0


def _options() -> argparse.Namespace:
    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",") if number]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", nargs="?", choices=("measure", "fill", "worker"), default="measure")
    parser.add_argument("--backlogs", type=numbers, default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--tenants", type=numbers, default=[1, 10, 100, 1_000])
    parser.add_argument("--windows", type=int, default=15, help="figures are medians over these")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a window")
    parser.add_argument("--redis", help="redis-server to use; the newest on the PATH by default")
    parser.add_argument("--out", type=Path, help="write every value as JSON")
    return parser.parse_args()


def _measure_all(options: argparse.Namespace) -> None:
    harness.end_cleanly_when_told_to()
    binary = options.redis or harness.find_redis_server()
    sweeps = {
        "jobs waiting": {backlog: Load(backlog, 0, BATCH_JOBS) for backlog in options.backlogs},
        "tenants": {
            tenants: Load(TENANT_BACKLOG, tenants, TENANT_BATCH_JOBS) for tenants in options.tenants
        },
    }
    found: dict[str, dict[int, Cost]] = {}
    for sweep, loads in sweeps.items():
        with ExitStack() as stack:
            workers: dict[int, Worker] = {}
            for number, load in loads.items():
                print(f"{number:,} {sweep}: filling", file=sys.stderr)
                server = stack.enter_context(harness.redis_server(binary, is_aof=True))
                workers[number] = stack.enter_context(_paused_worker(server, load))
            found[sweep] = _measure(workers, options.windows, options.seconds)
        print("\n".join(_table(sweep, found[sweep])))
    if options.out:
        plain = {
            sweep: {str(number): asdict(cost) for number, cost in costs.items()}
            for sweep, costs in found.items()
        }
        options.out.write_text(json.dumps(plain, indent=2) + "\n")


@contextmanager
def _paused_worker(server: Server, load: Load) -> Iterator[Worker]:
    """A worker that has run for a while, on a queue that is paused now."""
    records = server.folder / "records"
    records.write_bytes(b"")
    env = {
        "BENCH_KIND": "jobs",
        "BENCH_PORT": str(server.port),
        "BENCH_RECORDS": str(records),
        "BENCH_SETTING": load.as_text(),
        "PYTHONPATH": os.pathsep.join([str(harness.ROOT), str(harness.ROOT / "src")]),
    }
    command = [sys.executable, str(Path(__file__).resolve())]
    harness.run_step([*command, "fill"], env, server.folder, FILL_TIMEOUT_S)
    with harness.running([*command, "worker"], env, server.folder, "worker") as process:
        worker = Worker(process, server, records)
        worker.wait_for(1, harness.START_TIMEOUT_S)
        time.sleep(WARM_UP_S)
        with _queue_of(server) as queue:
            queue.pause()
        yield worker


@contextmanager
def _queue_of(server: Server) -> Iterator[penstock.Jobs]:
    with penstock.connect(f"redis://127.0.0.1:{server.port}", namespace=NAMESPACE) as client:
        yield client.jobs(QUEUE)


def _measure(workers: dict[int, Worker], windows: int, seconds: float) -> dict[int, Cost]:
    costs: dict[int, list[Cost]] = {number: [] for number in workers}
    for _ in range(windows):
        for number, worker in workers.items():
            with _queue_of(worker.server) as queue:
                queue.resume()
                time.sleep(SETTLE_S)
                costs[number].append(_window(worker, seconds))
                queue.pause()
            time.sleep(SETTLE_S)
    return {
        number: Cost(
            statistics.median(cost.wall_us for cost in found),
            statistics.median(cost.client_us for cost in found),
            statistics.median(cost.redis_us for cost in found),
        )
        for number, found in costs.items()
    }


def _window(worker: Worker, seconds: float) -> Cost:
    began_at, done = time.perf_counter(), worker.count()
    cpu_s, redis_s = worker.cpu_s(), redis_usage(worker.server.port)["cpu_s"]
    time.sleep(seconds)
    jobs = worker.count() - done
    if not jobs:
        said = harness.last_words(worker.server.folder, "worker")
        raise StepFailed(f"no job ran for {seconds:g} s; {said}")
    per_job = 1e6 / jobs
    return Cost(
        (time.perf_counter() - began_at) * per_job,
        (worker.cpu_s() - cpu_s) * per_job,
        (redis_usage(worker.server.port)["cpu_s"] - redis_s) * per_job,
    )


def _table(sweep: str, costs: dict[int, Cost]) -> list[str]:
    first = next(iter(costs.values()), None)
    if first is None:
        return []
    rows = [
        f"\n| {sweep} | wall us/job | client us | redis us | wall ratio | CPU ratio |",
        "|---|---|---|---|---|---|",
    ]
    for number, cost in costs.items():
        cpu = (cost.client_us + cost.redis_us) / (first.client_us + first.redis_us)
        rows.append(
            f"| {number:,} | {cost.wall_us:.1f} | {cost.client_us:.1f} | {cost.redis_us:.1f} "
            f"| {cost.wall_us / first.wall_us:.2f} | {cpu:.2f} |"
        )
    return rows


class Sender:
    """Sends jobs of no tenant, or of one tenant after the other."""

    def __init__(self, load: Load) -> None:
        self.client = penstock.connect(url(), namespace=NAMESPACE)
        self._load = load
        self._jobs = self.client.jobs(QUEUE)
        self._turns = count()
        self._owed = 0

    def send(self) -> None:
        """One call's worth."""
        data = [{"task": payload()} for _ in range(self._load.batch)]
        if self._load.tenants:
            tenant = f"t{next(self._turns) % self._load.tenants}"
            self._jobs.add_many(TYPE, data, tenant=tenant)
        else:
            self._jobs.add_many(TYPE, data)

    def replace_one(self) -> None:
        """Called once for every job that ran."""
        self._owed += 1
        if self._owed == self._load.batch:
            self._owed = 0
            self.send()


def _fill() -> None:
    load = Load.from_text(setting())
    sender = Sender(load)
    for _ in range(load.backlog // load.batch):
        sender.send()
    print(json.dumps({"jobs": load.backlog}))


def _work() -> None:
    sender = Sender(Load.from_text(setting()))

    @penstock.job(queue=QUEUE, type=TYPE)
    def noop(task: str) -> dict[str, bool] | None:
        sender.replace_one()
        return record(task)

    penstock.serve(sender.client, [noop], concurrency=1)


if __name__ == "__main__":
    sys.exit(main())
