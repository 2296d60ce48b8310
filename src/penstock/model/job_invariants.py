"""What is true of a queue of jobs at every instant.

As `model/invariants.py` for plain tasks: pure checks of a snapshot, asked by `penstock fsck`, the
simulation and the tests alike. `model/job_places.py` has those about where jobs stand,
`model/job_count_invariants.py` those about counts.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from penstock.model.batch_invariants import batch_violations
from penstock.model.invariants import violations
from penstock.model.job_count_invariants import counts_agree, counts_are_recounts
from penstock.model.job_places import (
    jobs_are_in_one_place,
    jobs_can_be_read,
    lines_are_in_their_rings,
    places_hold_jobs,
    records_are_whole,
    subject,
    violation_of,
)
from penstock.model.job_snapshot import HAS_ATTEMPTS, HAS_LOG, HAS_PROGRESS
from penstock.model.jobs import FINAL_STATES, MAX_CRASHES, MAX_LAPSES, WAITING_STATES
from penstock.model.log_invariants import log_violations
from penstock.model.schedule_invariants import settings_are_there, slots_belong_to_schedules
from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.model.job_snapshot import JobSnapshot
    from penstock.model.snapshot import Snapshot

_HOLDS_UNTIL = {
    "queued": WAITING_STATES,
    "done": (*WAITING_STATES, "running"),
    "scheduled": ("scheduled",),
}
"""The states in which a job may hold its unique key, by how long the key is taken."""

_MENDED = ("unique_jobs", "suspects", "progress", "page", "due", "finished", "buried")
"""Where an entry that is no id can be removed, as that of a job which is gone."""


def jobs_are_conserved(queue: JobSnapshot) -> Iterator[Violation]:
    """I1: every job ever sent is there or recorded as gone; every start is held or recorded as
    ended; every end is kept, was removed or taken back. Proves that no job was lost or made twice,
    since each operation changes its counter and the places in one step.
    """
    totals = queue.totals
    count = totals.count
    stored = totals.sizes.get("jobs", 0)
    kept = totals.sizes.get("finished", 0) + totals.sizes.get("buried", 0)
    ways_out = ("finished", "failed", "crashed", "lost", "stopped", "interrupted")
    sums = (
        ("sent", count("sent"), {"stored": stored}, ("removed", "discarded", "damaged")),
        ("started", count("started"), {"running": sum(totals.held.values())}, ways_out),
        (
            "ended",
            count("done") + count("dead") + count("cancelled"),
            {"kept": kept},
            ("removed", "retried"),
        ),
    )
    for what, total, places, gone in sums:
        parts = places | {name: count(name) for name in gone}
        if total != sum(parts.values()):
            listed = ", ".join(f"{number} {name}" for name, number in parts.items())
            yield Violation(
                "I1",
                queue.queue,
                f"{total} jobs were {what} but {sum(parts.values())} are accounted for ({listed})",
                kind=f"{what}_jobs_add_up",
            )


def counters_are_not_negative(queue: JobSnapshot) -> Iterator[Violation]:
    """I3: nothing was counted below zero."""
    totals = queue.totals
    counters = {f"{state} jobs": number for state, number in totals.states.items()}
    counters |= {
        name: int(value)
        for name, value in totals.meta.items()
        if value.lstrip("-").isdecimal() and name != "incarnation"
    }
    for name, value in counters.items():
        if value < 0:
            yield Violation(
                "I3",
                queue.queue,
                f"the counter {name!r} is {value}",
                kind="counter_is_negative",
                subject=name,
            )


def listings_are_right(queue: JobSnapshot) -> Iterator[Violation]:
    """I12: each job stands on the pages of its listings and nowhere else, and each listing knows
    its pages. Proves that what is shown is what is there.
    """
    expected: dict[tuple[str, int], set[str]] = defaultdict(set)
    for job in queue.jobs.values():
        if not job.has_record:
            continue
        listings = [f"*W:{word}" for word in job.head.words]
        if job.state != "running":
            listings += job.head.listings(job.state)
        for listing in listings:
            expected[listing, job.page].add(job.id)
    for listing, page in expected.keys() | queue.pages.keys():
        listed = queue.pages.get((listing, page), frozenset())
        wanted = expected.get((listing, page), set())
        for id in listed ^ wanted:
            found = queue.jobs.get(id)
            what = "is not on" if id in wanted else "is by mistake on"
            yield Violation(
                "I12",
                queue.queue,
                f"job {id} {what} page {page} of listing {listing!r}",
                is_repairable=True,
                kind="job_not_listed" if id in wanted else "listed_by_mistake",
                subject=subject(listing, page, found.moment if found else id),
            )
    named = {(listing, page) for listing, pages in queue.directories.items() for page in pages}
    for listing, page in named ^ queue.pages.keys():
        is_empty = (listing, page) in named
        yield Violation(
            "I12",
            queue.queue,
            f"page {page} of listing {listing!r} {'is empty' if is_empty else 'is not listed'}",
            is_repairable=True,
            kind="empty_page" if is_empty else "page_not_listed",
            subject=subject(listing, page),
        )


def attempts_are_bounded(queue: JobSnapshot) -> Iterator[Violation]:
    """I5: a job that failed, crashed or lapsed as often as it may is dead. Proves that poison
    ends.
    """
    for job in queue.jobs.values():
        is_lost = job.crashes >= MAX_CRASHES or job.lapses >= MAX_LAPSES
        is_over = job.failures >= job.head.attempts or is_lost
        if is_over and job.state not in FINAL_STATES:
            yield violation_of(
                queue,
                job,
                f"is {job.state} after {job.failures} failures of {job.head.attempts} attempts, "
                f"{job.crashes} crashes and {job.lapses} lapses",
                "attempts_are_bounded",
                invariant="I5",
            )


def unique_keys_belong_to_jobs(queue: JobSnapshot) -> Iterator[Violation]:
    """I6: every taken key belongs to a job that may hold it, or its window is open; a job that is
    unique until it is done holds its key until then. Proves that no key stays taken for ever and
    none is taken twice.
    """
    for key, id in queue.unique.items():
        job = queue.jobs.get(id)
        is_held = (
            job is not None
            and job.has_record
            and job.head.unique == key
            and job.state in _HOLDS_UNTIL.get(job.head.unique_mode, ())
        )
        if key not in queue.windows and not is_held:
            yield Violation(
                "I6",
                queue.queue,
                f"unique key {key!r} is taken by job {id}, which is "
                f"{job.state if job else 'not there'} and may not hold it",
                is_repairable=True,
                kind="unique_key_of_no_job",
                subject=subject(id, key.decode("latin-1")),
            )
    unreadable = {it.field for it in queue.strangers if it.kind == "unique_jobs"}
    for key in queue.windows.keys() - queue.unique.keys() - unreadable:
        yield Violation(
            "I6",
            queue.queue,
            f"a window is open for the unique key {key!r}, which nobody has taken",
            is_repairable=True,
            kind="window_of_no_key",
            subject=key.decode("latin-1"),
        )
    for job in queue.jobs.values():
        is_live = job.head.unique_mode == "done" and job.state not in FINAL_STATES
        if is_live and queue.unique.get(job.head.unique) != job.id:
            yield violation_of(
                queue,
                job,
                f"is unique until done but does not hold its key {job.head.unique!r}",
                "unique_key_not_held",
                invariant="I6",
            )


def entries_are_ids(queue: JobSnapshot) -> Iterator[Violation]:
    """I13: where jobs are named, ids stand. Anything else was written by another program, and is
    passed over.
    """
    for kind, owner, field, entry in queue.strangers:
        place = f"{kind}:{owner}" if owner else kind
        under = f" for {field!r}" if field else ""
        wanted = "the number of a page" if kind == "pages" else "the id of a job"
        # An open window keeps a key taken, also if the job that took it is gone.
        is_kept = kind == "unique_jobs" and field in queue.windows
        yield Violation(
            "I13",
            queue.queue,
            f"{place!r} has {entry!r}{under}, which is not {wanted}",
            is_repairable=kind in _MENDED and not is_kept,
            kind="entry_is_no_id",
            subject=subject(kind, owner, field.hex(), entry.hex()),
        )


def extras_belong_to_jobs(queue: JobSnapshot) -> Iterator[Violation]:
    """I13: progress, logs and attempts are kept of jobs that exist and know of them. Proves that
    they go when the job goes.
    """
    kinds = (
        ("progress", queue.progress, HAS_PROGRESS),
        ("log", queue.logs, HAS_LOG),
        ("attempts", queue.attempts, HAS_ATTEMPTS),
    )
    for kind, ids, mark in kinds:
        for id in ids:
            job = queue.jobs.get(id)
            if job is None or not job.has_record or not job.marks & mark:
                is_gone = job is None or not job.has_record
                yield Violation(
                    "I13",
                    queue.queue,
                    f"{kind} of job {id} is kept, "
                    f"{'which is not there' if is_gone else 'which does not know of it'}",
                    is_repairable=is_gone,
                    kind="extra_of_no_job",
                    subject=subject(kind, id),
                )
        for job in queue.jobs.values():
            if job.has_record and job.marks & mark and job.id not in ids:
                yield violation_of(
                    queue,
                    job,
                    f"has {kind} that is not there any more",
                    "extra_is_missing",
                    invariant="I13",
                )


def traces_belong_to_members(queue: JobSnapshot) -> Iterator[Violation]:
    """I13: what is kept about workers is kept about those that serve the queue. Proves that a dead
    worker leaves nothing behind, and that no job is handed to it.
    """
    traces = (
        ("types", queue.types),
        ("alarms", queue.alarms),
    )
    for kind, workers in traces:
        for worker in workers - queue.totals.members:
            yield Violation(
                "I13",
                queue.queue,
                f"{kind!r} names worker {worker!r}, which does not serve the queue",
                is_repairable=True,
                kind="trace_of_no_member",
                subject=subject(kind, worker),
            )
    for worker in queue.totals.members - queue.types:
        yield Violation(
            "I13",
            queue.queue,
            f"worker {worker!r} serves the queue, but it is not known what it handles, so it is "
            "handed nothing; start it again",
            kind="member_handles_nothing",
            subject=worker,
        )
    for worker, id in queue.suspects.items():
        if id not in queue.running.get(worker, {}).values():
            yield Violation(
                "I13",
                queue.queue,
                f"worker {worker!r} is said to hold job {id}, which it does not",
                is_repairable=True,
                kind="trace_of_no_member",
                subject=subject("suspects", worker, id),
            )


JOB_CHECKS: tuple[Callable[[JobSnapshot], Iterable[Violation]], ...] = (
    jobs_are_conserved,
    counters_are_not_negative,
    jobs_are_in_one_place,
    places_hold_jobs,
    records_are_whole,
    jobs_can_be_read,
    lines_are_in_their_rings,
    listings_are_right,
    counts_are_recounts,
    counts_agree,
    attempts_are_bounded,
    unique_keys_belong_to_jobs,
    entries_are_ids,
    extras_belong_to_jobs,
    traces_belong_to_members,
    slots_belong_to_schedules,
    settings_are_there,
)
"""True between any two operations, also if clients, workers or the server have crashed."""


def job_violations(queue: JobSnapshot) -> list[Violation]:
    """Everything that the checks find in one queue of jobs."""
    return [violation for check in JOB_CHECKS for violation in check(queue)]


def all_violations(snapshot: Snapshot) -> list[Violation]:
    """Everything that is wrong with a namespace: plain tasks, jobs, and batches of both."""
    found = violations(snapshot) + batch_violations(snapshot) + log_violations(snapshot)
    return found + [v for queue in snapshot.jobs.values() for v in job_violations(queue)]
