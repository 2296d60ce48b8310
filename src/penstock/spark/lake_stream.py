"""A stream of ranges into a lake, each micro-batch once.

Spark writes down what a batch is before it runs it, and after a crash runs the same one again under
the same number. The files of a batch become part of the table with the query and this number as
the transaction, so the second time has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import StreamingQueryException

from penstock.errors import ProtocolError
from penstock.spark.failures import penstock_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.archive_source import SourceRange
    from penstock.spark.range_files import RangeCopier

_QUERY_ID = "sql.streaming.queryId"


class ArchivedBatch(NamedTuple):
    """A micro-batch that is part of the table."""

    rows: dict[str, int]
    """queue or log -> how many rows of it are in the batch"""
    ranges: list[SourceRange]
    """what was copied"""
    is_new: bool
    """False if it was there already: the query was ended before it could note that"""


class LakeStream:
    """One streaming query that puts the rows of a source into a table."""

    def __init__(self, copier: RangeCopier, then: Callable[[ArchivedBatch], None]) -> None:
        """`then` is called after each commit. If it fails, so does the query, and it is called
        again with the same batch after a restart: it must bear that.
        """
        self._copier = copier
        self._then = then
        self._failure: Exception | None = None
        self._query: StreamingQuery | None = None

    def start(self, ranges: DataFrame, checkpoint: str, name: str, every_s: float | None) -> None:
        """Begin to read a streaming DataFrame of ranges: what there is now if `every_s` is None,
        else for ever, a batch each so many seconds.
        """
        writer = ranges.writeStream.queryName(name).foreachBatch(self._put)
        writer = writer.option("checkpointLocation", checkpoint)
        trigger = (
            writer.trigger(availableNow=True)
            if every_s is None
            else writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds")
        )
        self._query = trigger.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether it has come to its end, within the time. Raises what has made it fail."""
        assert self._query is not None
        try:
            if timeout_s is None:
                self._query.awaitTermination()
                return True
            return bool(self._query.awaitTermination(max(1, round(timeout_s))))
        except StreamingQueryException as error:
            cause = self._failure or error
            raise penstock_error(cause) or cause from error

    def stop(self) -> None:
        """End it now. A batch under way is run again when the query is started again."""
        if self._query is not None:
            self._query.stop()

    def _put(self, batch: DataFrame, number: int) -> None:
        try:
            self._then(put_batch(batch, number, self._copier))
        except Exception as error:
            self._failure = error  # Spark hands on only its text
            raise


def put_batch(ranges: DataFrame, number: int, copier: RangeCopier) -> ArchivedBatch:
    """Make a micro-batch part of the table, unless it is already. One without rows is noted there
    too, so that the table always knows how far its query has come.
    """
    query = ranges.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    if not query:
        raise ProtocolError(
            "Spark did not say to which streaming query a batch belongs, so it could be archived "
            "twice; use another version of PySpark"
        )
    copied = copier.copy(ranges)
    is_new = copier.table.append([part.file for part in copied.files], query, number)
    rows: dict[str, int] = {}
    for part in copied.files:
        name = part.file.partition[copier.source.name_column]
        rows[name] = rows.get(name, 0) + part.rows
    return ArchivedBatch(rows, copied.ranges, is_new)
