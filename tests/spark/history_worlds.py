"""Queues with a history, and readers of it without Spark: its calls are made one by one here."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from penstock.model.jobs import Report
from penstock.spark.clients import find_connection
from penstock.spark.history_columns import SCHEMA
from penstock.spark.history_reader import HistoryReader
from penstock.spark.history_stream import HistoryStreamReader
from penstock.spark.kinds import READ_HISTORY
from penstock.spark.options import Request, parse_request
from tests.contract.job_workers import Hand

if TYPE_CHECKING:
    import penstock
    from penstock.spark.store import Connection
    from tests.servers import RedisCluster, RedisServer

Rows = list[dict[str, Any]]


class HistoryWorld:
    """One namespace with queues that get a history."""

    def __init__(self, ps: penstock.Penstock, server: RedisServer | RedisCluster) -> None:
        self._ps = ps
        self._server = server
        self._hands: dict[str, Hand] = {}
        self._numbers = count()

    def end_jobs(self, number: int, queue: str = "mail", **settings: Any) -> list[str]:
        """Let so many jobs be done; returns their ids."""
        sent = self._ps.jobs(queue).add_many("email", range(number), **settings)
        if queue not in self._hands:
            self._hands[queue] = Hand(self._ps, f"hand-{next(self._numbers)}", queue=queue)
        hand = self._hands[queue]
        while taken := hand.take(1000):
            hand.report(*(Report(job.process, "done", 20, 10) for job in taken))
        return [job.id for job in sent]

    def reset(self, queue: str = "mail") -> None:
        """Delete a queue; what comes next makes it anew."""
        self._hands.pop(queue).leave()
        self._ps.jobs(queue).delete()

    def batch(self, **options: str) -> Rows:
        """What a batch read returns."""
        reader = self.batch_reader(**options)
        return rows_of([part for each in reader.partitions() for part in reader.read(each)])

    def batch_reader(self, **options: str) -> HistoryReader:
        return HistoryReader(self._request(options), self._connection())

    def stream(self, offset: dict[str, Any] | None = None, /, **options: str) -> Stream:
        reader = HistoryStreamReader(self._request(options), self._connection())
        return Stream(reader, offset)

    def _request(self, options: dict[str, str]) -> Request:
        return parse_request([READ_HISTORY], {"history": "mail", **options})

    def _connection(self) -> Connection:
        return find_connection(self._server.url, self._ps.keys.namespace)


class Stream:
    """A query as Spark would run it: one micro-batch after the other."""

    def __init__(self, reader: HistoryStreamReader, offset: dict[str, Any] | None = None) -> None:
        self.reader = reader
        self.offset = offset or reader.initialOffset()
        self._is_committed = True

    def plan(self, limit: ReadLimit | None = None) -> dict[str, Any]:
        """The offset up to which the next batch goes."""
        return self.reader.latestOffset(self.offset, limit or self.reader.getDefaultReadLimit())

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


def copy_last_entry(client: Any, key: str, copies: int) -> Counter[str]:
    """Make a history longer at once; returns the places of all its entries."""
    [(_, fields)] = client.xrevrange(key, count=1)
    pipeline = client.pipeline(transaction=False)
    for _ in range(copies):
        pipeline.xadd(key, fields)
    pipeline.execute()
    return places_in(client, key)


def places_in(client: Any, key: str) -> Counter[str]:
    return Counter(place.decode() for place, _ in client.xrange(key))


def rows_of(batches: list[pa.RecordBatch]) -> Rows:
    rows: Rows = pa.Table.from_batches(batches, SCHEMA).to_pylist()
    return rows


EVERYTHING = ReadAllAvailable()
AT_MOST = ReadMaxRows
