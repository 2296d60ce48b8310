"""Moves the history of queues, and logs, from Redis into a lake."""

from __future__ import annotations

import time
from collections.abc import Callable  # noqa: TC003 - of a dataclass
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.errors import (
    ArchiveFailed,
    HistoryLost,
    InvalidArgument,
    LakeConflict,
    LogTrimmed,
)
from penstock.model.names import check_name
from penstock.spark.checkpoints import Checkpoint, check_agreement
from penstock.spark.clients import find_connection, open_client
from penstock.spark.counting import count_queues, minute_of
from penstock.spark.failures import reason_of
from penstock.spark.gaps import note_gap
from penstock.spark.history_archive import HistorySource
from penstock.spark.history_lake import Lake
from penstock.spark.lake_stream import ArchivedBatch, LakeStream
from penstock.spark.log_archive import LogSource
from penstock.spark.range_files import RangeCopier
from penstock.spark.range_stream import RangeSource
from penstock.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.client.client import Penstock
    from penstock.spark.archive_source import ArchiveSource
    from penstock.spark.history_lake import TableName
    from penstock.spark.store import Connection

_BATCH_ROWS = 1_000_000
# Each query has a process of its own that plans it.
_QUERIES_AT_A_TIME = 4
# How long it may take until a failure, or the wish to stop, is seen.
_LOOK_EVERY_S = 1
# What Spark says if another process has planned the same batch.
_TWO_WRITERS = "CONCURRENT_STREAM_LOG_UPDATE"
# What Spark, Java and the storage of a lake raise.
_FAILURES = (PySparkException, Py4JError, DeltaError, OSError)


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """How often an archive that goes on reads, and does what it does beside that."""

    read_every_s: float = 5
    clock: Callable[[], float] = time.time
    """seconds since 1970; queues are counted when its minute changes"""
    tidy_every_s: float = 3600
    many_files: int = 100
    """how many files a table may have more than partitions before they are joined"""


@dataclass(slots=True)
class Archived:
    """What an archive has done so far."""

    rows: dict[str, int] = field(default_factory=dict)
    """queue -> attempts that it has put into the lake"""
    messages: dict[str, int] = field(default_factory=dict)
    """log -> messages that it has put into the lake"""
    counted: int = 0
    """minutes for which it has counted queues"""

    gaps: list[str] = field(default_factory=list)
    """queues and logs of which something was gone, and was passed over"""
    absent: list[str] = field(default_factory=list)
    """those that were not there yet when it began"""

    @property
    def total(self) -> int:
        return sum(self.rows.values()) + sum(self.messages.values())


def archive(
    queues: Sequence[str],
    to: str | Path,
    *,
    logs: Sequence[str] = (),
    once: bool = True,
    checkpoint: str | Path | None = None,
    reader: str = "lake",
    skip_gap: bool = False,
    url: str | None = None,
    namespace: str | None = None,
    spark: SparkSession | None = None,
    storage_options: Mapping[str, str] | None = None,
    progress: Callable[[Archived], None] | None = None,
    stop: Event | None = None,
    housekeeping: Housekeeping = Housekeeping(),
) -> Archived:
    """Put the history of queues of jobs, and the messages of logs, into the lake `to`: what there
    is now, or with `once=False` until it is interrupted. Without any name it takes all queues of
    jobs that there are. Another thread, or a signal handler, ends it in order by setting `stop`.

    It can be killed at any moment and started again: no row is lost, and none is there twice. What
    it knows about each queue and log is in `checkpoint`, by default in the folder `_penstock` of
    the lake; for a lake that is no folder, name one that Spark can write to. Redis keeps history
    and messages for `reader` until they are in the lake. Queues of any kind are counted too, once a
    minute, or once if it runs once.

    Raises HistoryLost or LogTrimmed if something is gone before it was archived; with `skip_gap` it
    goes on behind the gap, and the table `gaps` says so. Raises LakeConflict if the lake has rows
    of a queue or log and the checkpoint is gone. Raises ArchiveFailed if Spark or the storage of
    the lake fails; another run goes on where this one was.
    """
    lake = Lake(to, storage_options)
    folder = _checkpoints(lake, checkpoint)
    check_name("reader", reader)
    active = spark or SparkSession.getActiveSession() or session()
    options = {"reader": reader, "startingOffsets": "earliest"}
    options |= {"url": url} if url else {}
    options |= {"namespace": namespace} if namespace else {}
    active.dataSource.register(RangeSource)
    connection = find_connection(url, namespace)
    with open_client(connection) as client:
        work = _Archive(
            active,
            connection,
            client,
            lake,
            options,
            skip_gap,
            progress or _no_progress,
            stop or Event(),
            housekeeping,
        )
        for source in _sources(client, queues, logs):
            if not source.check(client):
                work.done.absent.append(source.title)
            kept = Checkpoint(active, f"{folder}/{source.folder}", source.name)
            with _explained(f"the lake {lake.uri} could not be opened"):
                check_agreement(lake.table(source.table), source, kept)
            work.checkpoints[source] = kept
        if once:
            work.run_once()
        else:
            work.go_on()
    return work.done


class _Archive:
    """The queries of one archive, and what happens beside them."""

    def __init__(
        self,
        spark: SparkSession,
        connection: Connection,
        client: Penstock,
        lake: Lake,
        options: dict[str, str],
        skip_gap: bool,
        progress: Callable[[Archived], None],
        stop: Event,
        housekeeping: Housekeeping,
    ) -> None:
        self.done = Archived()
        self.checkpoints: dict[ArchiveSource, Checkpoint] = {}
        self._spark = spark
        self._connection = connection
        self._client = client
        self._lake = lake
        self._options = options
        self._skip_gap = skip_gap
        self._progress = progress
        self._stop = stop
        self._housekeeping = housekeeping
        self._counted_minute = 0
        self._tidied_at = time.monotonic()
        self._streams: dict[ArchiveSource, LakeStream] = {}
        self._behind_gaps: set[ArchiveSource] = set()
        """those of which a query reads to the end of what there is, without looking for gaps"""

    def run_once(self) -> None:
        """Read what there is, a few sources at a time."""
        sources = list(self.checkpoints)
        for at in range(0, len(sources), _QUERIES_AT_A_TIME):
            group = sources[at : at + _QUERIES_AT_A_TIME]
            with self._started(group, once=True):
                for source in group:
                    while not self._stop.is_set() and not self._has_ended(source):
                        pass
        if not self._stop.is_set():
            self._count()
            self._tidy()

    def go_on(self) -> None:
        """Read what comes and count once a minute, until a query fails or `stop` is set."""
        sources = cycle(self.checkpoints)
        with self._started(list(self.checkpoints), once=False):
            while not self._stop.is_set():
                if self._minute() != self._counted_minute:
                    self._count()
                if time.monotonic() - self._tidied_at >= self._housekeeping.tidy_every_s:
                    self._tidy()
                source = next(sources)
                if not self._has_ended(source) or self._stop.is_set():
                    continue
                if source not in self._behind_gaps:
                    raise _stopped_elsewhere(source)
                self._behind_gaps.remove(source)
                self._start(source, once=False)

    @contextmanager
    def _started(self, sources: Sequence[ArchiveSource], once: bool) -> Iterator[None]:
        try:
            for source in sources:
                self._start(source, once)
            yield
        finally:
            for stream in self._streams.values():
                # A signal to all processes, as of a service that is stopped, ends Java too.
                with suppress(Py4JError, OSError):
                    stream.stop()
            self._streams.clear()

    def _start(self, source: ArchiveSource, once: bool, fail_on_loss: bool = True) -> None:
        options = {**self._options, **source.options(_BATCH_ROWS)}
        options["failOnDataLoss"] = str(fail_on_loss).lower()
        table = self._lake.table(source.table)
        copier = RangeCopier(self._connection, table, source, fail_on_loss)
        every_s = None if once else self._housekeeping.read_every_s
        stream = LakeStream(copier, partial(self._batch_done, source))
        self._streams[source] = stream
        with _explained(f"the {source.content} of {source.title} could not be archived"):
            ranges = self._spark.readStream.format(RangeSource.name()).options(**options).load()
            name = f"archive {source.kind} {source.name}"
            stream.start(ranges, self.checkpoints[source].place, name, every_s)

    def _has_ended(self, source: ArchiveSource) -> bool:
        """Whether a query comes to its end within a second. If something is lost and that does not
        matter, another one is started in its place, which passes over the gap.
        """
        try:
            with _explained(f"the {source.content} of {source.title} could not be archived"):
                return self._streams[source].wait(_LOOK_EVERY_S)
        except (HistoryLost, LogTrimmed) as error:
            if not self._skip_gap:
                raise
            reason = str(error).partition("; ")[0]
        except ArchiveFailed:
            if self._stop.is_set():
                return False  # Java was told to stop too
            raise
        reader, checkpoint = self._options["reader"], self.checkpoints[source]
        note_gap(self._lake, self._client, source, reader, reason, checkpoint)
        self.done.gaps.append(source.name)
        self._behind_gaps.add(source)
        # Only this once, so that another gap is found and noted too.
        self._start(source, once=True, fail_on_loss=False)
        return False

    def _batch_done(self, source: ArchiveSource, batch: ArchivedBatch) -> None:
        """Let Redis forget what is in the lake now."""
        source.mark(self._client, self._options["reader"], batch.ranges)
        done = self.done.messages if source.table == "messages" else self.done.rows
        if batch.is_new:
            for name, rows in batch.rows.items():
                done[name] = done.get(name, 0) + rows
        self._progress(self.done)

    def _count(self) -> None:
        self._counted_minute = self._minute()
        now = self._housekeeping.clock()
        with _explained("queues could not be counted"):
            self.done.counted += count_queues(self._client, self._lake, now)

    def _minute(self) -> int:
        return minute_of(self._housekeeping.clock())

    def _tidy(self) -> None:
        self._tidied_at = time.monotonic()
        many = self._housekeeping.many_files
        tables: set[TableName] = {"counts", *(source.table for source in self.checkpoints)}
        for name in tables:
            table = self._lake.table(name)
            with _explained(f"small files of {table.uri} could not be joined"):
                found = table.open()
                if len(found.file_uris()) - len(found.partitions()) > many:
                    table.compact()
                    table.vacuum()


def _no_progress(_: Archived) -> None:
    """The default for callers that do not follow the progress."""


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Failures of Spark, of Java and of the storage in one sentence."""
    try:
        yield
    except _FAILURES as error:
        if _TWO_WRITERS in str(error):
            raise LakeConflict(
                f"{what}: another archive goes on with the same checkpoint, and this one has had "
                "no effect since; run one archive for each lake"
            ) from error
        raise ArchiveFailed(
            f"{what}: {reason_of(error)}; the lake has what it had, and another run goes on there"
        ) from error


def _stopped_elsewhere(source: ArchiveSource) -> LakeConflict:
    return LakeConflict(
        f"the query that archives {source.title} was stopped from elsewhere, as Spark does when "
        "another query begins with the same checkpoint; run one archive for each lake"
    )


def _sources(client: Penstock, queues: Sequence[str], logs: Sequence[str]) -> list[ArchiveSource]:
    if not queues and not logs:
        queues = _all_queues(client)
    named = dict.fromkeys(queues), dict.fromkeys(logs)
    return [*map(HistorySource, named[0]), *map(LogSource, named[1])]


def _all_queues(client: Penstock) -> list[str]:
    found = [state.name for state in client.inspect() if state.kind == "jobs"]
    if not found:
        raise InvalidArgument(
            f"namespace {client.settings.namespace!r} has no queue of jobs; name a queue or a log, "
            "of now or of later, or send a job first"
        )
    return found


def _checkpoints(lake: Lake, given: str | Path | None) -> str:
    if given is not None:
        text = str(given)
        return text.rstrip("/") if "://" in text else str(Path(text).absolute())
    if not lake.is_folder:
        raise InvalidArgument(
            f"the lake {lake.uri} is no folder of this machine; name a checkpoint that Spark can "
            "write to, and use the same one each time"
        )
    return f"{lake.uri}/_penstock/checkpoint"
