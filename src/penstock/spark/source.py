"""`format("penstock")`: decides by the options which reader or writer does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSource

from penstock.errors import InvalidArgument
from penstock.spark import schemas
from penstock.spark.job_reader import JobReader
from penstock.spark.kinds import READ_JOBS, READ_QUEUE
from penstock.spark.options import parse_request
from penstock.spark.store import find_connection
from penstock.spark.task_reader import TaskReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

    from penstock.spark.options import Kind, Request
    from penstock.spark.store import Connection


class Readable(NamedTuple):
    """How one kind is read."""

    schema: StructType
    reader: Callable[[Request, Connection], DataSourceReader]


READERS: dict[Kind, Readable] = {
    READ_JOBS: Readable(schemas.JOBS, JobReader),
    READ_QUEUE: Readable(schemas.TASKS, TaskReader),
}


class PenstockSource(DataSource):
    """The data source. Spark makes one for each read and write, in a process of its own."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        return READERS[self._read_request().kind].schema

    def reader(self, schema: StructType) -> DataSourceReader:
        request = self._read_request()
        readable = READERS[request.kind]
        _check_schema(schema, readable.schema)
        return readable.reader(request, find_connection(request.url, request.namespace))

    def _read_request(self) -> Request:
        return parse_request(READERS, self.options)


def _check_schema(given: StructType, fixed: StructType) -> None:
    """Refuse a schema of the user's own, which would not be what the batches are like."""
    if given != fixed:
        raise InvalidArgument(
            f"the schema is given as {given.simpleString()}, but it is always "
            f"{fixed.simpleString()}; leave out schema(), and select or cast columns afterwards"
        )
