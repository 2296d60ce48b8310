"""A log, and readers of it without Spark: its calls are made one by one here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.spark.clients import find_connection
from penstock.spark.kinds import READ_LOG
from penstock.spark.log_columns import SCHEMA
from penstock.spark.log_reader import LogReader
from penstock.spark.log_stream import LogStreamReader
from penstock.spark.options import Request, parse_request

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

    import penstock
    from penstock.spark.store import Connection
    from tests.servers import RedisCluster, RedisServer

Rows = list[dict[str, Any]]


class LogWorld:
    """One namespace with the log `clicks` of two partitions."""

    def __init__(self, ps: penstock.Penstock, server: RedisServer | RedisCluster) -> None:
        self.log = ps.log("clicks", partitions=2)
        self._ps = ps
        self._server = server
        self._count = 0
        self._readers: list[LogStreamReader] = []

    def close(self) -> None:
        """End the streams, as Spark does with their process."""
        for reader in self._readers:
            reader.stop()

    def append(self, number: int, partition: int | None = None) -> list[bytes]:
        """Append so many messages, to both partitions in turn; returns their bodies."""
        bodies = [b"%06d" % (self._count + index) for index in range(number)]
        self._count += number
        if partition is None:
            self.log.append_many(bodies)
        else:
            for body in bodies:
                self.log.append(body, partition=partition)
        return bodies

    def ids(self, partition: int = 0) -> list[str]:
        return [message.id for message in self.log.page(partition, limit=10_000)]

    def empty(self, partition: int = 0) -> None:
        """Let a partition be as if its store had been put back to an older state. What is appended
        afterwards has greater ids than what was there.
        """
        key = self._ps.keys.queue("clicks").partition(partition).messages
        last_ms = int(self.ids(partition)[-1].partition("-")[0])
        while self._now_ms() <= last_ms:
            pass  # for a millisecond at most
        self._ps.store.call(key, "DEL", key)

    def _now_ms(self) -> int:
        seconds, us = self._ps.store.call("{}", "TIME")
        return int(seconds) * 1000 + int(us) // 1000

    def batch(self, **options: str) -> Rows:
        """What a batch read returns."""
        reader = self.batch_reader(**options)
        return rows_of([part for each in reader.partitions() for part in reader.read(each)])

    def batch_reader(self, **options: str) -> LogReader:
        return LogReader(self._request(options), self._connection())

    def stream(self, offset: dict[str, Any] | None = None, /, **options: str) -> Stream:
        reader = LogStreamReader(self._request(options), self._connection())
        self._readers.append(reader)
        return Stream(reader, offset)

    def _request(self, options: dict[str, str]) -> Request:
        return parse_request([READ_LOG], {"log": "clicks", **options})

    def _connection(self) -> Connection:
        return find_connection(self._server.url, self._ps.keys.namespace)


class Stream:
    """A query as Spark would run it: one micro-batch after the other."""

    def __init__(self, reader: LogStreamReader, offset: dict[str, Any] | None = None) -> None:
        self.reader = reader
        self.offset = offset or reader.initialOffset()
        self._is_committed = True

    def plan(self, limit: ReadLimit | None = None) -> dict[str, Any]:
        """The offset up to which the next batch goes."""
        return self.reader.latestOffset(self.offset, limit or self.reader.getDefaultReadLimit())

    def parts(self) -> list[InputPartition]:
        return list(self.reader.partitions(self.offset, self.plan()))

    def next_batch(self) -> Rows:
        """Commits the batch before, as Spark does once the next one is planned."""
        end = self.plan()
        if not self._is_committed:
            self.reader.commit(self.offset)
        rows = self.read(self.offset, end)
        self.offset, self._is_committed = end, False
        return rows

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> Rows:
        parts = self.reader.partitions(start, end)
        return rows_of([batch for part in parts for batch in self.reader.read(part)])


def rows_of(batches: list[pa.RecordBatch]) -> Rows:
    rows: Rows = pa.Table.from_batches(batches, SCHEMA).to_pylist()
    return rows


def bodies(rows: Rows) -> list[bytes]:
    """In the order in which `LogWorld` has appended them."""
    return sorted(row["body"] for row in rows)
