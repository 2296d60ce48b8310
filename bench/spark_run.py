"""How fast workers on Spark executors are, beside as many plain workers:
`python bench/spark_run.py [--jobs 50000] [--rounds 6]`.

Both fleets are there all the time, on one server, and take turns: one is paused while the other
works. The time is that from the first claim to the last finish of jobs that do nothing, or of ten
times as many plain tasks. What to look at is the ratio of the medians, as machines are noisy.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers import RedisServer

import penstock

if TYPE_CHECKING:
    from collections.abc import Callable

_WORKERS = 2
_FLEETS = {"plain": "two plain workers", "spark": "two workers on Spark executors"}
_HEARD_S = 2.5
"""In this time each worker has heard whether it is paused."""
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
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        folder = Path(name)
        (folder / "bench_app.py").write_text(_APP)
        server = RedisServer(folder, "--appendonly", "yes", "--appendfsync", "everysec").start()
        try:
            with penstock.connect(server.url, namespace="bench") as ps:
                for queue, count in (("jobs", given.jobs), ("tasks", 10 * given.jobs)):
                    compare(ps, server.url, folder, queue, count, given.rounds)
        finally:
            server.stop()


def compare(
    ps: penstock.Penstock, url: str, folder: Path, queue: str, count: int, rounds: int
) -> None:
    environment = {**os.environ, "PENSTOCK_URL": url, "PENSTOCK_NAMESPACE": "bench"}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "penstock", *command],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands(queue)
    ]
    rates: dict[str, list[float]] = {name: [] for name in _FLEETS}
    try:
        until(lambda: len(ps.workers()) == 2 * _WORKERS, started)
        for _ in range(rounds + 1):
            for fleet, found in rates.items():
                found.append(count / measure(ps, queue, count, fleet, started))
    finally:
        for process in started:
            process.send_signal(signal.SIGINT)
        for process in started:
            process.wait(60)
    # The first round is a warm-up.
    medians = {fleet: statistics.median(found[1:]) for fleet, found in rates.items()}
    for fleet, rate in medians.items():
        print(f"{queue:6} {_FLEETS[fleet]:32} {rate:10,.0f}/s")
    print(f"{queue:6} ratio {medians['spark'] / medians['plain']:.2f}, 0.8 is wanted", flush=True)


def measure(
    ps: penstock.Penstock,
    name: str,
    count: int,
    fleet: str,
    started: list[subprocess.Popen[bytes]],
) -> float:
    """Seconds from the first claim to the last finish, by one fleet alone."""
    queue = ps.queue(name)
    queue.pause()
    for other in _FLEETS:
        (ps.resume_worker if other == fleet else ps.pause_worker)(other)
    if name == "jobs":
        ps.jobs(name).add_many("nothing", [{"number": number} for number in range(count)])
    else:
        queue.enqueue_many(b"%d" % number for number in range(count))
    time.sleep(_HEARD_S)
    before = queue.inspect().counters
    queue.resume()
    until(lambda: queue.inspect().counters.started > before.started, started)
    began_at = time.perf_counter()
    until(lambda: queue.inspect().counters.finished >= before.finished + count, started)
    return time.perf_counter() - began_at


def commands(queue: str) -> list[list[str]]:
    plain = ["worker", "run", "bench_app", "-q", queue, "--name", "plain"]
    options = ["--master", f"local-cluster[{_WORKERS},1,1024]", "--workers", str(_WORKERS)]
    options += ["--py-files", "bench_app.py", "--name", "spark"]
    return [plain] * _WORKERS + [["spark", "run", "bench_app", "-q", queue, *options]]


def until(condition: Callable[[], bool], started: list[subprocess.Popen[bytes]]) -> None:
    while not condition():
        if any(process.poll() is not None for process in started):
            raise SystemExit("a worker has ended too early")
        time.sleep(0.005)


if __name__ == "__main__":
    main()
