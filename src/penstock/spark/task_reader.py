"""Reads the waiting tasks or the dead letters of a plain queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.codec.elements import task_of
from penstock.connection.queues import inspect_queue
from penstock.errors import WrongKind
from penstock.spark.schemas import TASKS, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.spark.options import Request
    from penstock.spark.store import Connection

_PAGE = 1000
_OTHERS = {"jobs": ("holds jobs", "jobs"), "logs": ("is a log", "log")}


class TaskReader(DataSourceReader):
    """One partition: the offsets of tasks shift while work runs, so a list cannot be split.

    The list is read from the back, where tasks come in, to the front, where they leave: one that
    waits all the while is never passed over, but it may be read twice.
    """

    def __init__(self, request: Request, connection: Connection) -> None:
        self._queue = request.target
        self._is_dead = request.values["state"] == "dead"
        self._connection = connection

    def partitions(self) -> Sequence[InputPartition]:
        with self._connection.open() as store:
            kind = inspect_queue(store, self._connection.keys(self._queue)).kind
        if kind in _OTHERS:
            what, option = _OTHERS[kind]
            raise WrongKind(
                f"{self._queue!r} {what}, not plain tasks; read it with the option "
                f"{option!r} instead of 'queue'"
            )
        return [InputPartition(self._queue)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        keys = self._connection.keys(self._queue)
        key = keys.dead if self._is_dead else keys.ready
        schema = arrow_schema(TASKS)
        seen = 0
        with self._connection.open() as store:
            while True:
                length = store.call(key, "LLEN", key)
                elements = store.call(key, "LRANGE", key, seen, seen + _PAGE - 1)
                if not elements:
                    return
                # A dead task is stored as it was put in, also if it begins with the tag of unique
                # tasks.
                tasks = elements if self._is_dead else [task_of(element) for element in elements]
                last = length - 1 - seen
                positions = [max(0, last - index) for index in range(len(tasks))]
                queues = [self._queue] * len(tasks)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(column, field.type)
                        for column, field in zip((tasks, positions, queues), schema, strict=True)
                    ],
                    schema=schema,
                )
                seen += len(elements)
