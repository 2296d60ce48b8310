"""Writes a DataFrame to a queue, each row once: executors stage, the driver decides and moves.

Spark may run a task twice, at the same time or after each other, and may repeat a whole batch. Each
attempt stages under a name of its own, and only the attempts that Spark commits are decided.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from penstock.connection.staging import decide_batch, drop_stages, move_batches, stage_chunk
from penstock.errors import ProtocolError
from penstock.model.staging import Stage
from penstock.spark.bad_rows import BadRows, bad_rows_of
from penstock.store.keys import NamespaceKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.connection.store import Store
    from penstock.model.staging import Keep, Moved
    from penstock.spark.log_sink import LogTarget
    from penstock.spark.packing import Chunk, Packer
    from penstock.spark.store import Connection
    from penstock.store.keys import QueueKeys

log = logging.getLogger("penstock.spark")

_QUERY_ID, _BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark tells a task about the streaming query that it belongs to."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where rows go, and how; the same for batches and streams."""

    connection: Connection
    queue: str
    kind: Literal["tasks", "jobs"]
    packer: Packer
    max_staged_bytes: int
    bad_rows: str | None
    """a folder for rows that cannot be sent; None: they refuse the batch"""
    is_moved: bool
    """whether the write ends when all is in the queue, not already when that is decided"""
    keep: Keep
    """for how long jobs of the batch are kept once they have ended"""
    wait_s: float | None
    """for how long nothing may find room before the write ends all the same"""

    @property
    def keys(self) -> QueueKeys:
        return self.connection.keys(self.queue)

    def write(self, batches: Iterator[pa.RecordBatch], batch: str, query: str = "") -> Staged:
        """Stage all rows of one partition, on an executor. `batch` names what is staged together,
        so that its size can be limited.
        """
        with self.connection.open() as store:
            stage = _StageWriter(store, self.keys, batch, self.max_staged_bytes)
            with bad_rows_of(self.bad_rows, stage.name) as bad_rows:
                for rows in batches:
                    for chunk in self.packer.pack(rows, bad_rows.collector(rows)):
                        stage.add(chunk)
        return Staged(stage.result(), bad_rows.written(), query)

    def decide(self, messages: Sequence[Staged], batch: str, version: int) -> None:
        """Make what was staged part of the queue, on the driver's machine, and move it there."""
        stages = [message.stage for message in messages]
        rows = sum(stage.rows for stage in stages)
        namespace = NamespaceKeys(self.connection.settings.namespace)
        with self.connection.open() as store:
            is_new = decide_batch(
                store, namespace, self.queue, self.kind, batch, version, stages, self.keep
            )
            BadRows.publish([message.bad_rows for message in messages], batch, version)
            log.info(
                "batch decided queue=%s batch=%s rows=%d is_new=%s", self.queue, batch, rows, is_new
            )
            if self.is_moved:
                moved = move_batches(store, self.keys, self.kind, self.wait_s)
                self._tell(batch, moved)

    def drop(self, messages: Sequence[Staged | None]) -> None:
        """Free what was staged for a batch that Spark has given up."""
        staged = [message for message in messages if message is not None]
        with self.connection.open() as store:
            drop_stages(store, self.keys, [message.stage.name for message in staged])
        BadRows.discard([message.bad_rows for message in staged])

    def _tell(self, batch: str, moved: Moved) -> None:
        if moved.merged:
            log.warning(
                "jobs of a batch were not added, as their id or unique key was taken "
                "queue=%s batch=%s jobs=%d",
                *(self.queue, batch, moved.merged),
            )
        if moved.left:
            log.warning(
                "the queue has no room, so the rest of the batch is moved when it has, by workers "
                "and later writes queue=%s batch=%s left=%d",
                *(self.queue, batch, moved.left),
            )


@dataclass(slots=True)
class Staged(WriterCommitMessage):
    """What one attempt tells the driver."""

    stage: Stage
    bad_rows: str
    """the file with rows that could not be sent, or empty"""
    query: str
    """the streaming query, or empty"""


class BatchSink(DataSourceArrowWriter):
    """One `df.write`. Spark sends the same object to all executors and back to commit."""

    def __init__(self, target: Target | LogTarget, batch_id: str | None) -> None:
        self._target = target
        self._attempt = secrets.token_hex(8)
        self._batch = f"batch {batch_id or self._attempt}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return self._target.write(iterator, self._attempt)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._target.decide(_all_of(messages), self._batch, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._target.drop(messages)  # type: ignore[arg-type]


class StreamSink(DataSourceStreamArrowWriter):
    """One micro-batch of `df.writeStream`. Spark makes another object to commit, so what that needs
    to know travels in the messages.
    """

    def __init__(self, target: Target | LogTarget) -> None:
        self._target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        query, batch = _query_of_task()
        return self._target.write(iterator, f"{query}.{batch}", query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = _all_of(messages)
        if staged:
            self._target.decide(staged, f"query {staged[0].query}", batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._target.drop(messages)  # type: ignore[arg-type]


class _StageWriter:
    """Stages chunks under a name that no other attempt has."""

    def __init__(self, store: Store, keys: QueueKeys, batch: str, max_bytes: int) -> None:
        self.name = secrets.token_hex(8)
        self._store = store
        self._keys = keys
        self._batch = batch
        self._max_bytes = max_bytes
        self._chunks = self._rows = self._largest = 0

    def add(self, chunk: Chunk) -> None:
        stage_chunk(
            *(self._store, self._keys, self._batch, self.name),
            *(self._chunks, chunk.data, self._max_bytes),
        )
        self._chunks += 1
        self._rows += chunk.rows
        self._largest = max(self._largest, chunk.largest)

    def result(self) -> Stage:
        return Stage(self.name, self._chunks, self._rows, self._largest)


def _all_of(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    """The messages of a batch that Spark commits; it has one of each partition."""
    staged = [message for message in messages if isinstance(message, Staged)]
    if len(staged) != len(messages):
        raise ProtocolError(
            f"Spark commits a batch with {len(messages) - len(staged)} partitions that were not "
            "written, so it is not decided; run the write again"
        )
    return staged


def _query_of_task() -> tuple[str, str]:
    context = TaskContext.get()
    query = context.getLocalProperty(_QUERY_ID) if context else None
    batch = context.getLocalProperty(_BATCH_ID) if context else None
    if not query or batch is None:
        raise ProtocolError(
            "this version of Spark does not tell a task its streaming query, so a batch that is "
            "repeated could not be told from a new one; use a version of pyspark that penstock is "
            "tested with"
        )
    return query, batch
