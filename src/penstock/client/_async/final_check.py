"""A final check of jobs whose wait timed out."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.client.results.ending_channel import ending_of
from penstock.errors import StoreUnavailable
from penstock.store.commands.job_records import read_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.client._async.client import AsyncPenstock
    from penstock.client._async.job import AsyncJob
    from penstock.client.results.ending_channel import Ending
    from penstock.store.keys import QueueKeys

_CHUNK = 250


async def find_ended(jobs: Iterable[AsyncJob[Any]]) -> dict[AsyncJob[Any], Ending]:
    """Those of the jobs that have ended, and how.

    The news that a job has ended takes a round trip or two. Without this check, a shorter wait
    would say of a job that ended long ago that it has not.
    """
    by_place: dict[tuple[AsyncPenstock, QueueKeys], list[AsyncJob[Any]]] = {}
    for job in jobs:
        by_place.setdefault((job._client, job._keys), []).append(job)
    ended: dict[AsyncJob[Any], Ending] = {}
    # Time is up, so the caller does not wait for a store that does not answer.
    with suppress(StoreUnavailable):
        for (client, keys), some in by_place.items():
            for first in range(0, len(some), _CHUNK):
                chunk = some[first : first + _CHUNK]
                numbers = [job._number for job in chunk]
                found = await client.store.run_soon(read_jobs(keys, numbers, with_data=False))
                for job, info in zip(chunk, found, strict=True):
                    if (ending := ending_of(info)) is not None:
                        ended[job] = ending
    return ended
