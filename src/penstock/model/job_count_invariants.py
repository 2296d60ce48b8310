"""What is true of the counts of a queue of jobs: they are what a recount finds."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.model.job_places import subject
from penstock.model.jobs import FINAL_STATES, JOB_STATES, WAITING_STATES
from penstock.model.violations import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.model.job_snapshot import JobSnapshot

_BYTES = ("waiting_bytes", "kept_bytes")


def counts_are_recounts(queue: JobSnapshot) -> Iterator[Violation]:
    """I12: what is counted is what a recount finds: jobs by listing, jobs that run by key, and the
    bytes that wait and are kept. Proves that what is shown and what is limited is what is there.
    """
    if not queue.is_exact:
        return
    stored = [job for job in queue.jobs.values() if job.has_record]
    listings = Counter(name for job in stored for name in job.head.listings(job.state))
    busy = Counter(job.head.key for job in stored if job.state == "running" and job.head.key)
    waiting = sum(job.bytes for job in stored if job.state in WAITING_STATES)
    kept = sum(
        job.bytes + job.outcome_bytes
        for job in stored
        if job.state in FINAL_STATES and not job.is_kept_for_batch
    )
    bytes_ = dict(zip(_BYTES, (waiting, kept), strict=True))
    totals = queue.totals
    # A count of nothing is not kept, but for how many jobs run, of all and of a type.
    may_be_nothing = ("uA:", "uT:")
    counts = {
        name: count
        for name, count in queue.counts.items()
        if count or not name.startswith(may_be_nothing)
    }
    recounts: tuple[tuple[str, Mapping[str, int], Mapping[str, int]], ...] = (
        ("meta", counts, listings),
        ("busy", queue.busy, busy),
        ("meta", {name: totals.count(name) for name in _BYTES}, bytes_),
    )
    for where, counted, found in recounts:
        for name in counted.keys() | found.keys():
            is_counter = where == "meta" and name in _BYTES
            is_zero = counted.get(name) == 0 and not is_counter
            excess = counted.get(name, 0) - found.get(name, 0)
            if excess or is_zero:
                yield Violation(
                    "I12",
                    queue.queue,
                    f"{counted.get(name, 0)} are counted in {where} as {name!r}, {excess} too many",
                    is_repairable=True,
                    kind="count_is_wrong",
                    subject=subject(where, name),
                    excess=excess,
                )


def counts_agree(queue: JobSnapshot) -> Iterator[Violation]:
    """I12, at one instant also on a busy queue: as many jobs are counted in each state as stand in
    the place of that state.
    """
    totals = queue.totals
    states, sizes = totals.states, totals.sizes
    finished = states.get("done", 0) + states.get("cancelled", 0)
    pairs = {
        "jobs": sum(states.get(state, 0) for state in JOB_STATES),
        "due": states.get("scheduled", 0),
        "finished": finished,
        "buried": states.get("dead", 0),
    }
    for place, counted in pairs.items():
        yield from _unequal(queue, place, counted, sizes.get(place, 0))
    yield from _unequal(queue, "running", states.get("running", 0), sum(totals.held.values()))


def _unequal(queue: JobSnapshot, place: str, counted: int, found: int) -> Iterator[Violation]:
    if counted != found:
        yield Violation(
            "I12",
            queue.queue,
            f"{counted} jobs are counted in the states of {place!r}, but {found} are there",
            kind="states_add_up",
            subject=place,
        )
