"""Looks up the results of the jobs that rows were sent as, on executors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.spark.job_batches import result_batch
from penstock.spark.job_ids import ids_of_rows
from penstock.store.commands import job_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from penstock.spark.store import Connection

_AT_ONCE = 500


def look_up_results(
    connection: Connection,
    queue: str,
    batch_id: str,
    keys: list[str],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """What became of the job of each row."""
    queue_keys = connection.keys(queue)
    with connection.open() as store:
        is_staged = int(store.call(queue_keys.meta, "HGET", queue_keys.meta, "staged") or 0) > 0
        for rows in batches:
            for start in range(0, rows.num_rows, _AT_ONCE):
                part = rows.slice(start, _AT_ONCE)
                ids = ids_of_rows(batch_id, part, keys)
                found = store.run(job_records.read_stored_jobs(queue_keys, ids))
                yield result_batch(part, ids, found, "waiting" if is_staged else "removed")
