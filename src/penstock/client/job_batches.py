"""Jobs on their way to the store: packed one by one, and put together in batches."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from penstock.client.causes import CausedJob
from penstock.codec.heads import pack_head, with_cause
from penstock.codec.ids import id_number
from penstock.codec.values import pack_data, words_of
from penstock.connection.job_ids import new_ids
from penstock.connection.wire import pack_ahead
from penstock.model.job_options import MAX_WORDS
from penstock.model.queues import check_payload
from penstock.store.commands.jobs import Group, group_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client.causes import CausedJobs
    from penstock.model.job_options import JobOptions
    from penstock.store.command import Prepacked
    from penstock.store.commands.jobs import IdOrigin

    Packed = bytes | tuple[bytes, tuple[str, ...]] | CausedJob


class JobBatch(NamedTuple):
    """Jobs that are sent together."""

    jobs: list[Packed]
    numbers: list[int]
    """their ids"""
    origin: IdOrigin
    """of their ids"""
    arguments: Prepacked


def pack_job(
    options: JobOptions, max_payload: int, caused: CausedJobs | None, item: object
) -> Packed:
    """The data of a job; with the words by which it can be found, if it is to be, and with its id
    if that follows from what it is sent for.
    """
    data = pack_job_data(max_payload, item)
    if caused is None and options.search is False:
        return data
    words = words_of(item, options.search, MAX_WORDS) if options.search is not False else ()
    return (data, words) if caused is None else caused.make(data, words)


def pack_job_data(max_payload: int, item: object) -> bytes:
    """The data of a job that need not be found by its words."""
    data = pack_data("the data of the job", item)
    if len(data) > max_payload:
        check_payload("data of a job", data, max_payload)
    return data


def size_of_job(packed: Packed) -> int:
    return len(packed) if isinstance(packed, bytes) else len(packed[0])


def fitting(batch: Sequence[Packed], room: int | None, room_bytes: int | None) -> int:
    """How many jobs, from the first on, there is room for (None: for any number); at least 1, as
    that is what is left to try.
    """
    sizes = accumulate(map(size_of_job, batch[:room]))
    return max(1, sum(room_bytes is None or size <= room_bytes for size in sizes))


def seal(options: JobOptions, jobs: list[Packed]) -> JobBatch:
    """Give jobs their ids, and put everything but the number of the request in its final form."""
    origin: IdOrigin = "made"
    if options.id:
        numbers, origin = [id_number(options.id)], "given"
    elif isinstance(jobs[0], CausedJob):
        numbers, origin = [job.number for job in jobs if isinstance(job, CausedJob)], "derived"
    else:
        numbers = list(new_ids(len(jobs)))
    arguments = group_arguments(groups_of(options, numbers, jobs))
    return JobBatch(jobs, numbers, origin, pack_ahead(arguments))


def groups_of(options: JobOptions, numbers: Sequence[int], batch: Sequence[Packed]) -> list[Group]:
    """By head, if they have different ones; each alone if they have causes."""
    if isinstance(batch[0], CausedJob):
        return [
            Group(
                with_cause(pack_head(options, job.words), job.digest),
                *(options.delay_ms, options.run_at_ms, options.window_ms),
                [(job.number, job.data)],
            )
            for job in batch
            if isinstance(job, CausedJob)
        ]
    by_head: dict[bytes, list[tuple[int, bytes]]] = {}
    if options.search is False:
        by_head[pack_head(options)] = list(zip(numbers, batch, strict=True))  # type: ignore[arg-type]
    else:
        for number, (data, words) in zip(numbers, batch, strict=True):  # type: ignore[misc]
            by_head.setdefault(pack_head(options, words), []).append((number, data))  # type: ignore[arg-type]
    return [
        Group(head, options.delay_ms, options.run_at_ms, options.window_ms, members)
        for head, members in by_head.items()
    ]
