"""Reads the jobs of a queue in given states, split by the pages of the lists that have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.connection.queues import inspect_queue
from penstock.errors import WrongKind
from penstock.model.job_filters import MAX_PAGE, FilterSettings, listing_of, make_filter
from penstock.model.jobs import STATE_CODES
from penstock.spark.job_batches import job_batch
from penstock.store.commands import job_records
from penstock.store.commands.job_records import CHUNK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from penstock.codec.records import StoredJob
    from penstock.connection.store import Store
    from penstock.model.jobs import JobState
    from penstock.spark.options import Request
    from penstock.spark.store import Connection

_DIRECTORY_PAGE = 10_000


class Split(NamedTuple):
    """What one partition reads: jobs in a state, on a range of pages. Running jobs are on none."""

    state: JobState
    first: int = 0
    last: int = 0


class JobReader(DataSourceReader):
    """A partition is some pages of the list of one state; a page has up to 512 jobs.

    Each job is read at one instant, and left out if it is no longer in the state of the list by
    then. Jobs move meanwhile: one that goes from one of several states to another can be read in
    both, or in neither.
    """

    def __init__(self, request: Request, connection: Connection) -> None:
        self._queue = request.target
        self._connection = connection
        self._states: tuple[JobState, ...] = request.values["state"]
        self._pages_per_partition: int = request.values["pages_per_partition"]
        self._since_ms: int | None = request.values["since"]
        self._until_ms: int | None = request.values["until"]
        self._type: str = request.values["type"] or ""
        self._tenant: str = request.values["tenant"] or ""
        which: FilterSettings = {"type": self._type, "tenant": self._tenant}
        self._listings = {state: listing_of(make_filter(state, which)) for state in self._states}

    def partitions(self) -> Sequence[InputPartition]:
        splits: list[Split] = []
        keys = self._connection.keys(self._queue)
        with self._connection.open() as store:
            if inspect_queue(store, keys).kind == "tasks":
                raise WrongKind(
                    f"queue {self._queue!r} holds plain tasks, not jobs; read it with the option "
                    "'queue' instead of 'jobs'"
                )
            # Says so if this version does not know how the jobs are stored.
            store.run(job_records.count_jobs(keys, ["rA:"]))
            for state in self._states:
                if state == "running":
                    splits.append(Split("running"))
                else:
                    splits += self._page_splits(store, state)
        return [InputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        split: Split | None = partition.value
        if split is None:  # so says Spark if there are no partitions
            return
        keys = self._connection.keys(self._queue)
        code = STATE_CODES[split.state]
        with self._connection.open() as store:
            for numbers in self._numbers(store, split):
                found = store.run(job_records.read_stored_jobs(keys, numbers))
                kept = [
                    (number, job)
                    for number, job in zip(numbers, found, strict=True)
                    if job is not None and job.state == code and self._is_meant(job)
                ]
                if kept:
                    yield job_batch(self._queue, kept)

    def _is_meant(self, job: StoredJob) -> bool:
        return (
            self._type in ("", job.head.type)
            and self._tenant in ("", job.head.tenant)
            and (self._since_ms is None or job.created_ms >= self._since_ms)
            and (self._until_ms is None or job.created_ms < self._until_ms)
        )

    def _page_splits(self, store: Store, state: JobState) -> Iterator[Split]:
        key = self._connection.keys(self._queue).pages(self._listings[state])
        pages: list[int] = []
        after = "-inf"
        while True:
            found = store.call(
                *(key, "ZRANGEBYSCORE", key, after, "+inf", "LIMIT", 0, _DIRECTORY_PAGE)
            )
            pages += map(int, found)
            if len(found) < _DIRECTORY_PAGE:
                break
            after = f"({pages[-1]}"
        for at in range(0, len(pages), self._pages_per_partition):
            part = pages[at : at + self._pages_per_partition]
            yield Split(state, part[0], part[-1])

    def _numbers(self, store: Store, split: Split) -> Iterator[Sequence[int]]:
        """The ids of a split, as many at a time as one request reads."""
        is_running = split.state == "running"
        pages = self._running(store) if is_running else self._pages(store, split)
        for numbers in pages:
            for at in range(0, len(numbers), CHUNK):
                yield numbers[at : at + CHUNK]

    def _pages(self, store: Store, split: Split) -> Iterator[list[int]]:
        keys = self._connection.keys(self._queue)
        listing = self._listings[split.state]
        place = (split.first, 0)
        while True:
            command = job_records.page_jobs(keys, listing, place, MAX_PAGE, newest_first=False)
            places = store.run(command).places
            numbers = [number for page, number in places if page <= split.last]
            yield numbers
            if len(numbers) < MAX_PAGE:
                return
            place = places[-1]

    def _running(self, store: Store) -> Iterator[list[int]]:
        keys = self._connection.keys(self._queue)
        for worker, held in inspect_queue(store, keys).held.items():
            if held:
                yield store.run(job_records.list_running(keys, worker))
