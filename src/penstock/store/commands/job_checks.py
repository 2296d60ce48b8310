"""What `penstock fsck` reads and mends of queues of jobs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from penstock.codec.damaged import describe_damaged
from penstock.codec.ids import id_text, shown_id, stored_id
from penstock.model.job_snapshot import (
    DamagedJob,
    Entry,
    QueueTotals,
    StoredHead,
    StoredJob,
    Stranger,
)
from penstock.model.jobs import JOB_STATES, STATES_BY_CODE
from penstock.model.numbers import whole_number
from penstock.store.command import Command, unexpected
from penstock.store.commands.jobs import check_jobs
from penstock.store.foreign_entries import text_of
from penstock.store.script import Script, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.store.command import Argument
    from penstock.store.keys import QueueKeys

READ_TOTALS = load("jobs/read_totals")
SCAN_JOBS = load("jobs/scan_jobs")
MEND_JOB = load("jobs/mend_job")
MEND_PAGE = load("jobs/mend_page")
MEND_COUNT = load("jobs/mend_count")
MEND_LINE = load("jobs/mend_line")
MEND_TRACE = load("jobs/mend_trace")

_TURN_DIGITS = 16
_SIZES = ("jobs", "facts", "due", "finished", "buried")


def read_totals(keys: QueueKeys, workers: Sequence[str]) -> Command[QueueTotals]:
    """Everything that is counted, at one instant; `workers` may hold jobs beside the members."""

    def decode(reply: list[Any]) -> QueueTotals:
        if reply[0] == b"ok":
            return _totals_of(reply)
        check_jobs(keys, READ_TOTALS, reply)
        raise unexpected(READ_TOTALS, reply)

    return Command(READ_TOTALS, (keys.meta,), tuple(workers), decode)


class ScannedJobs(NamedTuple):
    """Some of the jobs of a queue."""

    cursor: str
    """where to go on; 0 after the last"""
    jobs: list[StoredJob]
    damaged: list[DamagedJob]
    strangers: list[Stranger]
    """what is stored as a job under no id"""


def scan_jobs(
    keys: QueueKeys, cursor: str, table: Literal["jobs", "facts"], count: int
) -> Command[ScannedJobs]:
    """About `count` of the jobs that have a record, or of those that only have facts. As with any
    scan, one may come twice.
    """

    def decode(reply: list[Any]) -> ScannedJobs:
        if reply[0] == b"ok":
            found = [fields for fields in reply[2:] if stored_id(fields[0]) is not None]
            return ScannedJobs(
                reply[1].decode(),
                [_stored_job(fields, table == "jobs") for fields in found if len(fields) > 5],
                [_damaged_job(*fields) for fields in found if len(fields) == 5],
                [
                    Stranger(table, "", b"", fields[0])
                    for fields in reply[2:]
                    if stored_id(fields[0]) is None
                ],
            )
        check_jobs(keys, SCAN_JOBS, reply)
        raise unexpected(SCAN_JOBS, reply)

    return Command(SCAN_JOBS, (keys.meta,), (cursor, table, count), decode)


def mend_job(
    keys: QueueKeys, id_number: int | bytes, depth: int, is_real: bool = True
) -> Command[bool]:
    """Put a job where its state says that it stands; False if it is there. As with all of these, if
    `is_real` is False nothing is written, and the answer is whether there is something to mend.
    """
    return _mend(MEND_JOB, keys, int(is_real), id_number, depth)


def mend_page(
    keys: QueueKeys, listing: str, page: int, ids: Sequence[int | bytes], is_real: bool = True
) -> Command[bool]:
    """Put jobs on a page of a listing or take them off, as each one's state says."""
    return _mend(MEND_PAGE, keys, int(is_real), listing.encode(), page, *ids)


def mend_line(
    keys: QueueKeys,
    kind: Literal["line", "ring", "unhandled", "parked"],
    name: str,
    is_real: bool = True,
) -> Command[bool]:
    """Name what is there where it is looked for, and nothing that is not."""
    return _mend(MEND_LINE, keys, int(is_real), kind, name.encode())


def mend_trace(
    keys: QueueKeys, kind: str, owner: bytes, holder: str | bytes = "", is_real: bool = True
) -> Command[bool]:
    """Forget what is kept about something that is gone; False if it is not."""
    return _mend(MEND_TRACE, keys, int(is_real), kind, owner, holder)


def mend_count(
    keys: QueueKeys, table: Literal["busy", "meta"], field: str, seen: bytes, right: int
) -> Command[bool]:
    """Set a count right unless it has changed since it was seen."""
    return _mend(MEND_COUNT, keys, table, field.encode(), seen, right)


def counts_in(meta: Iterable[tuple[str, bytes]]) -> dict[str, int]:
    """Of all that is in `meta`, how many jobs are on each listing."""
    return {name: whole_number(value) or 0 for name, value in meta if name[2:3] == ":"}


def open_entry(entry: bytes) -> Entry | None:
    """A place in a line, as `fragments/jobs/records.lua` writes it; None for anything else."""
    number, _, text = entry.partition(b".")
    id, turn = stored_id(number), whole_number(text)
    return None if id is None or (text and turn is None) else Entry(id, turn)


def open_aside(member: bytes) -> Entry | None:
    """What was put aside, as `fragments/jobs/lines.lua` writes it; None for anything else."""
    id, turn = stored_id(member[_TURN_DIGITS:]), whole_number(member[:_TURN_DIGITS])
    return None if id is None or turn is None else Entry(id, turn)


def _mend(script: Script, keys: QueueKeys, *arguments: Argument) -> Command[bool]:
    def decode(reply: list[Any]) -> bool:
        if reply[0] == b"ok":
            return bool(reply[1])
        check_jobs(keys, script, reply)
        raise unexpected(script, reply)

    return Command(script, (keys.meta,), arguments, decode)


def _totals_of(reply: list[Any]) -> QueueTotals:
    _, now, meta, members, idle, sizes, counts, *held = reply
    texts = [value.decode(errors="backslashreplace") for value in meta]
    known = dict(zip(texts[::2], texts[1::2], strict=True))
    newest = whole_number(known.get("newest", ""))
    return QueueTotals(
        now_ms=int(now),
        meta=known,
        # What is no name is told when the queue itself is read.
        members=frozenset(name for worker in members if (name := text_of(worker)) is not None),
        idle=frozenset(
            name.removeprefix("+") for worker in idle if (name := text_of(worker)) is not None
        ),
        sizes=dict(zip(_SIZES, sizes, strict=True)),
        held={
            worker.decode(errors="backslashreplace"): n
            for worker, n in zip(held[::2], held[1::2], strict=True)
            if n
        },
        states={
            state: whole_number(count) or 0 for state, count in zip(JOB_STATES, counts, strict=True)
        },
        newest=id_text(newest) if newest else "",
    )


def _stored_job(fields: list[Any], has_record: bool) -> StoredJob:
    number, has_other, state, marks, *times, worker, size, outcome = fields[:16]
    place, turn, failures, crashes, lapses, since, updated, finished, process = map(int, times)
    return StoredJob(
        id=id_text(int(number)),
        has_record=has_record,
        has_facts=bool(has_other) or not has_record,
        state=STATES_BY_CODE[state.decode()],
        marks=marks,
        number=place,
        turn=turn,
        failures=failures,
        crashes=crashes,
        lapses=lapses,
        since_ms=since,
        updated_ms=updated,
        finished_ms=finished,
        process=process,
        worker=worker.decode(errors="backslashreplace"),
        bytes=size,
        outcome_bytes=outcome,
        head=_stored_head(*fields[16:]),
    )


def _damaged_job(
    id: bytes, has_record: int, record_bytes: int, has_facts: int, facts_bytes: int
) -> DamagedJob:
    sizes = (("record", has_record, record_bytes), ("facts", has_facts, facts_bytes))
    found = [f"{size} bytes of its {name}" for name, is_there, size in sizes if is_there]
    return DamagedJob(shown_id(id), f"{' and '.join(found)} are there", is_set_aside=False)


def open_set_aside(id: bytes, stored: bytes) -> DamagedJob:
    """A job that was set aside, and what can still be said of it."""
    return DamagedJob(shown_id(id), describe_damaged(stored), is_set_aside=True)


@lru_cache(maxsize=4096)
def _stored_head(flags: int, priority: int, attempts: int, *texts: bytes) -> StoredHead:
    """Shared by jobs that were sent alike."""
    kind, tenant, key, unique, tags, words = texts
    return StoredHead(
        flags,
        priority,
        attempts,
        kind.decode(errors="backslashreplace"),
        tenant.decode(errors="backslashreplace"),
        key.decode(errors="backslashreplace"),
        unique,
        _split(tags),
        _split(words),
    )


def _split(joined: bytes) -> tuple[str, ...]:
    return tuple(joined.decode(errors="backslashreplace").split("\0")) if joined else ()
