"""How fast workers on Spark executors are, beside as many plain workers:
`python bench/spark_run.py [--jobs 100000] [--rounds 3]`.

Both ways by turns on one server, with jobs that do nothing and with plain tasks. The queue is
paused until both workers wait for work, and the time is that from the first claim to the last
finish; the best of the rounds counts, and what to look at are the ratios.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers import RedisServer

import penstock

if TYPE_CHECKING:
    from collections.abc import Callable

_WORKERS = 2
_MASTER = f"local-cluster[{_WORKERS},1,1024]"
_PLAIN, _SPARK = "two plain workers", "two workers on Spark executors"
_APP = """
import penstock

@penstock.job(queue="jobs", type="nothing")
def nothing(number):
    return None

@penstock.handler("tasks")
def nothing_either(task, context):
    return None
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name)
        (folder / "bench_app.py").write_text(_APP)
        server = RedisServer(folder, "--appendonly", "yes", "--appendfsync", "everysec").start()
        try:
            for kind in ("jobs", "tasks"):
                compare(server, folder, kind, given.jobs, given.rounds)
        finally:
            server.stop()


def compare(server: RedisServer, folder: Path, kind: str, count: int, rounds: int) -> None:
    rates: dict[str, list[float]] = {_PLAIN: [], _SPARK: []}
    for _ in range(rounds):
        for way, found in rates.items():
            found.append(count / measure(server, folder, kind, count, way))
    best = {way: max(found) for way, found in rates.items()}
    for way, rate in best.items():
        print(f"{kind:6} {way:32} {rate:10,.0f}/s")
    print(f"{kind:6} ratio {best[_SPARK] / best[_PLAIN]:.2f}, 0.8 is wanted", flush=True)


def measure(server: RedisServer, folder: Path, kind: str, count: int, way: str) -> float:
    """Seconds from the first claim to the last finish."""
    server.command("FLUSHALL")
    environment = {**os.environ, "PENSTOCK_URL": server.url, "PENSTOCK_NAMESPACE": "bench"}
    with penstock.connect(server.url, namespace="bench") as ps:
        queue = ps.queue(kind)
        if kind == "jobs":
            ps.jobs(kind).add_many("nothing", [{"number": number} for number in range(count)])
        else:
            queue.enqueue_many(b"%d" % number for number in range(count))
        queue.pause()
        started = [
            subprocess.Popen(
                [sys.executable, "-m", "penstock", *command, "--until-empty"],
                cwd=folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for command in commands(kind, way)
        ]
        try:
            until(lambda: len(ps.workers()) == _WORKERS, started)
            # So that nobody begins while a worker is still busy with its own start.
            until(lambda: queue.inspect().idle == _WORKERS, started)
            queue.resume()
            until(lambda: queue.inspect().counters.started > 0, started)
            began_at = time.perf_counter()
            until(lambda: queue.inspect().counters.finished >= count, started)
            return time.perf_counter() - began_at
        finally:
            for process in started:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(60)
                process.kill()
                process.wait()


def commands(kind: str, way: str) -> list[list[str]]:
    if way == _PLAIN:
        return [["worker", "run", "bench_app", "-q", kind]] * _WORKERS
    options = ["--master", _MASTER, "--workers", str(_WORKERS), "--py-files", "bench_app.py"]
    return [["spark", "run", "bench_app", "-q", kind, *options]]


def until(condition: Callable[[], bool], started: list[subprocess.Popen[bytes]]) -> None:
    while not condition():
        if any(process.poll() for process in started):
            raise SystemExit("a worker has ended too early")
        time.sleep(0.005)


if __name__ == "__main__":
    main()
