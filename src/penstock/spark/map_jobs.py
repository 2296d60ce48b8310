"""DataFrame in, DataFrame out: a job for each row, and its result beside the key of the row."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark.sql import functions
from pyspark.sql.types import StructType
from rich.console import Console
from rich.progress import Progress

from penstock.client.functions import JobFunction
from penstock.connection.staging import move_batches
from penstock.errors import InvalidArgument
from penstock.model.job_options import check_seconds, json_settings
from penstock.model.jobs import FINAL_STATES
from penstock.model.staging import batch_tag
from penstock.spark import schemas
from penstock.spark.clients import find_connection, open_client
from penstock.spark.job_results import look_up_results
from penstock.spark.write_kinds import JOB_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from penstock.client.sending import Sending
    from penstock.model.job_options import Seconds
    from penstock.spark.store import Connection

_WEEK_S = 7 * 86_400.0
_LOOK_S = 0.25
_SHOWN_AFTER_S = 1.0


class BatchProgress(NamedTuple):
    """How far the jobs of a batch have come."""

    ended: int
    dead: int
    """of those that have ended"""
    total: int


def map_jobs(
    rows: DataFrame,
    job: JobFunction[..., Any] | Sending[..., Any],
    *,
    key: str | Sequence[str],
    batch_id: str,
    result_schema: str | StructType | None = None,
    timeout: Seconds | None = None,
    keep_for: Seconds = _WEEK_S,
    url: str | None = None,
    namespace: str | None = None,
    on_progress: Callable[[BatchProgress], None] | None = None,
) -> DataFrame:
    """Send each row as a job, wait for the workers of its queue, and return the results.

    The columns are the arguments of the job; `job` is a function marked with `@penstock.job`, or
    one with options (`resize.options(priority="low")`). `key` names the columns that tell rows
    apart: with the `batch_id` they make the id of the job, so a second run sends nothing again and
    finds the results of the first. Two rows with the same key are refused before anything is sent.

    The result has the key columns and those of `schemas.RESULTS`: `state` is done, dead, cancelled,
    waiting (it has not ended within `timeout`) or removed; `result` is JSON text, or what
    `result_schema` makes of it. It is looked up when the DataFrame is used, for as long as the jobs
    are kept: `keep_for`, a week by default. A bar shows how far the jobs have come if stderr is a
    terminal; `on_progress` is called instead if it is given.
    """
    sending = job.options() if isinstance(job, JobFunction) else job
    keys = [key] if isinstance(key, str) else list(key)
    timeout_s = None if timeout is None else check_seconds("timeout", timeout)
    function = sending.function
    _check_call(rows, function)
    total = _count_rows(rows, keys)
    connection = find_connection(url, namespace)
    options = {
        **_options(sending),
        "jobs": function.queue,
        "batch_id": batch_id,
        "key_columns": ",".join(keys),
        "keep_for": str(check_seconds("keep_for", keep_for)),
        "wait": "decided",
        "namespace": connection.settings.namespace,
        **({} if url is None else {"url": url}),
    }
    rows.write.format("penstock").options(**options).mode("append").save()
    batch = _Batch(connection, function.queue, batch_id, total)
    with _Bar(total) as bar:
        batch.wait(timeout_s, on_progress or bar.show)
    kept = rows.select(*keys)
    schema = StructType([*kept.schema.fields, *schemas.RESULTS.fields])
    found = kept.mapInArrow(
        partial(look_up_results, connection, function.queue, batch_id, keys), schema=schema
    )
    if result_schema is None:
        return found
    return found.withColumn("result", functions.from_json("result", result_schema))


class _Batch:
    """The jobs of one batch, as the driver waits for them."""

    def __init__(self, connection: Connection, queue: str, batch_id: str, total: int) -> None:
        self._connection = connection
        self._queue = queue
        self._tag = batch_tag(batch_id)
        self._total = total

    def wait(self, timeout_s: float | None, tell: Callable[[BatchProgress], None]) -> None:
        """Until all have ended or time is up. What is staged moves into the queue meanwhile."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with open_client(self._connection) as client:
            jobs, keys = client.jobs(self._queue), self._connection.keys(self._queue)
            while True:
                moved = move_batches(client.store, keys, "jobs")
                counts = jobs.counts(tag=self._tag)
                ended = sum(counts[state] for state in FINAL_STATES)
                tell(BatchProgress(min(ended, self._total), counts["dead"], self._total))
                is_over = sum(counts.values()) == ended and not moved.left
                if ended >= self._total or is_over:
                    return
                left_s = _LOOK_S if deadline is None else deadline - time.monotonic()
                if left_s <= 0:
                    return
                time.sleep(min(left_s, _LOOK_S))


def _check_call(rows: DataFrame, function: JobFunction[..., Any]) -> None:
    try:
        function.signature.accepts(**dict.fromkeys(rows.columns))
    except TypeError as error:
        raise InvalidArgument(
            f"the columns of the DataFrame are not the arguments of {function.signature}: {error}; "
            "select and rename columns first"
        ) from None


def _count_rows(rows: DataFrame, keys: list[str]) -> int:
    """How many there are. Raises InvalidArgument if keys are missing, null, or not of one row."""
    unknown = [name for name in keys if name not in rows.columns]
    if unknown or not keys:
        named = f"column {unknown[0]!r} is not there" if unknown else "no column is named"
        raise InvalidArgument(
            f"key names the columns that tell rows apart, and {named}; the columns are "
            f"{', '.join(rows.columns)}"
        )
    taken = [name for name in keys if name in schemas.RESULTS.fieldNames()]
    if taken:
        raise InvalidArgument(
            f"the key column {taken[0]!r} has the name of a column of the results, which are "
            f"{', '.join(schemas.RESULTS.fieldNames())}; rename it first"
        )
    counted = rows.groupBy(*keys).count()
    is_null = functions.expr(" or ".join(f"`{name}` is null" for name in keys))
    total, most, nulls = counted.agg(
        functions.sum("count"), functions.max("count"), functions.count_if(is_null)
    ).first() or (0, 0, 0)
    if nulls:
        raise InvalidArgument(
            f"a key ({', '.join(keys)}) is null, so its row could not be told from others; nothing "
            "was sent; filter such rows first"
        )
    if most and most > 1:
        examples = [row[:-1] for row in counted.where("count > 1").limit(3).collect()]
        raise InvalidArgument(
            f"several rows have the same key ({', '.join(keys)}), for example "
            f"{', '.join(map(str, examples))}; nothing was sent; name the columns that tell rows "
            "apart, or drop duplicates first"
        )
    return int(total or 0)


def _options(sending: Sending[..., Any]) -> dict[str, str]:
    """The options of the job, as the data source takes them."""
    given = json_settings(sending.settings)
    refused = given.keys() - set(JOB_OPTIONS)
    if refused:
        raise InvalidArgument(
            f"option {min(refused)!r} is not for jobs of a batch; those are "
            f"{', '.join(JOB_OPTIONS)}"
        )
    texts = {
        name: ",".join(value) if isinstance(value, list | tuple) else str(value)
        for name, value in given.items()
        if value is not None
    }
    return texts | {"type": sending.function.type}


class _Bar:
    """A bar on stderr, if that is a terminal, for what takes longer than a second."""

    def __init__(self, total: int) -> None:
        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("jobs", total=total)
        self._began_at = time.monotonic()

    def __enter__(self) -> _Bar:
        return self

    def show(self, progress: BatchProgress) -> None:
        dead = f", {progress.dead} dead" if progress.dead else ""
        self._progress.update(
            self._task,
            completed=progress.ended,
            description=f"{progress.ended:,} of {progress.total:,} jobs{dead}",
        )
        is_long = time.monotonic() - self._began_at > _SHOWN_AFTER_S
        if is_long and self._progress.console.is_terminal:
            self._progress.start()

    def __exit__(self, *_: object) -> None:
        if self._progress.live.is_started:  # else it would print an empty line
            self._progress.stop()
