"""Jobs on their way in and through the hands of workers."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from penstock.codec.handed_out import HandedOutJobs, open_handed_out
from penstock.codec.ids import id_text, shown_id
from penstock.codec.layouts import unknown_layout
from penstock.errors import JobConflict, QueueFull, StoreError, WrongKind
from penstock.model.claims import Claim
from penstock.model.queues import MAX_HELD, Returned
from penstock.store.command import (
    Argument,
    Command,
    Operation,
    Prepacked,
    check_queue,
    refuse_log,
    unexpected,
)
from penstock.store.script import Script, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.model.jobs import HandedOut, Report
    from penstock.model.queues import KindName
    from penstock.store.keys import QueueKeys

SEND_JOBS = load("jobs/send_jobs")
JOIN_JOBS = load("jobs/join_jobs")
START_JOBS = load("jobs/start_jobs")
REPORT_JOBS = load("jobs/report_jobs")
LEAVE_JOBS = load("jobs/leave_jobs")
NOTE_JOB = load("jobs/note_job")
FIND_CANCELLED = load("jobs/find_cancelled")
FIND_HANDED = load("jobs/find_handed")
PASS_JOBS = load("jobs/pass_jobs")

MAX_LOG_LINES = 1000
_CLAIM_WORDS = frozenset(b"ok empty again apart limited paused not_working too_many idle".split())


class Group(NamedTuple):
    """Jobs that share everything but id and data."""

    head: bytes
    delay_ms: int
    run_at_ms: int
    window_ms: int
    jobs: Sequence[tuple[int, bytes]]


IdOrigin = Literal["made", "given", "derived"]


class SentAs(NamedTuple):
    """What became of a job that was sent."""

    number: int
    """the id of the job that is there now"""
    is_new: bool


class IdTaken(Exception):
    """A reply: another client has made the same id. Never seen by an application."""


def send_jobs(
    keys: QueueKeys,
    operation: Operation,
    groups: Sequence[Group] | Prepacked,
    incarnation: str = "",
    origin: IdOrigin = "made",
) -> Command[dict[int, SentAs]]:
    """Add jobs, all or none; the answer has, by position, those that have another id than was
    sent, or were there already. Their arguments may have been packed ahead.

    Ids are made for this request, or given by the caller, or derived from the cause in the head.

    Raises QueueFull, JobConflict, WrongKind; QueueAbsent, QueueTaken and IdTaken for the client.
    """

    def decode(reply: list[Any]) -> dict[int, SentAs]:
        if reply[0] == b"ok":
            return {
                int(reply[at]): SentAs(int(reply[at + 1]), bool(reply[at + 2]))
                for at in range(1, len(reply), 3)
            }
        check_jobs(keys, SEND_JOBS, reply)
        raise unexpected(SEND_JOBS, reply)

    names = (keys.memory(operation.lane), keys.meta)
    arguments = (operation.number, incarnation, origin)
    if isinstance(groups, Prepacked):
        return Command(SEND_JOBS, names, arguments, decode, groups)
    return Command(SEND_JOBS, names, (*arguments, *group_arguments(groups)), decode)


def group_arguments(groups: Sequence[Group]) -> list[Argument]:
    """Groups as the scripts take them."""
    arguments: list[Argument] = []
    for head, delay_ms, run_at_ms, window_ms, jobs in groups:
        arguments += (head, delay_ms, run_at_ms, window_ms, len(jobs))
        arguments += chain.from_iterable(jobs)
    return arguments


def join_jobs(
    keys: QueueKeys,
    operation: Operation,
    worker: str,
    types: Sequence[str] | None,
    incarnation: str = "",
) -> Command[None]:
    """Let a worker start jobs of these types (None: of all). Raises WrongKind, QueueAbsent,
    QueueTaken.
    """

    def decode(reply: list[Any]) -> None:
        if reply[0] != b"ok":
            check_jobs(keys, JOIN_JOBS, reply)
            raise unexpected(JOIN_JOBS, reply)

    handled = "*" if types is None else "\0" + "".join(f"{name}\0" for name in types)
    return Command(
        JOIN_JOBS,
        (keys.memory(operation.lane), keys.meta),
        (operation.number, worker, incarnation, handled),
        decode,
    )


def start_jobs(
    keys: QueueKeys,
    operation: Operation,
    worker: str,
    limit: int,
    wait: bool = False,
    offer: int = 0,
) -> Command[Claim[HandedOut]]:
    """Start up to `limit` jobs; with `wait`, wake the worker when there is work again. If it waits,
    it may be handed `offer` jobs unasked: one or none.
    """

    def decode(reply: list[Any]) -> Claim[HandedOut]:
        return _claim(keys, START_JOBS, reply, 0, [])

    return Command(
        START_JOBS,
        (keys.memory(operation.lane), keys.meta, keys.running(worker)),
        (operation.number, worker, limit, int(wait) + min(offer, 1), MAX_HELD),
        decode,
    )


def report_jobs(
    keys: QueueKeys,
    operation: Operation,
    worker: str,
    reports: Sequence[Report] | Prepacked,
    limit: int = 0,
    wait: bool = False,
    offer: int = 0,
) -> Command[Claim[HandedOut]]:
    """Say what became of jobs and start up to `limit` more. Reports may have been packed ahead."""

    def decode(reply: list[Any]) -> Claim[HandedOut]:
        return _claim(keys, REPORT_JOBS, reply, 1, [int(process) for process in reply[0]])

    names = (keys.memory(operation.lane), keys.meta, keys.running(worker))
    arguments = (operation.number, worker, limit, int(wait) + min(offer, 1), MAX_HELD)
    if isinstance(reports, Prepacked):
        return Command(REPORT_JOBS, names, arguments, decode, reports)
    fields: Iterable[Argument] = chain.from_iterable(reports)
    return Command(REPORT_JOBS, names, (*arguments, *fields), decode)


def leave_jobs(
    keys: QueueKeys,
    operation: Operation,
    worker: str,
    is_lost: bool,
    error: bytes = b"",
    has_died: bool = False,
    known: Sequence[int] = (),
) -> Command[Returned | KindName]:
    """Take a worker off the queue and give each job that it holds back to its old place; the answer
    is `tasks` if the queue holds those, which `leave_queue` is for. `error` is kept with the jobs
    that were lost. They count a crash if the worker is known to have died, else a lapse. `known`
    are jobs that the worker knows it held; if a peer was first, `error` is kept with their lapses.
    """

    def decode(reply: list[Any]) -> Returned | KindName:
        if reply[0] == b"ok":
            return Returned(int(reply[1]), int(reply[2]))
        if reply[0] == b"tasks":
            return "tasks"
        check_jobs(keys, LEAVE_JOBS, reply)
        raise unexpected(LEAVE_JOBS, reply)

    return Command(
        LEAVE_JOBS,
        (keys.memory(operation.lane), keys.meta, keys.running(worker)),
        (operation.number, worker, int(is_lost) + int(is_lost and has_died), error, *known),
        decode,
    )


def note_job(
    keys: QueueKeys,
    operation: Operation,
    worker: str,
    process: int,
    progress: bytes = b"",
    lines: Sequence[bytes] = (),
) -> Command[bool]:
    """Write down what a running job says; False if the worker does not hold it any more."""

    def decode(reply: list[Any]) -> bool:
        if reply[0] in (b"ok", b"lease_lost"):
            return bool(reply[0] == b"ok")
        check_jobs(keys, NOTE_JOB, reply)
        raise unexpected(NOTE_JOB, reply)

    return Command(
        NOTE_JOB,
        (keys.memory(operation.lane), keys.meta, keys.running(worker)),
        (operation.number, process, progress, MAX_LOG_LINES, *lines),
        decode,
    )


def find_cancelled(keys: QueueKeys, worker: str) -> Command[list[int]]:
    """The processes of a worker whose jobs are to be cancelled."""

    def decode(reply: list[Any]) -> list[int]:
        if reply[0] == b"ok":
            return [int(process) for process in reply[1:]]
        check_jobs(keys, FIND_CANCELLED, reply)
        raise unexpected(FIND_CANCELLED, reply)

    return Command(FIND_CANCELLED, (keys.meta, keys.running(worker)), (), decode)


def find_handed(keys: QueueKeys, worker: str, known: Sequence[int]) -> Command[list[HandedOut]]:
    """Jobs that a worker holds beside those of the processes that it knows of."""

    def decode(reply: list[Any]) -> list[HandedOut]:
        if reply[0] != b"ok":
            check_jobs(keys, FIND_HANDED, reply)
            raise unexpected(FIND_HANDED, reply)
        items = (reply[at : at + 4] for at in range(1, len(reply), 4))
        return [
            open_handed_out(int(process), int(number), record, tries)
            for process, number, record, tries in items
        ]

    return Command(FIND_HANDED, (keys.meta, keys.running(worker)), tuple(known), decode)


def pass_jobs(keys: QueueKeys, worker: str, is_busy: bool) -> Command[tuple[int, list[str]]]:
    """Stop waiting for a wake-up, and pass one on that may be on its way.

    The answer is for a worker that is only busy: when to come again (ms, -1: when it has time),
    and the schedules that it can fire meanwhile.
    """

    def decode(reply: list[Any]) -> tuple[int, list[str]]:
        if reply[0] != b"ok":
            check_jobs(keys, PASS_JOBS, reply)
            raise unexpected(PASS_JOBS, reply)
        return int(reply[1]), [name.decode() for name in reply[2]]

    return Command(PASS_JOBS, (keys.meta,), (worker, int(is_busy)), decode)


def check_jobs(keys: QueueKeys, script: Script, reply: list[Any]) -> None:
    """Raise what the reply says is in the way, if it is one of the usual things."""
    word = reply[0]
    check_queue(reply)
    if word == b"full":
        raise _full(keys, reply)
    if word == b"taken":
        raise IdTaken
    if word == b"conflict":
        raise JobConflict(
            f"the id {id_text(int(reply[1]))!r} belongs to another job of queue {keys.queue!r}, "
            "with other data or options; send this one under an id of its own"
        )
    if word == b"tasks":
        refuse_log(keys.queue, reply[1])
        raise WrongKind(
            f"queue {keys.queue!r} holds plain tasks, so it cannot hold jobs (also a worker that "
            "serves it with a plain handler decides that); choose another queue, or delete this "
            f"one first (`penstock queue delete {keys.queue}`)"
        )
    if word == b"other_layout":
        raise unknown_layout(reply[1])
    if word == b"no_number":
        raise StoreError(
            f"{reply[1].decode()!r} of queue {keys.queue!r} is not a number, so it takes no more "
            "jobs; `penstock fsck --repair` mends it"
        )


def _claim(
    keys: QueueKeys, script: Script, reply: list[Any], at: int, refused: list[int]
) -> Claim[HandedOut]:
    word = reply[at]
    if word not in _CLAIM_WORDS:
        check_jobs(keys, script, reply[at:])
        raise unexpected(script, reply)
    wait_ms = int(reply[at + 1])
    schedules = [name.decode() for name in reply[at + 2]]
    damaged = [shown_id(id) for id in reply[at + 3]]
    if word != b"ok":
        return Claim(word.decode(), (), 0, refused, wait_ms, schedules, damaged)
    first_process = int(reply[at + 4])
    jobs = HandedOutJobs(first_process, reply[at + 5 :])
    return Claim("ok", jobs, first_process, refused, wait_ms, schedules, damaged)


def _full(keys: QueueKeys, reply: list[Any]) -> QueueFull:
    """A maximum is -1 if there is none."""
    waiting, max_length, held, max_bytes, added, added_bytes = (int(part) for part in reply[1:])
    room = None if max_length < 0 else max(0, max_length - waiting)
    room_bytes = None if max_bytes < 0 else max(0, max_bytes - held)
    is_too_large = added == 1 and 0 <= max_bytes < added_bytes
    limits = [] if room is None else [f"{waiting} of at most {max_length} jobs"]
    limits += [] if room_bytes is None else [f"{held} of at most {max_bytes} bytes"]
    holds = " and ".join(limits)
    if is_too_large:
        text = (
            f"takes {max_bytes} bytes of data (its max_bytes), and this job alone has "
            f"{added_bytes}, so there is never room for it; send less data, or raise max_bytes"
        )
    elif added == 1:
        text = (
            f"holds {holds} and has no room for this job ({added_bytes} bytes); try again when "
            "workers have caught up, raise its limits, or, from Python, send with wait=..."
        )
    else:
        # It may be more than an empty queue takes, and then it is no use to try again.
        batch = _amount(
            added if room is not None else None, added_bytes if max_bytes >= 0 else None
        )
        text = (
            f"holds {holds}, so it has room for {_amount(room, room_bytes)}, and the batch has "
            f"{batch}; send fewer at once, or with wait=... as many at a time as there is room "
            "for, or raise its limits"
        )
    error = QueueFull(f"queue {keys.queue!r} {text}")
    error.room, error.room_bytes, error.is_final = room, room_bytes, is_too_large
    return error


def _amount(count: int | None, size: int | None) -> str:
    """So many jobs and bytes, or only what counts."""
    if size is None:
        return str(count)
    return f"{size} bytes" if count is None else f"{count} ({size} bytes)"
