"""Where jobs stand, and where they are looked for: the checks of I2 for queues of jobs.

An entry of a line whose job is elsewhere by now is no violation: it is dropped when it comes up.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from penstock.model.numbers import whole_number
from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.model.job_snapshot import JobSnapshot, StoredJob

_KEPT_IN = {"done": "finished", "cancelled": "finished", "dead": "buried", "scheduled": "due"}
"""Where a job in this state stands, with a time."""


def jobs_are_in_one_place(queue: JobSnapshot) -> Iterator[Violation]:
    """I2: each job stands in exactly one place, the one that its state says. Proves that each will
    be handed out, once at a time, and that nothing is handed out that should not be.
    """
    valid = _valid_entries(queue)
    holders = _holders(queue)
    for job in queue.jobs.values():
        if job.state == "ready":
            yield from _ready_job(queue, job, valid[job.id])
        elif job.state == "running":
            yield from _running_job(queue, job, holders[job.id])
        else:
            place = _KEPT_IN.get(job.state, "")
            at = getattr(queue, place).get(job.id) if place else 0
            wanted = job.since_ms if place == "due" else job.finished_ms
            is_for_batch = at is not None and job.is_kept_for_batch and at > wanted
            if at is None or (place and at != wanted and not is_for_batch):
                where = f"in {place!r} at {at}" if at is not None else f"not in {place!r}"
                yield violation_of(
                    queue,
                    job,
                    f"is {job.state} since or for {wanted} but stands {where}",
                    "job_in_no_place",
                    is_repairable=True,
                )


def _ready_job(
    queue: JobSnapshot, job: StoredJob, places: list[tuple[str, str]]
) -> Iterator[Violation]:
    allowed = {("line", job.head.line), ("unhandled", job.head.type), ("parked", job.head.key)}
    if not places:
        yield violation_of(
            queue,
            job,
            "is ready but stands in no line, so nobody will ever start it",
            "job_in_no_line",
            is_repairable=True,
        )
    if len(places) > 1:
        yield violation_of(queue, job, f"stands in {len(places)} lines", "job_in_two_lines")
    for kind, name in places:
        if (kind, name) not in allowed:
            yield violation_of(
                queue, job, f"stands in {kind} {name!r}, which is not its own", "job_in_wrong_line"
            )


def _running_job(
    queue: JobSnapshot, job: StoredJob, holders: list[tuple[str, int]]
) -> Iterator[Violation]:
    if holders != [(job.worker, job.process)]:
        held = ", ".join(f"{worker!r} as {process}" for worker, process in holders)
        yield violation_of(
            queue,
            job,
            f"runs as process {job.process} of {job.worker!r} but is held by {held or 'nobody'}",
            "job_is_held_by_another",
        )


def places_hold_jobs(queue: JobSnapshot) -> Iterator[Violation]:
    """I2: every entry of `due`, `finished`, `buried` and `running` is a job in that state. Proves
    that nothing happens to a job that is elsewhere.
    """
    places: Mapping[str, Iterable[str]] = {
        "due": queue.due,
        "finished": queue.finished,
        "buried": queue.buried,
        "running": _holders(queue),
    }
    for place, ids in places.items():
        for id in ids:
            job = queue.jobs.get(id)
            state = "absent" if job is None or not job.has_record else job.state
            if _KEPT_IN.get(state, state) != place:
                yield Violation(
                    "I2",
                    queue.queue,
                    f"job {id} stands in {place!r} but is {state}",
                    is_repairable=place != "running",
                    kind="place_of_no_job",
                    subject=subject(place, job.moment if job else id),
                )


def records_are_whole(queue: JobSnapshot) -> Iterator[Violation]:
    """I2: facts are kept of jobs that exist, numbers and turns are ones that were given out, and no
    id is beyond the newest. Proves that a new job never stands where an old one did.
    """
    # That it is no number is a violation of its own.
    last, newest = whole_number(queue.totals.meta.get("turn", "0")), queue.totals.newest
    for job in queue.jobs.values():
        if not job.has_record:
            yield violation_of(
                queue, job, "has facts but no record", "facts_of_no_job", is_repairable=True
            )
        if last is not None and max(job.number, job.turn) > last and queue.is_exact:
            yield violation_of(
                queue,
                job,
                f"has turn {job.turn}, but the last one given out is {last}",
                "turn_from_the_future",
            )
    greatest = max(queue.jobs, default="")
    if newest and greatest > newest and queue.is_exact:
        yield Violation(
            "I2",
            queue.queue,
            f"job {greatest} has an id beyond {newest}, which is said to be the newest",
            is_repairable=True,
            kind="newest_is_behind",
            subject=newest,
        )
    if queue.jobs and not queue.totals.exists:
        yield Violation(
            "I13",
            queue.queue,
            f"{len(queue.jobs)} jobs are in a queue that does not exist",
            kind="jobs_without_a_queue",
        )


def jobs_can_be_read(queue: JobSnapshot) -> Iterator[Violation]:
    """I2: what is stored of a job is what a script has written. One that another program wrote to
    is set aside when a worker meets it, or by repair; nothing of it is thrown away.
    """
    for id, left, is_set_aside in queue.damaged:
        what = f"was set aside: {left}; `penstock job remove` forgets it" if is_set_aside else left
        yield Violation(
            "I2",
            queue.queue,
            f"job {id} cannot be read and {what}",
            is_repairable=not is_set_aside,
            kind="job_is_damaged",
            subject=id,
        )


def lines_are_in_their_rings(queue: JobSnapshot) -> Iterator[Violation]:
    """I2: every line is in the ring of its level, every ring in `levels`, and every job that was
    put aside is where workers look for it. Proves that no line is passed over.
    """
    rings = {f"{level}:{tenant}" for level, tenants in queue.rings.items() for tenant in tenants}
    pairs: tuple[tuple[str, set[str], set[str]], ...] = (
        ("line", set(queue.lines), rings),
        ("ring", set(queue.rings), set(queue.levels)),
        ("unhandled", set(queue.unhandled), set(queue.unhandled_types)),
        ("parked", set(queue.parked), set(queue.unparks)),
    )
    for kind, found, named in pairs:
        for name in found ^ named:
            what = "is there but not named" if name in found else "is named but not there"
            yield Violation(
                "I2",
                queue.queue,
                f"{kind} {name!r} {what} where it is looked for",
                is_repairable=True,
                kind=f"{kind}_is_not_named" if name in found else f"{kind}_is_not_there",
                subject=name,
            )


def violation_of(
    queue: JobSnapshot,
    job: StoredJob,
    message: str,
    kind: str,
    *,
    invariant: str = "I2",
    is_repairable: bool = False,
) -> Violation:
    return Violation(
        invariant,
        queue.queue,
        f"job {job.id} {message}",
        is_repairable=is_repairable,
        kind=kind,
        subject=job.moment,
    )


def subject(*parts: object) -> str:
    """What a violation is about, of several parts; no name has a zero byte in it."""
    return "\0".join(map(str, parts))


def _valid_entries(queue: JobSnapshot) -> dict[str, list[tuple[str, str]]]:
    """Where each ready job stands."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for kind, name, entries in queue.places():
        for entry in entries:
            if entry.is_of(queue.jobs.get(entry.id)):
                found[entry.id].append((kind, name))
    return found


def _holders(queue: JobSnapshot) -> dict[str, list[tuple[str, int]]]:
    """The worker that holds each job."""
    found: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for worker, held in queue.running.items():
        for process, id in held.items():
            found[id].append((worker, process))
    return found
