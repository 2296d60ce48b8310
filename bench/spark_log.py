"""How fast Spark reads a log, beside the raw limit:
`python bench/spark_log.py [--messages 1000000] [--bytes 60] [--partitions 4] [--rounds 3]`.

Everything runs by turns on one server, after a warm-up, and the best of the rounds counts; what to
look at are the ratios.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers import RedisServer

import penstock
import penstock.spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_PAGE = 2000


class Bench:
    """One server with one log, one session, and everything that is measured on them."""

    def __init__(self, spark: SparkSession, server: RedisServer, folder: Path) -> None:
        self._spark = spark
        self._server = server
        self._folder = folder
        self._numbers = count()
        self.ps = penstock.connect(server.url, namespace="bench")
        self._log = self.ps.log("clicks")

    def fill(self, messages: int, size: int, partitions: int) -> None:
        self._server.command("FLUSHALL")
        self._log = self.ps.log("clicks", partitions=partitions)
        self._log.configure(partitions)
        self._log.append_many(b"x" * size for _ in range(messages))

    def read_raw(self) -> None:
        """The raw limit: XRANGE of two thousand messages at a time, in one process."""
        gc.disable()  # which would go through the lists of lists again and again
        for number in range(self._log.facts().partitions):
            key, start = self.ps.keys.queue("clicks").partition(number).messages, "-"
            while found := self.ps.store.call(key, "XRANGE", key, start, "+", "COUNT", _PAGE):
                start = f"({found[-1][0].decode()}"
        gc.enable()

    def read(self) -> None:
        rows = self._spark.read.format("penstock").options(**self._options()).load()
        rows.write.format("noop").mode("overwrite").save()

    def stream(self) -> None:
        reader = self._spark.readStream.format("penstock").options(**self._options())
        writer = reader.option("startingOffsets", "earliest").load().writeStream.format("noop")
        folder = self._folder / f"checkpoint{next(self._numbers)}"
        started = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True)
        started.start().awaitTermination()

    def _options(self) -> dict[str, str]:
        return {"url": self._server.url, "namespace": "bench", "log": "clicks"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=60)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        spark = penstock.spark.session("local[2]")
        try:
            bench = Bench(spark, server, Path(folder))
            ways: dict[str, Callable[[], None]] = {
                "XRANGE of 2,000, one process": bench.read_raw,
                "Spark, a batch": bench.read,
                "Spark, a stream": bench.stream,
            }
            bench.fill(10_000, given.bytes, given.partitions)
            _best(ways, 1)
            bench.fill(given.messages, given.bytes, given.partitions)
            seconds = _best(ways, given.rounds)
            raw, *others = seconds
            for name, took_s in seconds.items():
                print(f"{name:32} {given.messages / took_s:12,.0f}/s")
            for name in others:
                print(f"{name} : XRANGE  {seconds[raw] / seconds[name]:.2f}")
        finally:
            spark.stop()
            server.kill()


def _best(ways: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Seconds that each way takes, the best of some rounds."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            began_at = time.perf_counter()
            way()
            best[name] = min(best[name], time.perf_counter() - began_at)
    return best


if __name__ == "__main__":
    main()
