"""Finds jobs of a queue: one by one, in pages, by their words, and in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from penstock.client._async.job_reading import AsyncJobReading
from penstock.codec.ids import id_number
from penstock.codec.values import split_words
from penstock.errors import InvalidArgument, JobNotFound, QueueNotFound
from penstock.model.history import BEGINNING, MOST_TRIMMED, check_place
from penstock.model.job_filters import (
    JobFilter,
    check_one,
    check_page,
    is_counted,
    listing_of,
    make_filter,
    matches,
)
from penstock.model.job_options import MAX_WORDS
from penstock.model.jobs import JOB_STATES, STATES_BY_CODE, WHY_ABSENT, JobPage
from penstock.model.names import check_name
from penstock.store.commands import history, job_records
from penstock.store.commands.job_records import CHUNK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.client._async.job import AsyncJob
    from penstock.model.history import HistoryBounds
    from penstock.model.job_filters import FilterSettings
    from penstock.model.jobs import EndedAttempt, JobInfo, JobState
    from penstock.store.commands.job_records import IdPage

_MAX_SEARCHED = 10_000


class AsyncJobLists(AsyncJobReading):
    """Finds jobs of one queue."""

    async def get(self, id: str) -> AsyncJob[Any]:
        """The job of this id. Raises JobNotFound."""
        number = id_number(id)
        found = await self._store.run(job_records.read_jobs(self._keys, [number], with_data=False))
        if found[0] is None:
            raise JobNotFound(f"queue {self.name!r} has no job {id}; {WHY_ABSENT}")
        return self._job(number, found[0].type)

    async def get_damaged(self, id: str) -> AsyncJob[Any] | None:
        """A job that could not be read and was set aside, which can only be removed; None if there
        is no such job.
        """
        number = id_number(id)
        key = self._keys.damaged
        is_there = await self._store.call(key, "HEXISTS", key, number)
        return self._job(number, "") if is_there else None

    async def page(
        self,
        state: JobState,
        *,
        after: str = "",
        limit: int = 100,
        newest_first: bool = False,
        with_data: bool = True,
        **which: Unpack[FilterSettings],
    ) -> JobPage:
        """Jobs in one state, and perhaps of one type, tenant or tag, in the order in which they
        were sent. `after` is the cursor of the page before.

        Running jobs come in the order in which they were started. The store filters by one of type,
        tenant and tag, and not by `reason`; the client does the rest. Then a page before the last
        may have fewer jobs than `limit`, or none, and its `total` is not known.
        """
        chosen = make_filter(state, which)
        check_page(limit)
        place = _open_cursor(after)
        if state == "running":
            return await self._running(chosen, place, limit, newest_first, with_data)
        found = await self._store.run(
            job_records.page_jobs(self._keys, listing_of(chosen), place, limit, newest_first)
        )
        infos = await self._read([number for _, number in found.places], with_data)
        kept = [job for job in infos if job is not None and matches(job, chosen)]
        is_last = len(found.places) < limit
        cursor = "" if is_last else "{}.{}".format(*found.places[-1])
        return JobPage(kept, cursor, found.total if is_counted(chosen) else None)

    async def search(self, text: str, limit: int = 100) -> list[JobInfo]:
        """Jobs that have all the words of `text` among their indexed words, in any state, the
        newest first.

        Only jobs that were sent with `search=...` are indexed, each by its first 64 words. Looks at
        the newest 10,000 jobs with the rarest of the words, and at no more.
        """
        if not isinstance(text, str):
            raise InvalidArgument(f"the words to search for are text, not {text!r}; pass a str")
        words = list(dict.fromkeys(split_words(text)))
        check_page(limit)
        if not 1 <= len(words) <= MAX_WORDS:  # no job has more
            return []
        rarest, page = await self._rarest(words)
        found: list[int] = []
        seen = 0
        while True:
            numbers = [number for _, number in page.places]
            infos = await self._read(numbers, with_data=False)
            found += [
                number
                for number, info in zip(numbers, infos, strict=True)
                if info is not None and set(words) <= set(info.words)
            ]
            seen += len(numbers)
            if len(numbers) < CHUNK or len(found) >= limit or seen >= _MAX_SEARCHED:
                break
            page = await self._page_of_word(rarest, page.places[-1])
        return [info for info in await self._read(found[:limit], with_data=True) if info]

    async def counts(self, **which: Unpack[FilterSettings]) -> dict[JobState, int]:
        """How many jobs there are in each state, perhaps only of one type, tenant or tag."""
        check_one(which)
        listings = [listing_of(make_filter(state, which)) for state in JOB_STATES]
        numbers = await self._store.run(job_records.count_jobs(self._keys, listings))
        return dict(zip(JOB_STATES, numbers, strict=True))

    async def types(self) -> dict[str, dict[JobState, int]]:
        """Every type of which there are jobs, and how many in each state."""
        return await self._tally("T")

    async def tenants(self) -> dict[str, dict[JobState, int]]:
        """The same for tenants."""
        return await self._tally("N")

    async def tags(self) -> dict[str, dict[JobState, int]]:
        """The same for tags."""
        return await self._tally("G")

    async def history(self, after: str = "-", limit: int = 1000) -> list[EndedAttempt]:
        """Attempts that have ended, and jobs that ended without one, oldest first, after a place
        (`place` of the last one read).

        Unlike events, it is kept: the last `history_length` entries or so, 100,000 by default.
        """
        if after != "-":
            check_place(after)
        if type(limit) is not int or not 1 <= limit <= 10_000:
            raise InvalidArgument(f"limit is {limit!r}; give a whole number from 1 to 10000")
        return await self._store.run(history.read_history(self._keys, after, limit))

    async def history_bounds(self, anchor: str = BEGINNING) -> HistoryBounds:
        """What the history has, its readers, and whether anything after `anchor` is lost."""
        return await self._store.run(history.describe_history(self._keys, check_place(anchor)))

    async def mark_history(self, reader: str, place: str) -> bool:
        """Say that `reader` has read the history up to `place`, so that what comes after it is
        kept for this reader, up to `history_cap` entries, until a week after it last said so.
        An empty place ends that. False if there is no such queue.
        """
        check_name("reader", reader)
        if place:
            check_place(place)
        removed: int | None = MOST_TRIMMED
        # They go in whole blocks, so there may be more of them when almost as many went.
        while removed is not None and removed > MOST_TRIMMED // 2:
            removed = await self._store.run_once(
                lambda operation: history.mark_history(self._keys, operation, reader, place)
            )
        return removed is not None

    async def _rarest(self, words: Sequence[str]) -> tuple[str, IdPage]:
        """The rarest of some words, and the newest jobs that have it.

        There is no count of the jobs of a word. But a listing that ends first is the shortest, and
        if none has ended, the one that has come farthest back has the fewest jobs among the newest.
        """
        pages = {word: await self._page_of_word(word) for word in words}
        return min(pages.items(), key=lambda item: (len(item[1].places), item[1].places[-1:]))

    async def _page_of_word(self, word: str, after: tuple[int, int] | None = None) -> IdPage:
        command = job_records.page_jobs(self._keys, f"*W:{word}", after, CHUNK, newest_first=True)
        return await self._store.run(command)

    async def _running(
        self,
        chosen: JobFilter,
        place: tuple[int, int] | None,
        limit: int,
        newest_first: bool,
        with_data: bool,
    ) -> JobPage:
        """Running jobs are found by way of the workers; there are never many. Their place is the
        process, which grows with every start.
        """
        numbers: list[int] = []
        try:
            state = await self._client.queue(self.name).inspect()
        except QueueNotFound:
            return JobPage([], "", 0)
        for worker, held in state.held.items():
            if held:
                command = job_records.list_running(self._keys, worker)
                running = await self._store.run(command)
                numbers += running
        infos = await self._read(numbers, with_data)
        kept = [job for job in infos if job is not None and matches(job, chosen)]
        kept.sort(key=lambda job: job.process, reverse=newest_first)
        if place is None:
            left = kept
        elif newest_first:
            left = [job for job in kept if job.process < place[1]]
        else:
            left = [job for job in kept if job.process > place[1]]
        cursor = f"0.{left[limit - 1].process}" if len(left) > limit else ""
        return JobPage(left[:limit], cursor, len(kept))

    async def _tally(self, dimension: str) -> dict[str, dict[JobState, int]]:
        found: dict[str, dict[JobState, int]] = {}
        cursor = "0"
        while True:
            cursor, page = await self._store.run(
                job_records.tally_jobs(self._keys, cursor, dimension)
            )
            for listing, number in page.items():
                found.setdefault(listing[3:], {})[STATES_BY_CODE[listing[0]]] = number
            if cursor == "0":
                return dict(sorted(found.items()))


def _open_cursor(after: str) -> tuple[int, int] | None:
    if not after:
        return None
    try:
        page, number = after.split(".")
        return int(page), int(number)
    except (AttributeError, ValueError):
        raise InvalidArgument(
            f"{after!r} is no cursor; give the one that came with the page before"
        ) from None
