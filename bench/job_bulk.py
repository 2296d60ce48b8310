"""How long any single script keeps the server busy when a million jobs fall due at once, are
purged, listed or deleted: `python bench/job_bulk.py [--jobs 1000000]`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.servers import RedisServer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import penstock
from penstock.model.jobs import JobClaim, Report
from penstock.store.commands import jobs, workers

QUEUE = "bulk"
WORKER = "bench.1"
_BATCH = 1000
_DATA = b"x" * 100


class Stopwatch:
    """The longest script since the last look, by the server's own clock (SLOWLOG)."""

    def __init__(self, server: RedisServer) -> None:
        self._client = server.client
        self._client.config_set("slowlog-log-slower-than", 500)
        self._client.config_set("slowlog-max-len", 100_000)
        self._client.slowlog_reset()

    def longest_ms(self) -> float:
        entries = self._client.slowlog_get(100_000)
        self._client.slowlog_reset()
        return max((entry["duration"] for entry in entries), default=0) / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        try:
            figures = measure(server, options.jobs)
        finally:
            server.kill()
    for name, figure in figures.items():
        print(f"{name:<44} {figure['longest_ms']:>8.2f} ms longest script  {figure['s']:>7.1f} s")
    if options.out:
        options.out.write_text(json.dumps(figures, indent=2) + "\n")


def measure(server: RedisServer, count: int) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    watch = Stopwatch(server)
    with penstock.connect(server.url, namespace="bulk") as ps:
        queue = ps.jobs(QUEUE)

        def timed(name: str, act: Any) -> None:
            began_at = time.perf_counter()
            act()
            took_s = time.perf_counter() - began_at
            figures[name] = {"longest_ms": watch.longest_ms(), "s": took_s}

        due_ms = int(server.client.time()[0] + 2 + count / 20_000) * 1000
        timed(f"send {count:,} that fall due in one ms", lambda: send_due(ps, count, due_ms))
        while server.client.time()[0] * 1000 < due_ms:
            time.sleep(0.1)
        join(ps)
        timed("start and finish them all", lambda: drain(ps, count))
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
    ps.store.run(workers.start_work(ps.keys, WORKER, QUEUE))
    keys = ps.keys.queue(QUEUE)
    ps.store.run_once(lambda o: jobs.join_jobs(keys, o, WORKER, None))
    ps.jobs(QUEUE).configure(keep_count=10_000_000, keep_bytes=10**10)


def drain(ps: penstock.Penstock, count: int) -> None:
    """As a worker would, 200 at a time."""
    keys = ps.keys.queue(QUEUE)
    done = 0
    claim: JobClaim = ps.store.run_once(lambda o: jobs.start_jobs(keys, o, WORKER, 200))
    while done < count:
        reports = [Report(job.process, "done", 100, 50, 0, "", b"j1") for job in claim.jobs]
        claim = ps.store.run_once(
            lambda o, reports=reports: jobs.report_jobs(keys, o, WORKER, reports, 200)  # type: ignore[misc]
        )
        done += len(reports)


if __name__ == "__main__":
    main()
