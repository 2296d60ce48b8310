"""Writes a DataFrame to a log, each row once: executors stage, the driver decides and moves."""

from __future__ import annotations

import logging
import secrets
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.connection.log_batches import append_batch, drop_stages, open_log
from penstock.errors import StageLost
from penstock.model.staging import Stage
from penstock.spark.bad_rows import BadRows, bad_rows_of
from penstock.spark.log_packing import MessagePacker
from penstock.spark.sink import Staged
from penstock.store.commands.staging import stage_chunk
from penstock.store.keys import NamespaceKeys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.connection.store import Store
    from penstock.spark.log_packing import MessageChunk
    from penstock.spark.store import Connection
    from penstock.store.keys import QueueKeys

log = logging.getLogger("penstock.spark")


@dataclass(slots=True)
class LogStaged(Staged):
    """What one attempt tells the driver; its stage lies in several partitions."""

    born: str
    """of the log that it was staged for"""
    stages: dict[int, dict[str, int]]
    """partition -> stage -> chunks"""


@dataclass(frozen=True, slots=True)
class LogTarget:
    """Where rows go, and how; the same for batches and streams."""

    connection: Connection
    log: str
    columns: frozenset[str]
    partitions: int
    """that the log is made with, if there is none"""
    max_staged_bytes: int
    bad_rows: str | None
    """a folder for rows that cannot be sent; None: they refuse the batch"""

    def write(self, batches: Iterator[pa.RecordBatch], batch: str, query: str = "") -> LogStaged:
        """Stage all rows of one Spark partition, on an executor."""
        namespace = NamespaceKeys(self.connection.settings.namespace)
        name = secrets.token_hex(8)
        with self.connection.open() as store:
            facts = open_log(store, namespace, self.log, self.partitions)
            stages = _Stages(store, namespace.queue(self.log), batch, name, self.max_staged_bytes)
            max_payload = self.connection.settings.max_payload
            packer = MessagePacker(self.columns, facts.partitions, max_payload)
            with bad_rows_of(self.bad_rows, name) as bad_rows:
                for rows in batches:
                    for chunk in packer.pack(rows, bad_rows.collector(rows)):
                        stages.add(chunk)
                for chunk in packer.rest():
                    stages.add(chunk)
        return LogStaged(stages.total(), bad_rows.written(), query, facts.born, stages.found)

    def decide(self, messages: Sequence[Staged], batch: str, version: int) -> None:
        """Make what was staged part of the log, on the driver's machine, and move it there."""
        staged = _of_logs(messages)
        stages: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for message in staged:
            for number, names in message.stages.items():
                stages[number].update(names)
        born = {message.born for message in staged}
        if len(born) != 1:
            raise StageLost(
                f"log {self.log!r} was made anew while batch {batch!r} was written; write it again"
            )
        with self.connection.open() as store:
            keys = self.connection.keys(self.log)
            is_new = append_batch(store, keys, born.pop(), batch, version, stages)
        BadRows.publish([message.bad_rows for message in messages], batch, version)
        rows = sum(message.stage.rows for message in messages)
        log.info("batch decided log=%s batch=%s rows=%d is_new=%s", self.log, batch, rows, is_new)

    def drop(self, messages: Sequence[Staged | None]) -> None:
        """Free what was staged for a batch that Spark has given up."""
        staged = _of_logs(messages)
        with self.connection.open() as store:
            for message in staged:
                drop_stages(store, self.connection.keys(self.log), message.stages)
        BadRows.discard([message.bad_rows for message in staged])


def _of_logs(messages: Sequence[Staged | None]) -> list[LogStaged]:
    return [message for message in messages if isinstance(message, LogStaged)]


class _Stages:
    """Stages chunks under a name that no other attempt has, in each partition."""

    def __init__(
        self, store: Store, keys: QueueKeys, batch: str, name: str, max_bytes: int
    ) -> None:
        self.found: dict[int, dict[str, int]] = {}
        self._rows = 0
        self._store = store
        self._keys = keys
        self._batch = batch
        self._name = name
        self._max_bytes = max_bytes

    def add(self, chunk: MessageChunk) -> None:
        chunks = self.found.setdefault(chunk.partition, {self._name: 0})
        self._store.run(
            stage_chunk(
                *(self._keys.partition(chunk.partition), self._batch, self._name),
                *(chunks[self._name], chunk.data, self._max_bytes),
            )
        )
        chunks[self._name] += 1
        self._rows += chunk.rows

    def total(self) -> Stage:
        chunks = sum(names[self._name] for names in self.found.values())
        return Stage(self._name, chunks, self._rows, 0)
