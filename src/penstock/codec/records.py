"""Jobs as the store keeps them: the record of what was sent, and the facts since then."""

from __future__ import annotations

from typing import NamedTuple

from penstock.codec.attempts import open_error
from penstock.codec.forms import FACTS, MARKS, RECORD
from penstock.codec.heads import Head, open_head
from penstock.codec.ids import id_text
from penstock.codec.layouts import check_layout
from penstock.codec.progress import open_progress
from penstock.model.jobs import STATES_BY_CODE, JobInfo
from penstock.model.unique_keys import open_unique_key

_LENGTH_AT = RECORD.offset("head")
_HEAD_AT = _LENGTH_AT + RECORD.fields[-1].size


def open_record(text: bytes) -> tuple[bytes, bytes]:
    """The head of a record, and its data. Every job comes by here in its worker, so it is not
    opened field by field.
    """
    data_at = _HEAD_AT + (text[_LENGTH_AT] << 8 | text[_LENGTH_AT + 1])
    return text[_HEAD_AT:data_at], text[data_at:]


class StoredJob(NamedTuple):
    """A job as it is stored, for programs that read very many. Times are ms; 0: not yet."""

    head: Head
    state: str
    """its code"""
    data: bytes
    created_ms: int
    since_ms: int
    """when it became ready, or will"""
    updated_ms: int = 0
    started_ms: int = 0
    finished_ms: int = 0
    failures: int = 0
    crashes: int = 0
    lapses: int = 0
    worker: str = ""
    reason: str = ""
    outcome: bytes = b""
    is_cancel_asked: bool = False
    process: int = 0


def open_stored_job(record: bytes, facts: bytes) -> StoredJob:
    """A job from what is stored about it; `record` may be without its data, or empty if there are
    facts.
    """
    for stored in filter(None, (record, facts)):
        check_layout(stored)
    head, data = open_record(record) if record else (b"", b"")
    if not facts:
        created_ms = RECORD.open(record)["created"]
        return StoredJob(open_head(head), "r", data, created_ms, created_ms)
    found = FACTS.open(facts)
    return StoredJob(
        head=open_head(found["head"]),
        state=found["state"],
        data=data,
        created_ms=found["created"],
        since_ms=found["since"],
        updated_ms=found["updated"],
        started_ms=found["started"],
        finished_ms=found["finished"],
        failures=found["failures"],
        crashes=found["crashes"],
        lapses=found["lapses"],
        worker=found["worker"].decode(),
        reason=found["reason"].decode(),
        outcome=found["outcome"],
        is_cancel_asked=bool(found["marks"] & MARKS["cancel_asked"]),
        process=found["process"],
    )


def open_job(queue: str, number: int, record: bytes, facts: bytes, progress: bytes) -> JobInfo:
    """The same as a program that asks for a job sees it."""
    stored = open_stored_job(record, facts)
    head = stored.head
    state = STATES_BY_CODE[stored.state]
    outcome = stored.outcome
    unique = open_unique_key(head.unique)
    return JobInfo(
        id=id_text(number),
        queue=queue,
        type=head.type,
        state=state,
        data=stored.data,
        priority=head.priority,
        tenant=head.tenant,
        tags=head.tags,
        words=head.words,
        key=head.key,
        unique=unique.text,
        unique_scope=unique.scope,
        attempts=head.attempts,
        failures=stored.failures,
        crashes=stored.crashes,
        lapses=stored.lapses,
        timeout_s=head.timeout_ms / 1000,
        created_at=stored.created_ms / 1000,
        due_at=stored.since_ms / 1000,
        updated_at=(stored.updated_ms or stored.created_ms) / 1000,
        started_at=stored.started_ms / 1000,
        finished_at=stored.finished_ms / 1000,
        worker=stored.worker,
        reason=stored.reason,
        outcome=outcome,
        progress=open_progress(progress) if progress else None,
        error=open_error(outcome) if state in ("dead", "cancelled") and outcome else None,
        is_cancel_asked=stored.is_cancel_asked,
        process=stored.process,
    )
