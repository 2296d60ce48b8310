"""All answers about one lake, small enough for one machine."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from penstock.errors import LakeNotFound
from penstock.spark.history_lake import Lake, unreadable_explained
from penstock.spark.reports import attempts as of_attempts
from penstock.spark.reports.buckets import bucket, step_for
from penstock.spark.reports.load import backlog, flow, placed
from penstock.spark.reports.outlook import backtest, outlook
from penstock.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame


_LEAST_S = 60


@dataclass(frozen=True, slots=True)
class Report:
    """What a lake says about a span of time. Times are in UTC."""

    lake: str
    since: datetime
    until: datetime
    step_s: int
    """the length of a step in tables over time"""
    tables: dict[str, pa.Table]
    """by the names in TABLES; `penstock.spark.reports` documents their columns"""

    def write_parquet(self, folder: str | Path) -> list[Path]:
        """One Parquet file for each table, over what was there."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        paths = [place / f"{name}.parquet" for name in self.tables]
        for path, table in zip(paths, self.tables.values(), strict=True):
            pq.write_table(table, path)
        return paths


def make_report(
    path: str | Path,
    queues: Sequence[str] = (),
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Ask a lake everything, about all of its time and queues or some.

    `progress` is called with the name of each table before it is worked out. Raises LakeNotFound if
    there is no lake, or nothing in it of this time and these queues, and LakeUnreadable if its
    files are missing or broken.
    """
    active = spark or SparkSession.getActiveSession() or session()
    lake = Lake(path, storage_options)
    attempts = _chosen(lake.read(active), "ended_at", queues, since, until)
    counts = _chosen(lake.read_if_there(active, "counts"), "at", queues, since, until)
    attempts = attempts.persist(StorageLevel.MEMORY_AND_DISK)
    with unreadable_explained(lake.uri), _unpersisted(attempts):
        ends = _ends(attempts, counts)
        if ends is None:
            raise LakeNotFound(
                f"the lake {lake.uri} has nothing of the queues and times that were asked for; "
                "leave out --queue, --since or --until, or archive first"
            )
        first, last = since or ends[0], until or ends[1]
        step_s = step_for((last - first).total_seconds())
        counts = placed(counts, last, step_s)
        tables: dict[str, pa.Table] = {}
        for name, question in _QUESTIONS.items():
            if progress is not None:
                progress(name)
            asked = _Asked(active, attempts, counts, first, last, step_s, tables)
            tables[name] = question(asked).toArrow()
    return Report(lake.uri, first, last, step_s, tables)


@contextmanager
def _unpersisted(rows: DataFrame) -> Iterator[None]:
    """They are not kept in the end, also if an error comes."""
    try:
        yield
    finally:
        rows.unpersist()


class _Asked(NamedTuple):
    """What a question may look at."""

    spark: SparkSession
    attempts: DataFrame
    counts: DataFrame
    first: datetime
    last: datetime
    step_s: int
    answers: dict[str, pa.Table]
    """to the questions before"""

    def flow(self) -> DataFrame:
        """Without the last step: that one is not over, so it would look as if less came in. It
        stays in queues that have hardly another.
        """
        flowed = flow(self.attempts, self.counts, self.step_s)
        is_over = F.unix_seconds("at") + self.step_s <= int(self.last.timestamp()) + 1
        whole = F.count_if(is_over).over(Window.partitionBy("queue"))
        return (
            flowed.where(F.col("at") >= bucket(F.lit(self.first), self.step_s))
            .withColumn("whole", whole)
            .where(is_over | (F.col("whole") < 2))
            .drop("whole")
            .orderBy("at", "queue")
        )

    def flowed(self) -> DataFrame:
        """The flow, as it was worked out."""
        found: DataFrame = self.spark.createDataFrame(self.answers["flow"])
        return found


_QUESTIONS: dict[str, Callable[[_Asked], DataFrame]] = {
    "throughput": lambda asked: of_attempts.throughput(asked.attempts, asked.step_s),
    "durations": lambda asked: of_attempts.durations(asked.attempts),
    "failures": lambda asked: of_attempts.failures(asked.attempts),
    "retries": lambda asked: of_attempts.retries(asked.attempts),
    "costs": lambda asked: of_attempts.costs(asked.attempts),
    "workers": lambda asked: of_attempts.workers(asked.attempts),
    "backlog": lambda asked: backlog(asked.counts, asked.step_s),
    "flow": _Asked.flow,
    "backtest": lambda asked: backtest(asked.flowed()),
    "outlook": lambda asked: outlook(asked.flowed(), asked.step_s),
}

TABLES = tuple(_QUESTIONS)
"""The names of the tables of a report, in the order in which they are worked out."""


def _chosen(
    rows: DataFrame,
    column: str,
    queues: Sequence[str],
    since: datetime | None,
    until: datetime | None,
) -> DataFrame:
    if queues:
        rows = rows.where(F.col("queue").isin(*queues))
    if since is not None:
        rows = rows.where(F.col(column) >= F.lit(since))
    if until is not None:
        rows = rows.where(F.col(column) < F.lit(until))
    return rows


def _ends(attempts: DataFrame, counts: DataFrame) -> tuple[datetime, datetime] | None:
    """From when to when there is something to tell.

    The jobs that ended first were sent earlier, and waited; so it begins when the first of them was
    sent, but no longer before its end than the attempts are apart (or a few short steps): one that
    was delayed for days would make all others one step.
    """
    times = attempts.select("created_at", F.col("ended_at").alias("at")).unionByName(
        counts.select("at"), allowMissingColumns=True
    )
    sent, first, last = (
        F.min(_seconds("created_at")).alias("sent"),
        F.min(_seconds("at")).alias("first"),
        F.max(_seconds("at")).alias("last"),
    )
    (found,) = times.agg(sent, first, last).collect()
    if found["first"] is None:
        return None
    begin = min(found["first"], found["sent"] or found["first"])
    begin = max(begin, found["first"] - max(found["last"] - found["first"], _LEAST_S))
    return datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(found["last"], UTC)


def _seconds(at: str) -> Column:
    return F.unix_micros(at) / 1_000_000
