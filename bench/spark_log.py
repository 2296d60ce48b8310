"""How fast Spark reads a log and appends to one, beside the raw limit:
`python bench/spark_log.py [--messages 1000000] [--bytes 60] [--partitions 4] [--rounds 3]`.

Everything runs by turns on one server, after a warm-up, and the best of the rounds counts; what to
look at are the ratios. Of a stream, also what its micro-batch took by itself: a query is started
once, and then runs for days.
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

from bench.log_figures import Bare
from tests.servers import RedisServer

import penstock
import penstock.spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_PAGE = 2000
_TASKS = 4


class Bench:
    """One server with one log, one session, and everything that is measured on them."""

    def __init__(self, spark: SparkSession, server: RedisServer, folder: Path) -> None:
        self._spark = spark
        self._server = server
        self._folder = folder
        self._numbers = count()
        self.ps = penstock.connect(server.url, namespace="bench")
        self._log = self.ps.log("clicks")
        self._messages = self._size = 0
        self.stream_s = 0.0
        """what the micro-batches of the last stream took"""

    def fill(self, messages: int, size: int, partitions: int) -> None:
        self._messages, self._size = messages, size
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
        query = started.start()
        query.awaitTermination()
        self.stream_s = sum(
            progress["durationMs"]["triggerExecution"] / 1000 for progress in query.recentProgress
        )

    def append_raw(self) -> None:
        """The raw limit: pipelined XADD of a body, five hundred at a time, in one process."""
        gc.disable()
        Bare(str(self._server.socket)).append("{raw}", [b"x" * self._size] * self._messages)
        gc.enable()
        self._server.command("DEL", "{raw}")

    def write(self) -> None:
        self._write("lpad(cast(id as string), {}, 'x') as body")

    def write_keys(self) -> None:
        self._write(
            "lpad(cast(id as string), {}, 'x') as body", "concat('user-', id % 1000) as key"
        )

    def _write(self, *columns: str) -> None:
        """Append rows to another log, each once."""
        rows = self._spark.range(0, self._messages, 1, _TASKS)
        frame = rows.selectExpr(*(column.format(self._size) for column in columns))
        writer = frame.write.format("penstock").mode("append").options(**self._options("copy"))
        writer.option("partitions", self._log.facts().partitions).save()

    def forget_copy(self) -> None:
        self.ps.log("copy").delete()

    def _options(self, log: str = "clicks") -> dict[str, str]:
        return {"url": self._server.url, "namespace": "bench", "log": log}


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
            bench.fill(10_000, given.bytes, given.partitions)
            _measure(bench, 1)
            bench.fill(given.messages, given.bytes, given.partitions)
            best = _measure(bench, given.rounds)
            for name, (took_s, limit) in best.items():
                ratio = best[limit][0] / took_s
                print(f"{name:32} {given.messages / took_s:12,.0f}/s   {ratio:.2f} of {limit}")
        finally:
            spark.stop()
            server.kill()


def _measure(bench: Bench, rounds: int) -> dict[str, tuple[float, str]]:
    """Seconds that each way takes, the best of some rounds, and the limit it is compared with."""
    read, append = "XRANGE of 2,000, one process", "XADD of 500, one process"
    ways: dict[str, tuple[Callable[[], None], str]] = {
        read: (bench.read_raw, read),
        "Spark, a batch": (bench.read, read),
        "Spark, a stream with its start": (bench.stream, read),
        append: (bench.append_raw, append),
        "Spark, exactly once": (bench.write, append),
        "Spark, exactly once, with keys": (bench.write_keys, append),
    }
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, (way, _limit) in ways.items():
            gc.collect()
            began_at = time.perf_counter()
            way()
            found.setdefault(name, []).append(time.perf_counter() - began_at)
            bench.forget_copy()
        found.setdefault("Spark, a micro-batch", []).append(bench.stream_s)
    limits = {name: limit for name, (_, limit) in ways.items()}
    return {name: (min(times), limits.get(name, read)) for name, times in found.items()}


if __name__ == "__main__":
    main()
