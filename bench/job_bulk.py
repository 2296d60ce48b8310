"""How long any single request keeps the server busy when a million jobs fall due at once, are
purged, listed or deleted: `python bench/job_bulk.py [--jobs 1000000]`.

What takes long by itself and what the machine was slow with are told apart by a script that only
writes to fields of a hash for about as long, run after each request that starts and finishes jobs.
And with `--runs 2` everything is done twice: the same request does the same, so that what it takes
by itself is not more than the shorter of the two.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers import RedisServer

import penstock
from penstock.model.jobs import Report
from penstock.store.commands import jobs, workers
from penstock.worker.sources.jobs import JobSource

QUEUE = "bulk"
WORKER = "bench.1"
_DATA = b"x" * 100
_BARE_WRITES = """
local first, steps, fields, data = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4]
for step = 1, steps do redis.call('HSET', KEYS[1], (first + step * 7919) % fields, data) end
return 1
"""
_BARE_MS = 2.0


class Stopwatch:
    """How long requests keep the server busy: the CPU time of its main thread, so that it does not
    count what else the machine was doing (Linux).
    """

    def __init__(self, server: RedisServer, client: penstock.Penstock, fields: int) -> None:
        self._schedstat = Path(f"/proc/{server.pid}/task/{server.pid}/schedstat")
        self._took_ms: list[float] = []
        self._bare_ms: list[float] = []
        self._redis: Any = server.client
        router: Any = client.store.router
        exchange = router.exchange

        def watched(*arguments: Any, **settings: Any) -> Any:
            before_ms = self._cpu_ms()
            try:
                return exchange(*arguments, **settings)
            finally:
                self._took_ms.append(self._cpu_ms() - before_ms)

        router.exchange = watched
        self._fields, self._steps = fields, 1000
        took_ms = sorted(self._write() for _ in range(2 * fields // self._steps))
        self._steps = int(self._steps * _BARE_MS / took_ms[len(took_ms) // 2])

    def write(self) -> None:
        """Keep the server busy for a while with plain commands."""
        self._bare_ms.append(self._write())

    def _write(self) -> float:
        before_ms, first = self._cpu_ms(), random.randrange(self._fields)
        self._redis.eval(_BARE_WRITES, 1, "bare", first, self._steps, self._fields, _DATA)
        return self._cpu_ms() - before_ms

    def _cpu_ms(self) -> float:
        return int(self._schedstat.read_text().split()[0]) / 1e6

    def read(self) -> dict[str, Any]:
        took_ms, self._took_ms = self._took_ms, []
        return _figures(took_ms)

    def read_bare(self) -> dict[str, Any]:
        took_ms, self._bare_ms = self._bare_ms, []
        return {**_figures(took_ms), "s": sum(took_ms) / 1000}


def _figures(each_ms: list[float]) -> dict[str, Any]:
    took_ms = sorted(each_ms)
    return {
        "each_ms": each_ms,
        "requests": len(took_ms),
        "longest_ms": took_ms[-1],
        "p99_ms": took_ms[int(0.99 * (len(took_ms) - 1))],
        "over_10_ms": sum(ms > 10 for ms in took_ms),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runs = [run(options.jobs) for _ in range(options.runs)]
    figures = runs[0]
    print("| what | longest request, ms of CPU | p99 ms | over 10 ms | requests | in all s |")
    print("|---|---|---|---|---|---|")
    for name, figure in figures.items():
        print(
            f"| {name} | {figure['longest_ms']:.1f} | {figure['p99_ms']:.1f} "
            f"| {figure['over_10_ms']:.0f} | {figure['requests']:.0f} | {figure['s']:.1f} |"
        )
    if len(runs) > 1:
        print("\nlongest request, if of each request the shortest run counts:")
    for name in figures if len(runs) > 1 else ():
        each_ms = [one[name]["each_ms"] for one in runs]
        if len(set(map(len, each_ms))) == 1:
            print(f"- {name}: {max(map(min, zip(*each_ms, strict=True))):.1f} ms")
    for figure in figures.values():
        del figure["each_ms"]
    if options.out:
        options.out.write_text(json.dumps(figures, indent=2) + "\n")


def run(count: int) -> dict[str, dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        try:
            return measure(server, count)
        finally:
            server.kill()


def measure(server: RedisServer, count: int) -> dict[str, dict[str, Any]]:
    figures: dict[str, dict[str, Any]] = {}
    with penstock.connect(server.url, namespace="bulk") as ps:
        queue = ps.jobs(QUEUE)
        watch = Stopwatch(server, ps, count)

        def timed(name: str, act: Any) -> None:
            began_at = time.perf_counter()
            act()
            took_s = time.perf_counter() - began_at
            figures[name] = {**watch.read(), "s": took_s}

        due_ms = int(server.client.time()[0] + 2 + count / 20_000) * 1000
        timed(f"send {count:,} that fall due in one ms", lambda: send_due(ps, count, due_ms))
        while server.client.time()[0] * 1000 < due_ms:
            time.sleep(0.1)
        join(ps)
        timed("start and finish them all", lambda: drain(ps, count, watch))
        figures["bare HSETs in between"] = watch.read_bare()
        timed("page of 100 done jobs, oldest", lambda: queue.page("done"))
        timed("page of 100 done jobs, newest", lambda: queue.page("done", newest_first=True))
        queue.configure(keep_s=0)
        timed("purge what is finished", queue.purge)
        timed(f"send {count:,}", lambda: queue.add_many("noop", (_DATA for _ in range(count))))
        timed("page of 100 ready jobs of a type", lambda: queue.page("ready", type="noop"))
        last = queue.page("ready", newest_first=True, limit=1).jobs[0]
        timed("explain the last one", lambda: ps.job(last.id, QUEUE).explain())
        timed("cancel the last one", lambda: ps.job(last.id, QUEUE).cancel())
        timed("delete the queue", queue.delete)
    return figures


def send_due(ps: penstock.Penstock, count: int, due_ms: int) -> None:
    at = datetime.fromtimestamp(due_ms / 1000, UTC)
    ps.jobs(QUEUE).add_many("noop", (_DATA for _ in range(count)), run_at=at)


def join(ps: penstock.Penstock) -> None:
    ps.store.run_once(lambda o: workers.start_worker(ps.keys, o, WORKER, 3_600_000, "{}"))
    ps.store.run(workers.start_work(ps.keys, WORKER, QUEUE, "jobs"))
    keys = ps.keys.queue(QUEUE)
    ps.store.run_once(lambda o: jobs.join_jobs(keys, o, WORKER, None))
    ps.jobs(QUEUE).configure(keep_count=10_000_000, keep_bytes=10**10)


def drain(ps: penstock.Penstock, count: int, watch: Stopwatch) -> None:
    """As a worker does, as many at a time."""
    keys = ps.keys.queue(QUEUE)
    done, size = 0, JobSource.at_once
    claim = ps.store.run_once(lambda o: jobs.start_jobs(keys, o, WORKER, size))
    while done < count:
        reports = [Report(job.process, "done", 100, 50, 0, "", b"j1") for job in claim.found]
        claim = ps.store.run_once(
            lambda o, reports=reports: jobs.report_jobs(keys, o, WORKER, reports, size)  # type: ignore[misc]
        )
        done += len(reports)
        watch.write()


if __name__ == "__main__":
    main()
