"""`format("penstock")`: decides by the options which reader or writer does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pyspark.sql.datasource import DataSource

from penstock.errors import InvalidArgument
from penstock.model.staging import NOT_KEPT, Keep, batch_tag
from penstock.spark import schemas
from penstock.spark.clients import find_connection
from penstock.spark.history_reader import HistoryReader
from penstock.spark.history_stream import HistoryStreamReader
from penstock.spark.job_packing import job_packer
from penstock.spark.job_reader import JobReader
from penstock.spark.kinds import READ_HISTORY, READ_JOBS, READ_LOG, READ_QUEUE
from penstock.spark.log_packing import message_columns
from penstock.spark.log_reader import LogReader
from penstock.spark.log_sink import LogTarget
from penstock.spark.log_stream import LogStreamReader
from penstock.spark.options import parse_request
from penstock.spark.packing import task_packer
from penstock.spark.sink import BatchSink, StreamSink, Target
from penstock.spark.task_reader import TaskReader
from penstock.spark.write_kinds import WRITE_JOBS, WRITE_LOG, WRITE_QUEUE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from penstock.spark.options import Kind, Request
    from penstock.spark.packing import Packer
    from penstock.spark.store import Connection


class Readable(NamedTuple):
    """How one kind is read."""

    schema: StructType
    reader: Callable[[Request, Connection], DataSourceReader]
    stream_reader: Callable[[Request, Connection], DataSourceStreamReader] | None = None


class Writable(NamedTuple):
    """How one kind is written."""

    holds: Literal["tasks", "jobs"]
    packer: Callable[[Request, StructType, int], Packer]


_WAIT_S = 600.0
"""How long `save()` waits when nothing finds room in the queue."""

WRITERS: dict[Kind, Writable] = {
    WRITE_QUEUE: Writable("tasks", task_packer),
    WRITE_JOBS: Writable("jobs", job_packer),
}
WRITES = (*WRITERS, WRITE_LOG)

READERS: dict[Kind, Readable] = {
    READ_JOBS: Readable(schemas.JOBS, JobReader),
    READ_QUEUE: Readable(schemas.TASKS, TaskReader),
    READ_HISTORY: Readable(schemas.HISTORY, HistoryReader, HistoryStreamReader),
    READ_LOG: Readable(schemas.MESSAGES, LogReader, LogStreamReader),
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

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        request = self._read_request()
        readable = READERS[request.kind]
        if readable.stream_reader is None:
            raise InvalidArgument(
                f"option {request.kind.target.name!r} is not read as a stream, only history and "
                "logs are; use read instead of readStream, or the option 'history' or 'log'"
            )
        _check_schema(schema, readable.schema)
        return readable.stream_reader(request, find_connection(request.url, request.namespace))

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        request = self._write_request(overwrite)
        return BatchSink(self._target(request, schema), request.values["batch_id"])

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        request = self._write_request(overwrite)
        return StreamSink(self._target(request, schema, is_stream=True))

    def _write_request(self, is_overwrite: bool) -> Request:
        request = parse_request(WRITES, self.options)
        if is_overwrite:
            what = "log" if request.kind is WRITE_LOG else "queue"
            raise InvalidArgument(
                f"a {what} cannot be overwritten, as that would remove work which others have "
                "sent; write with mode('append') or output mode 'append'"
            )
        return request

    def _target(
        self, request: Request, schema: StructType, is_stream: bool = False
    ) -> Target | LogTarget:
        connection = find_connection(request.url, request.namespace)
        values = request.values
        if request.kind is WRITE_LOG:
            return LogTarget(
                connection=connection,
                log=request.target,
                columns=message_columns(schema),
                partitions=values["partitions"],
                max_staged_bytes=values["max_staged_bytes"],
                bad_rows=values["bad_rows"],
            )
        kind, make_packer = WRITERS[request.kind]
        wait_s = values["wait_timeout"]
        if wait_s is None and not is_stream:  # a stream waits for as long as it takes
            wait_s = _WAIT_S
        return Target(
            connection=connection,
            queue=request.target,
            kind=kind,
            packer=make_packer(request, schema, connection.settings.max_payload),
            max_staged_bytes=values["max_staged_bytes"],
            bad_rows=values["bad_rows"],
            is_moved=values["wait"] == "moved",
            keep=_keep(request),
            wait_s=wait_s,
        )

    def _read_request(self) -> Request:
        return parse_request(READERS, self.options)


def _keep(request: Request) -> Keep:
    keep_s, batch_id = request.values.get("keep_for"), request.values["batch_id"]
    return NOT_KEPT if keep_s is None else Keep(batch_tag(batch_id), round(1000 * keep_s))


def _check_schema(given: StructType, fixed: StructType) -> None:
    """Refuse a schema of the user's own, which would not be what the batches are like."""
    if given != fixed:
        raise InvalidArgument(
            f"the schema is given as {given.simpleString()}, but it is always "
            f"{fixed.simpleString()}; leave out schema(), and select or cast columns afterwards"
        )
