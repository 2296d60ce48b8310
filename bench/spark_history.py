"""How fast Spark reads and archives history, beside the raw limit:
`python bench/spark_history.py [--entries 1000000] [--grown 10000000] [--rounds 3]`.

Everything runs by turns on one server, after a warm-up, and the best of the rounds counts; what to
look at are the ratios. With `--grown` the cost of an entry and the memory of the driver are
compared with those of so many entries.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.contract.job_workers import Hand
from tests.servers import RedisServer

import penstock
import penstock.spark
from penstock.model.jobs import Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_PAGE = 2000
_PUSH = """
local entry = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1][2]
for _ = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], '*', unpack(entry)) end
"""


class Bench:
    """One server with one long history, one session, and everything that is measured on them."""

    def __init__(self, spark: SparkSession, server: RedisServer, folder: Path) -> None:
        self._spark = spark
        self._server = server
        self._folder = folder
        self._numbers = count()
        self.ps = penstock.connect(server.url, namespace="bench")

    def fill(self, entries: int) -> None:
        """One queue with so many entries: those of a job that was done, again and again."""
        self._server.command("FLUSHALL")
        self.ps.jobs("mail").add("email", {"to": "somebody"})
        hand = Hand(self.ps)
        hand.report(*(Report(job.process, "done", 20, 10) for job in hand.take(1)))
        key = self.ps.keys.queue("mail").history
        client: Any = self._server.client
        while (left := entries - client.xlen(key)) > 0:
            client.eval(_PUSH, 1, key, min(left, 100_000))

    def read_raw(self) -> None:
        """The raw limit: XRANGE of two thousand entries at a time, in one process."""
        key = self.ps.keys.queue("mail").history
        start = "-"
        gc.disable()  # which would go through the lists of lists again and again
        while found := self.ps.store.call(key, "XRANGE", key, start, "+", "COUNT", _PAGE):
            start = f"({found[-1][0].decode()}"
        gc.enable()

    def read(self) -> None:
        reader = self._spark.read.format("penstock").option("url", self._server.url)
        rows = reader.option("namespace", "bench").option("history", "mail").load()
        rows.write.format("noop").mode("overwrite").save()

    def archive(self) -> None:
        penstock.spark.archive(
            ["mail"],
            self._folder / f"lake{next(self._numbers)}",
            url=self._server.url,
            namespace="bench",
            spark=self._spark,
        )

    def driver_memory_mb(self) -> tuple[int, int]:
        """The largest size that this process has had, and what the JVM holds after it tidied up."""
        [peak] = [
            int(line.split()[1]) // 1024
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmHWM")
        ]
        jvm: Any = self._spark.sparkContext._jvm
        jvm.java.lang.System.gc()
        runtime = jvm.java.lang.Runtime.getRuntime()
        return peak, (runtime.totalMemory() - runtime.freeMemory()) // 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--grown", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        spark = penstock.spark.session("local[2]")
        try:
            bench = Bench(spark, server, Path(folder))
            ways: dict[str, Callable[[], None]] = {
                "XRANGE of 2,000, one process": bench.read_raw,
                "Spark, into a DataFrame": bench.read,
                "Spark, into the lake": bench.archive,
            }
            _costs(bench, ways, 10_000, 1)
            costs = _costs(bench, ways, given.entries, given.rounds)
            raw, *others = costs
            for name, cost in costs.items():
                print(f"{name:32} {1 / cost:12,.0f}/s")
            for name in others:
                print(f"{name} : XRANGE  {costs[raw] / costs[name]:.2f}")
            if given.grown:
                before = bench.driver_memory_mb()
                for name, cost in _costs(bench, ways, given.grown, 1).items():
                    more = cost * given.grown - costs[name] * given.entries
                    ratio = more / (given.grown - given.entries) / costs[name]
                    print(f"{name}: cost of a further entry : cost of an entry  {ratio:.2f}")
                after = bench.driver_memory_mb()
                print(f"driver, MB (process at its largest, JVM heap): {before} -> {after}")
        finally:
            spark.stop()
            server.kill()


def _costs(
    bench: Bench, ways: dict[str, Callable[[], None]], entries: int, rounds: int
) -> dict[str, float]:
    """Seconds for an entry, the best of some rounds."""
    costs = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        bench.fill(entries)  # Redis forgets what was archived
        for name, way in ways.items():
            began_at = time.perf_counter()
            way()
            costs[name] = min(costs[name], (time.perf_counter() - began_at) / entries)
    return costs


if __name__ == "__main__":
    main()
