"""A stream of attempts into a lake, each micro-batch once.

Spark writes down what a batch is before it runs it, and after a crash runs the same one again under
the same number. The files of a batch become part of the table with the query and this number as
the transaction, so the second time has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import StreamingQueryException

from penstock.errors import ProtocolError
from penstock.model.history import place_key
from penstock.spark.failures import penstock_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.spark.range_files import RangeCopier


class ArchivedBatch(NamedTuple):
    """A micro-batch that is part of the table."""

    rows: dict[str, int]
    """queue -> how many attempts of it are in the batch"""
    places: dict[str, str]
    """queue -> the last place of it in the batch"""
    is_new: bool
    """False if it was there already: the query was ended before it could note that"""


class LakeStream:
    """One streaming query that puts attempts into a table."""

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
            done = put_batch(batch, number, self._copier)
            if done is not None:
                self._then(done)
        except Exception as error:
            self._failure = error  # Spark hands on only its text
            raise


def put_batch(ranges: DataFrame, number: int, copier: RangeCopier) -> ArchivedBatch | None:
    """Make a micro-batch part of the table, unless it is already; None if it has no rows."""
    written = copier.copy(ranges)
    if not written:
        return None
    query = written[0].query
    if not query:
        raise ProtocolError(
            "Spark did not tell the executors to which streaming query they belong, so a batch "
            "could be archived twice; use another version of PySpark"
        )
    is_new = copier.table.append([part.file for part in written], query, number)
    rows: dict[str, int] = {}
    places: dict[str, str] = {}
    for part in written:
        before = places.get(part.queue, part.last_place)
        places[part.queue] = max(before, part.last_place, key=place_key)
        rows[part.queue] = rows.get(part.queue, 0) + part.rows
    return ArchivedBatch(rows, places, is_new)
