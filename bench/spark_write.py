"""How fast Spark writes to a queue, beside the raw limit and what people do today:
`python bench/spark_write.py [--rows 1000000] [--grown 10000000] [--rounds 3]`.

Everything runs by turns on one server, after a warm-up, and the best of the rounds counts; what to
look at are the ratios. With `--grown` the cost of a row is compared with that of so many rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.servers import RedisServer

import penstock
import penstock.spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

_PARTITIONS = 4
_AT_ONCE = 1000


class Bench:
    """One server, one session, and everything that is measured on them."""

    def __init__(self, spark: SparkSession, server: RedisServer, rows: int) -> None:
        self._spark = spark
        self._server = server
        self._rows = rows
        self.ps = penstock.connect(server.url, namespace="bench")

    def run(self, rounds: int) -> dict[str, float]:
        """Rows a second of each way, the best of some rounds."""
        ways: dict[str, Callable[[int], float]] = {
            "LPUSH of 1,000, one process": self.push,
            "Spark, tasks, exactly once": self.write_tasks,
            "add_many, one process": self.add_many,
            "Spark, jobs, exactly once": self.write_jobs,
        }
        today: dict[str, Callable[[int], float]] = {
            "foreachPartition, pipeline of single LPUSH": lambda n: self.push_each(n, 1),
            "foreachPartition, LPUSH of 1,000": lambda n: self.push_each(n, _AT_ONCE),
        }
        for way in ways.values():
            way(10_000)
        found = dict.fromkeys(ways, 0.0)
        for _ in range(rounds):
            for name, way in ways.items():
                found[name] = max(found[name], self._rows / way(self._rows))
        # They take long, so once and with fewer rows, after a warm-up of their own.
        for name, way in today.items():
            way(10_000)
            found[name] = (self._rows // 4) / way(self._rows // 4)
        return found

    def push(self, rows: int) -> float:
        """The raw limit: packed by hiredis, a thousand values a command."""
        values = [b"%060d" % number for number in range(_AT_ONCE)]
        call = self.ps.store.call
        began_at = time.perf_counter()
        for _ in range(rows // _AT_ONCE):
            call("{raw}", "LPUSH", "{raw}", *values)
        return self._cleared(time.perf_counter() - began_at)

    def write_tasks(self, rows: int) -> float:
        return self._timed(self._write(self._tasks(rows)).option("queue", "mail"))

    def write_jobs(self, rows: int) -> float:
        data = self._spark.range(0, rows, 1, _PARTITIONS)
        frame = data.selectExpr("concat('a', id, '.png') as path", "100 as width")
        return self._timed(self._write(frame).option("jobs", "images").option("type", "resize"))

    def add_many(self, rows: int) -> float:
        items = ({"path": f"a{number}.png", "width": 100} for number in range(rows))
        began_at = time.perf_counter()
        self.ps.jobs("images").add_many("resize", items)
        return self._cleared(time.perf_counter() - began_at)

    def push_each(self, rows: int, at_once: int) -> float:
        path = str(self._server.socket)

        def push(part: Iterable[Any]) -> None:
            import redis  # noqa: PLC0415 - on the executor

            pipeline = redis.Redis(unix_socket_path=path).pipeline(transaction=False)
            values: list[str] = []
            for row in part:
                values.append(row[0])
                if len(values) == at_once:
                    pipeline.lpush("{raw}", *values)
                    values.clear()
                if len(pipeline) >= _AT_ONCE // at_once + 1:
                    pipeline.execute()
            if values:
                pipeline.lpush("{raw}", *values)
            pipeline.execute()

        frame = self._tasks(rows)
        began_at = time.perf_counter()
        frame.foreachPartition(push)
        return self._cleared(time.perf_counter() - began_at)

    def _tasks(self, rows: int) -> DataFrame:
        data = self._spark.range(0, rows, 1, _PARTITIONS)
        return data.selectExpr("lpad(cast(id as string), 60, 'x') as payload")

    def _write(self, frame: DataFrame) -> DataFrameWriter:
        writer = frame.write.format("penstock").option("url", self._server.url)
        return writer.option("namespace", "bench").mode("append")

    def _timed(self, writer: DataFrameWriter) -> float:
        began_at = time.perf_counter()
        writer.save()
        return self._cleared(time.perf_counter() - began_at)

    def _cleared(self, took_s: float) -> float:
        self._server.command("FLUSHALL")
        return took_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--grown", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder)).start()
        spark = penstock.spark.session("local[2]")
        try:
            bench = Bench(spark, server, given.rows)
            found = bench.run(given.rounds)
            tasks, jobs = found["Spark, tasks, exactly once"], found["Spark, jobs, exactly once"]
            for name, speed in found.items():
                print(f"{name:45} {speed:12,.0f}/s")
            single = found["foreachPartition, pipeline of single LPUSH"]
            print(f"tasks : LPUSH         {tasks / found['LPUSH of 1,000, one process']:.2f}")
            print(f"jobs : add_many       {jobs / found['add_many, one process']:.2f}")
            print(f"tasks : single LPUSH  {tasks / single:.1f}")
            if given.grown:
                small = bench.write_tasks(given.rows) / given.rows
                large = bench.write_tasks(given.grown) / given.grown
                print(f"cost of a row, {given.grown:,} : {given.rows:,} rows  {large / small:.2f}")
        finally:
            spark.stop()
            server.kill()


if __name__ == "__main__":
    main()
