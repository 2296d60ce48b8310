"""Jobs as a record batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.codec.attempts import open_error
from penstock.codec.ids import id_text
from penstock.codec.values import is_raw_result
from penstock.model.jobs import FINAL_STATES, STATES_BY_CODE
from penstock.model.unique_keys import open_unique_key
from penstock.spark.schemas import JOBS, RESULTS, arrow_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.codec.records import StoredJob

_SCHEMA = arrow_schema(JOBS)
_RESULTS = arrow_schema(RESULTS)
_MS = pa.timestamp("ms", "UTC")
_US = pa.timestamp("us", "UTC")


def job_batch(queue: str, found: Sequence[tuple[int, StoredJob]]) -> pa.RecordBatch:
    """A batch of jobs with their ids. Text that is empty in the store is NULL."""
    jobs = [job for _, job in found]
    heads = [job.head for job in jobs]
    data, data_bytes = _text_or_bytes([job.data or None for job in jobs])
    # Only what is done has a result; what is dead has an error in the same place.
    results = [job.outcome if job.state == "d" and job.outcome else None for job in jobs]
    texts = [None if result is None or is_raw_result(result) else result[1:] for result in results]
    raw = [
        result[1:] if result is not None and is_raw_result(result) else None for result in results
    ]
    errors = [open_error(job.outcome) if job.state in "xc" else None for job in jobs]
    columns: dict[str, Any] = {
        "id": [id_text(number) for number, _ in found],
        "queue": [queue] * len(found),
        "type": [head.type for head in heads],
        "state": [STATES_BY_CODE[job.state] for job in jobs],
        "data": data,
        "data_bytes": data_bytes,
        "priority": [head.priority for head in heads],
        "tenant": [head.tenant or None for head in heads],
        "tags": [head.tags for head in heads],
        "limit_key": [head.key or None for head in heads],
        "unique": [open_unique_key(head.unique).text or None for head in heads],
        "attempts": [head.attempts for head in heads],
        "failures": [job.failures for job in jobs],
        "crashes": [job.crashes for job in jobs],
        "lapses": [job.lapses for job in jobs],
        "created_at": _instants([job.created_ms for job in jobs]),
        "due_at": _instants([job.since_ms for job in jobs]),
        "started_at": _instants([job.started_ms for job in jobs]),
        "finished_at": _instants([job.finished_ms for job in jobs]),
        "worker": [job.worker or None for job in jobs],
        "reason": [job.reason or None for job in jobs],
        "result": _text_or_bytes(texts)[0],
        "result_bytes": raw,
        "error_type": [error and _clean(error.type) for error in errors],
        "error_message": [error and _clean(error.message) for error in errors],
        "error_traceback": [(error and _clean(error.traceback)) or None for error in errors],
    }
    arrays = [
        column if isinstance(column, pa.Array) else pa.array(column, field.type)
        for column, field in zip(columns.values(), _SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def result_batch(
    keys: pa.RecordBatch, ids: Sequence[int], found: Sequence[StoredJob | None], absent: str
) -> pa.RecordBatch:
    """The key columns of rows, and what came of their jobs; `absent` is the state of those that are
    not there.
    """
    there = [(id, job) for id, job in zip(ids, found, strict=True) if job is not None]
    jobs = job_batch("", there)
    positions = iter(range(len(there)))
    rows = pa.array([None if job is None else next(positions) for job in found], pa.int64())
    columns = {name: jobs.column(name).take(rows) for name in jobs.schema.names}
    columns["job"] = pa.array([id_text(id) for id in ids], pa.string())
    columns["state"] = pa.array([_result_state(job) or absent for job in found], pa.string())
    columns["attempts"] = pa.array(
        [job and job.failures + job.crashes + job.lapses + (job.state == "d") for job in found],
        pa.int32(),
    )
    arrays = [columns[field.name] for field in _RESULTS]
    schema = pa.schema([*keys.schema, *_RESULTS])
    return pa.RecordBatch.from_arrays([*keys.columns, *arrays], schema=schema)


def _result_state(job: StoredJob | None) -> str | None:
    if job is None:
        return None
    state = STATES_BY_CODE[job.state]
    return state if state in FINAL_STATES else "waiting"


def _text_or_bytes(values: list[bytes | None]) -> tuple[Any, Any]:
    """What is UTF-8 as text, and apart from it what is not."""
    whole = pa.array(values, pa.binary())
    try:
        return whole.cast(pa.string()), pa.nulls(len(values), pa.binary())
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    others: list[bytes | None] = []
    for value in values:
        try:
            texts.append(None if value is None else value.decode())
            others.append(None)
        except UnicodeDecodeError:
            texts.append(None)
            others.append(value)
    return pa.array(texts, pa.string()), pa.array(others, pa.binary())


def _instants(times_ms: list[int]) -> Any:
    return pa.array([time_ms or None for time_ms in times_ms], _MS).cast(_US)


def _clean(text: str) -> str:
    """Without halves of surrogate pairs, which error messages can have and UTF-8 cannot."""
    return text.encode(errors="replace").decode()
