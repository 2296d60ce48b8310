"""Jobs as programs see and change them that do not run them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from penstock.codec.attempts import open_attempt
from penstock.codec.records import StoredJob, open_job, open_stored_job
from penstock.model.jobs import STATES_BY_CODE, Attempt, JobInfo, JobState
from penstock.model.queues import Deleted
from penstock.store.command import Command, Operation, unexpected
from penstock.store.commands.jobs import check_jobs
from penstock.store.script import Script, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.keys import QueueKeys

CANCEL_JOBS = load("jobs/cancel_jobs")
RETRY_JOBS = load("jobs/retry_jobs")
REMOVE_JOBS = load("jobs/remove_jobs")
CHANGE_JOB = load("jobs/change_job")
READ_JOBS = load("jobs/read_jobs")
READ_JOB_LISTS = load("jobs/read_job_lists")
PAGE_JOBS = load("jobs/page_jobs")
COUNT_JOBS = load("jobs/count_jobs")
TALLY_JOBS = load("jobs/tally_jobs")
LIST_RUNNING = load("jobs/list_running")
EXPLAIN_JOB = load("jobs/explain_job")
PURGE_JOBS = load("jobs/purge_jobs")
DELETE_JOBS = load("jobs/delete_jobs")

CHUNK = 250
"""how many jobs one request reads or changes"""


def cancel_jobs(keys: QueueKeys, operation: Operation, ids: Sequence[int]) -> Command[list[str]]:
    """For each job: cancelled, asked (it runs), absent, or the state it is in."""
    return _each(CANCEL_JOBS, keys, operation, ids)


def retry_jobs(keys: QueueKeys, operation: Operation, ids: Sequence[int]) -> Command[list[str]]:
    """For each job: retried, absent, taken (its unique key), or the state it is in."""
    return _each(RETRY_JOBS, keys, operation, ids)


def remove_jobs(keys: QueueKeys, operation: Operation, ids: Sequence[int]) -> Command[list[str]]:
    """For each job: removed, absent, or the state it is in."""
    return _each(REMOVE_JOBS, keys, operation, ids)


def change_job(
    keys: QueueKeys,
    operation: Operation,
    id_number: int,
    change: Literal["delay", "run_at", "priority"],
    value: int,
) -> Command[tuple[str, JobState | None]]:
    """The answer is ok, absent or state, and the state the job is in."""

    def decode(reply: list[Any]) -> tuple[str, JobState | None]:
        if reply[0] in (b"ok", b"state"):
            return reply[0].decode(), STATES_BY_CODE[reply[1].decode()]
        if reply[0] == b"absent":
            return "absent", None
        check_jobs(keys, CHANGE_JOB, reply)
        raise unexpected(CHANGE_JOB, reply)

    return Command(
        CHANGE_JOB,
        (keys.memory(operation.lane), keys.meta),
        (operation.number, id_number, change, value),
        decode,
    )


def read_jobs(
    keys: QueueKeys, ids: Sequence[int], with_data: bool = True
) -> Command[list[JobInfo | None]]:
    """The jobs, None where there is none."""

    def decode(reply: list[Any]) -> list[JobInfo | None]:
        if reply[0] != b"ok":
            check_jobs(keys, READ_JOBS, reply)
            raise unexpected(READ_JOBS, reply)
        found: list[JobInfo | None] = []
        for index, number in enumerate(ids):
            record, facts, progress = reply[3 * index + 1 : 3 * index + 4]
            is_there = record or facts
            found.append(
                open_job(keys.queue, number, record, facts, progress) if is_there else None
            )
        return found

    return Command(READ_JOBS, (keys.meta,), (int(with_data), *ids), decode)


def read_stored_jobs(keys: QueueKeys, ids: Sequence[int]) -> Command[list[StoredJob | None]]:
    """The same as they are stored, which takes less time for each."""

    def decode(reply: list[Any]) -> list[StoredJob | None]:
        if reply[0] != b"ok":
            check_jobs(keys, READ_JOBS, reply)
            raise unexpected(READ_JOBS, reply)
        return [
            open_stored_job(record, facts) if record or facts else None
            for record, facts in zip(reply[1::3], reply[2::3], strict=True)
        ]

    return Command(READ_JOBS, (keys.meta,), (1, *ids), decode)


def read_log(
    keys: QueueKeys, id_number: int, offset: int, limit: int
) -> Command[tuple[int, list[tuple[float, str]]]]:
    """How many lines there are, and some of them with their times."""

    def decode(reply: list[Any]) -> tuple[int, list[tuple[float, str]]]:
        _check_lists(keys, reply)
        lines = []
        for line in reply[2:]:
            at, _, text = line.partition(b" ")
            lines.append((int(at) / 1000, text.decode(errors="replace")))
        return int(reply[1]), lines

    names = (keys.meta, keys.log(id_number))
    return Command(READ_JOB_LISTS, names, (offset, limit), decode)


def read_attempts(keys: QueueKeys, id_number: int) -> Command[list[Attempt]]:
    """The attempts that did not end well, oldest first."""

    def decode(reply: list[Any]) -> list[Attempt]:
        _check_lists(keys, reply)
        return [open_attempt(line) for line in reply[2:]]

    names = (keys.meta, keys.attempts(id_number))
    return Command(READ_JOB_LISTS, names, (0, 1000), decode)


class IdPage(NamedTuple):
    """Part of a listing: (page, id) of each job."""

    total: int
    places: list[tuple[int, int]]


def page_jobs(
    keys: QueueKeys,
    listing: str,
    after: tuple[int, int] | None,
    limit: int,
    newest_first: bool,
) -> Command[IdPage]:
    """Part of a listing, after a place that an earlier page has named."""

    def decode(reply: list[Any]) -> IdPage:
        if reply[0] == b"ok":
            places = [(int(reply[at]), int(reply[at + 1])) for at in range(2, len(reply), 2)]
            return IdPage(int(reply[1]), places)
        check_jobs(keys, PAGE_JOBS, reply)
        raise unexpected(PAGE_JOBS, reply)

    page, number = ("", "") if after is None else after
    order = "newest" if newest_first else "oldest"
    return Command(PAGE_JOBS, (keys.meta,), (listing, number, page, limit, order), decode)


def count_jobs(keys: QueueKeys, listings: Sequence[str]) -> Command[list[int]]:
    """How many jobs each listing has."""

    def decode(reply: list[Any]) -> list[int]:
        if reply[0] == b"ok":
            return [int(count) for count in reply[1:]]
        check_jobs(keys, COUNT_JOBS, reply)
        raise unexpected(COUNT_JOBS, reply)

    return Command(COUNT_JOBS, (keys.meta,), tuple(listings), decode)


def tally_jobs(keys: QueueKeys, cursor: str, dimension: str) -> Command[tuple[str, dict[str, int]]]:
    """Counts by listing of one dimension (T, N or G), some at a time."""

    def decode(reply: list[Any]) -> tuple[str, dict[str, int]]:
        if reply[0] == b"ok":
            pairs = zip(reply[2::2], reply[3::2], strict=True)
            return reply[1].decode(), {name.decode(): int(count) for name, count in pairs}
        check_jobs(keys, TALLY_JOBS, reply)
        raise unexpected(TALLY_JOBS, reply)

    return Command(TALLY_JOBS, (keys.meta,), (cursor, f"?{dimension}:*"), decode)


def list_running(keys: QueueKeys, worker: str) -> Command[list[int]]:
    """The jobs that a worker holds, in the order in which it started them."""

    def decode(reply: list[Any]) -> list[int]:
        if reply[0] == b"ok":
            held = zip(reply[1::2], reply[2::2], strict=True)
            return [number for _, number in sorted((int(p), int(n)) for p, n in held)]
        check_jobs(keys, LIST_RUNNING, reply)
        raise unexpected(LIST_RUNNING, reply)

    return Command(LIST_RUNNING, (keys.meta, keys.running(worker)), (), decode)


class Findings(NamedTuple):
    """What may keep a job from running."""

    now: float
    job: JobInfo
    found: dict[str, str]


def explain_job(keys: QueueKeys, id_number: int, depth: int) -> Command[Findings | None]:
    """What may keep a job from running; None if there is no such job."""

    def decode(reply: list[Any]) -> Findings | None:
        if reply[0] == b"ok":
            names = [part.decode() for part in reply[3::2]]
            values = [p.decode() if isinstance(p, bytes) else str(p) for p in reply[4::2]]
            job = open_job(keys.queue, id_number, b"", reply[2], b"")
            return Findings(int(reply[1]) / 1000, job, dict(zip(names, values, strict=True)))
        if reply[0] == b"absent":
            return None
        check_jobs(keys, EXPLAIN_JOB, reply)
        raise unexpected(EXPLAIN_JOB, reply)

    return Command(EXPLAIN_JOB, (keys.meta,), (id_number, depth), decode)


def purge_jobs(
    keys: QueueKeys,
    operation: Operation,
    limit: int,
    states: Literal["kept", "finished", "buried"] = "kept",
    before_ms: int = 0,
) -> Command[tuple[int, int]]:
    """Remove some finished jobs; the answer is how many, and how many are left."""

    def decode(reply: list[Any]) -> tuple[int, int]:
        if reply[0] == b"ok":
            return int(reply[1]), int(reply[2])
        check_jobs(keys, PURGE_JOBS, reply)
        raise unexpected(PURGE_JOBS, reply)

    return Command(
        PURGE_JOBS,
        (keys.memory(operation.lane), keys.meta),
        (operation.number, limit, states, before_ms),
        decode,
    )


def delete_jobs(
    keys: QueueKeys, operation: Operation, limit: int, is_last: bool
) -> Command[tuple[Deleted, int, str]]:
    """Delete some jobs; the answer has how many are left, and the incarnation to unregister."""

    def decode(reply: list[Any]) -> tuple[Deleted, int, str]:
        if reply[0] == b"ok":
            return Deleted(int(reply[1]), int(reply[3])), int(reply[2]), reply[4].decode()
        if reply[0] == b"no_queue":
            return Deleted(0, 0), 0, ""
        check_jobs(keys, DELETE_JOBS, reply)
        raise unexpected(DELETE_JOBS, reply)

    return Command(
        DELETE_JOBS,
        (keys.memory(operation.lane), keys.meta),
        (operation.number, limit, int(is_last)),
        decode,
    )


def _check_lists(keys: QueueKeys, reply: list[Any]) -> None:
    if reply[0] != b"ok":
        check_jobs(keys, READ_JOB_LISTS, reply)
        raise unexpected(READ_JOB_LISTS, reply)


def _each(
    script: Script, keys: QueueKeys, operation: Operation, ids: Sequence[int]
) -> Command[list[str]]:
    def decode(reply: list[Any]) -> list[str]:
        if reply[0] != b"ok":
            check_jobs(keys, script, reply)
            raise unexpected(script, reply)
        words = (word.decode() for word in reply[1:])
        return [STATES_BY_CODE.get(word, word) for word in words]

    return Command(
        script, (keys.memory(operation.lane), keys.meta), (operation.number, *ids), decode
    )
