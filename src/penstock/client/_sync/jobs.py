# Generated from _async/jobs.py by tools/generate_sync.py. Edit that file instead.

"""A queue of jobs, as its producers and operators see it."""

from __future__ import annotations

import re
import time
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Unpack

from penstock.client._sync.deletion import delete_jobs
from penstock.client._sync.job import Job
from penstock.client._sync.subscription import Subscription, listen
from penstock.client._sync.transport import pause
from penstock.client.batches import Batches, check_items
from penstock.client.job_ids import new_id
from penstock.client.parcels import (
    fitting,
    groups_of,
    pack_job,
    pack_plain_job,
    seal,
    size_of_job,
)
from penstock.codec.ids import id_number
from penstock.codec.records import open_event
from penstock.codec.values import split_words
from penstock.errors import InvalidArgument, JobNotFound, QueueFull, QueueNotFound
from penstock.model.job_filters import (
    JobFilter,
    check_one,
    check_page,
    is_counted,
    listing_of,
    make_filter,
    matches,
)
from penstock.model.job_options import (
    MAX_WORDS,
    JobOptions,
    JobSettings,
    Seconds,
    check_seconds,
    make_options,
)
from penstock.model.job_rules import (
    JobQueueSettings,
    check_job_settings,
    check_limit,
    check_share,
)
from penstock.model.jobs import (
    JOB_STATES,
    STATES_BY_CODE,
    WAITING_STATES,
    WHY_ABSENT,
    JobEvent,
    JobPage,
    check_event_kind,
    check_state,
)
from penstock.model.names import check_name, shown
from penstock.store.command import QueueAbsent
from penstock.store.commands import job_records, job_rules, jobs, queues
from penstock.store.commands.job_rules import MoreToDo
from penstock.store.commands.jobs import IdTaken

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from penstock.client._sync.client import Penstock
    from penstock.client.parcels import Packed, Parcel
    from penstock.client.template import Template
    from penstock.client.wire import Meanwhile
    from penstock.model.job_filters import FilterSettings
    from penstock.model.job_rules import JobRules
    from penstock.model.jobs import EndedAttempt, JobEventKind, JobInfo, JobState
    from penstock.model.queues import Deleted
    from penstock.store.command import Command, Operation
    from penstock.store.commands.job_records import IdPage

    OnProgress = Callable[[int], None]

_BATCH_JOBS = 250
_BATCH_SCHEDULED = 100
"""They keep the server busy for twice as long, each."""
_CHUNK = 250
_FIRST_ROOM_S, _ROOM_S = 0.02, 0.5
_MAX_SEARCHED = 10_000
_TEMPLATES = 1000
_PLACE = re.compile(r"-|\d{1,20}-\d{1,20}")


class Jobs:
    """The jobs of one queue."""

    def __init__(self, client: Penstock, name: str) -> None:
        self._client = client
        self._store = client.store
        self._keys = client.keys.queue(name)
        self._max_payload = client.settings.max_payload
        self._last_type: tuple[str, JobOptions] | None = None
        """of a job that was added without options, and what that comes to"""
        self._last_sent: tuple[JobOptions, Template] | None = None
        """most jobs are sent with the same options as the one before"""
        self.name = name

    def add(self, type: str, data: object = None, **options: Unpack[JobSettings]) -> Job[Any]:
        """Send a job: any data that can be written as JSON, or bytes as they are.

        Raises InvalidArgument, Unserialisable or PayloadTooLarge before anything is sent, QueueFull
        or StoreFull if there is no room.
        """
        last = self._last_type
        if last is not None and last[0] is type and not options:
            return self.send_one(last[1], data)
        made = make_options(type, options)
        if not options:
            self._last_type = (type, made)
        return self.send_one(made, data)

    def add_many(
        self, type: str, items: Iterable[object], **options: Unpack[JobSettings]
    ) -> list[Job[Any]]:
        """Send many jobs with the same options, in batches of up to 250; `items` is read one batch
        ahead. Each batch is added whole or not at all. If one is refused, the ones before it stay
        (`error.accepted` says how many).

        With `wait`, a batch that the queue has no room for is sent in smaller ones, in order and as
        room comes, so that there may be more jobs than the queue takes at once. It is given up when
        no job has found room for so long.
        """
        check_items(items, "the data of each job")
        return self.send(make_options(type, options), items)

    def send_one(self, options: JobOptions, item: object) -> Job[Any]:
        """Send a job with options that were checked before."""
        last = self._last_sent
        if last is None or last[0] is not options:
            if options.search is not False or options.id or options.run_at_ms:
                return self._send_packed(options, pack_job(options, self._max_payload, item))
            last = self._last_sent = (options, self._template(options))
        data = pack_plain_job(self._max_payload, item)
        number = new_id()
        try:
            existing = self._store.run_template(
                last[1],
                (b"%d" % number, data),
                lambda operation: self._build(options, operation, number, data),
            )
            if existing:
                return self._job(existing[0], options.type, is_new=False)
            return Job(self._client, self._keys, number, options.type)
        except (QueueAbsent, IdTaken):
            pass
        except QueueFull:
            if options.wait_s <= 0:
                raise
        return self._send_packed(options, data)

    def send(self, options: JobOptions, items: Iterable[object]) -> list[Job[Any]]:
        """Send any number of jobs with options that were checked before."""
        sent: list[Job[Any]] = []
        if options.id:
            items = list(islice(items, 2))
            if len(items) > 1:
                raise InvalidArgument("an id is for one job; leave it out when many are sent")
        batches = Batches(
            items,
            partial(pack_job, options, self._max_payload),
            size_of_job,
            _BATCH_SCHEDULED if options.delay_ms or options.run_at_ms else _BATCH_JOBS,
            partial(seal, options),
        )
        try:
            while parcel := batches.take():
                self._send_parcel(options, parcel, sent, batches.prepare)
        except Exception as error:
            error.accepted = len(sent)  # type: ignore[attr-defined]
            raise
        return sent

    def get(self, id: str) -> Job[Any]:
        """The job of this id. Raises JobNotFound."""
        number = id_number(id)
        found = self._store.run(job_records.read_jobs(self._keys, [number], with_data=False))
        if found[0] is None:
            raise JobNotFound(f"queue {self.name!r} has no job {id}; {WHY_ABSENT}")
        return self._job(number, found[0].type)

    def page(
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

        Running jobs come in the order in which they were started. Of several of type, tenant and
        tag, the store looks for one, and for no `reason` that jobs are dead for: then a page may
        have fewer jobs than `limit`, or none, before the last, and its `total` is not known.
        """
        chosen = make_filter(state, which)
        check_page(limit)
        place = _open_cursor(after)
        if state == "running":
            return self._running(chosen, place, limit, newest_first, with_data)
        found = self._store.run(
            job_records.page_jobs(self._keys, listing_of(chosen), place, limit, newest_first)
        )
        infos = self._read([number for _, number in found.places], with_data)
        kept = [job for job in infos if job is not None and matches(job, chosen)]
        is_last = len(found.places) < limit
        cursor = "" if is_last else "{}.{}".format(*found.places[-1])
        return JobPage(kept, cursor, found.total if is_counted(chosen) else None)

    def search(self, text: str, limit: int = 100) -> list[JobInfo]:
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
        rarest, page = self._rarest(words)
        found: list[int] = []
        seen = 0
        while True:
            numbers = [number for _, number in page.places]
            infos = self._read(numbers, with_data=False)
            found += [
                number
                for number, info in zip(numbers, infos, strict=True)
                if info is not None and set(words) <= set(info.words)
            ]
            seen += len(numbers)
            if len(numbers) < _CHUNK or len(found) >= limit or seen >= _MAX_SEARCHED:
                break
            page = self._page_of_word(rarest, page.places[-1])
        return [info for info in self._read(found[:limit], with_data=True) if info]

    def counts(self, **which: Unpack[FilterSettings]) -> dict[JobState, int]:
        """How many jobs there are in each state, perhaps only of one type, tenant or tag."""
        check_one(which)
        listings = [listing_of(make_filter(state, which)) for state in JOB_STATES]
        numbers = self._store.run(job_records.count_jobs(self._keys, listings))
        return dict(zip(JOB_STATES, numbers, strict=True))

    def types(self) -> dict[str, dict[JobState, int]]:
        """Every type of which there are jobs, and how many in each state."""
        return self._tally("T")

    def tenants(self) -> dict[str, dict[JobState, int]]:
        """The same for tenants."""
        return self._tally("N")

    def tags(self) -> dict[str, dict[JobState, int]]:
        """The same for tags."""
        return self._tally("G")

    def retry(
        self, *, on_progress: OnProgress | None = None, **which: Unpack[FilterSettings]
    ) -> int:
        """Let all dead jobs, or those of one type, tenant, tag or reason, run again; returns how
        many.

        `on_progress` is called now and then with how many jobs have been looked at.
        """
        return self._each("dead", which, job_records.retry_jobs, "retried", on_progress)

    def cancel(
        self,
        state: JobState,
        *,
        on_progress: OnProgress | None = None,
        **which: Unpack[FilterSettings],
    ) -> int:
        """Cancel all jobs in a waiting state, or those of one type, tenant or tag; returns how
        many.
        """
        if check_state(state) not in WAITING_STATES:
            raise InvalidArgument(
                f"only waiting jobs are cancelled together, not {state} ones; give one of "
                f"{', '.join(WAITING_STATES)}, or cancel each running job by itself"
            )
        return self._each(state, which, job_records.cancel_jobs, "cancelled", on_progress)

    def remove(
        self,
        state: JobState,
        *,
        on_progress: OnProgress | None = None,
        **which: Unpack[FilterSettings],
    ) -> int:
        """Remove all jobs in a state, or those of one type, tenant or tag; returns how many."""
        if check_state(state) == "running":
            raise InvalidArgument("running jobs cannot be removed; cancel each of them first")
        return self._each(state, which, job_records.remove_jobs, "removed", on_progress)

    def purge(self) -> int:
        """Remove the finished jobs that are kept no longer, at once; it also happens by itself, a
        few with every request of a worker.
        """
        purged = 0
        while True:
            gone, _ = self._store.run_once(
                lambda operation: job_records.purge_jobs(self._keys, operation, _CHUNK)
            )
            purged += gone
            if gone == 0:
                return purged

    def pause_type(self, type: str) -> None:
        """Hand out no more jobs of a type. What runs goes on."""
        self._set(job_rules.pause_type, check_name("job type", type), True)

    def resume_type(self, type: str) -> None:
        """Hand out jobs of a type again. Raises QueueNotFound."""
        self._lift(job_rules.pause_type, check_name("job type", type), False)

    def limit(
        self,
        key: str = "",
        *,
        concurrency: int | None = None,
        rate: float | None = None,
        per: Seconds = 1.0,
        burst: float | None = None,
    ) -> None:
        """Limit how many jobs of a key may run at once (`concurrency`) and start in a time (`rate`
        every `per` seconds, `burst` of them at once). Takes effect at once; with neither, the limit
        is lifted, which raises QueueNotFound if there is no such queue.

        Without a key it is for the whole queue; the key `*` is for every key without a limit of
        its own. Jobs are sent with `key=...`.
        """
        slots, rate, per_ms, burst = check_limit(key, concurrency, rate, per, burst)
        change = self._set if slots or rate else self._lift
        change(job_rules.set_limit, key, slots, rate, per_ms, burst)

    def share(self, tenant: str, weight: int) -> None:
        """How many jobs of a tenant start in a round, where several tenants wait; 1 if not set."""
        check_share(weight)
        self._set(job_rules.set_share, check_name("tenant", tenant), weight)

    def rules(self) -> JobRules:
        """What holds for many jobs of the queue: settings, limits, shares, paused types."""
        return self._store.run(job_rules.read_rules(self._keys))

    def pause(self) -> None:
        """Hand out nothing more. What runs goes on, and jobs can still be added."""
        self._client.queue(self.name).pause()

    def resume(self) -> None:
        """Hand out jobs again."""
        self._client.queue(self.name).resume()

    def configure(self, **settings: Unpack[JobQueueSettings]) -> None:
        """Change settings; those not given stay as they are, None stands for the default.

        `max_length`, `max_bytes`: how many jobs, and bytes of data, may wait. `ageing_s`: a job
        counts as one step more urgent for every so many seconds that it waits. `keep_s`,
        `keep_dead_s`, `keep_count`, `keep_bytes`: how long, how many and how many bytes of finished
        jobs are kept. `history_length`: how many attempts the history has.
        """
        given = check_job_settings(settings)
        self._client.queue(self.name)._in_queue(
            lambda incarnation: self._store.run_once(
                lambda operation: queues.configure_queue(self._keys, operation, given, incarnation)
            )
        )

    def delete(self) -> Deleted:
        """Delete all jobs but those that run, and the queue itself unless some do."""
        return delete_jobs(self._store, self._client.keys, self._keys)

    def history(self, after: str = "-", limit: int = 1000) -> list[EndedAttempt]:
        """Attempts that have ended, oldest first, after a place (`place` of the last one read).

        Unlike events, it is kept: the last `history_length` attempts or so, 100,000 by default.
        """
        place: object = after
        if not isinstance(place, str) or not _PLACE.fullmatch(place):
            raise InvalidArgument(
                f"{shown(place)} is no place in a history; give the `place` of an attempt, or '-'"
            )
        if type(limit) is not int or not 1 <= limit <= 10_000:
            raise InvalidArgument(f"limit is {limit!r}; give a whole number from 1 to 10000")
        return self._store.run(job_records.read_history(self._keys, after, limit))

    def events(
        self, *kinds: JobEventKind, timeout_s: Seconds | None = None
    ) -> Generator[JobEvent, None, None]:
        """Listen to what happens to jobs from now on; all kinds of events if none is named.

        Live only: what happens while nobody listens is missed; `history` has every attempt. Ends
        when nothing that was named comes for `timeout_s`.
        """
        for kind in kinds:
            check_event_kind(kind)
        given_s = None if timeout_s is None else check_seconds("timeout_s", timeout_s)

        def read(_: str, message: bytes) -> JobEvent | None:
            event = open_event(self.name, message)
            return event if not kinds or event.kind in kinds else None

        subscription = Subscription(self._store, self._keys.meta, [self._keys.events])
        return listen(subscription, read, given_s)

    def _send_packed(self, options: JobOptions, packed: Packed) -> Job[Any]:
        """Send one job as many are sent: without a template, and again if need be."""
        sent: list[Job[Any]] = []
        self._send_parcel(options, seal(options, [packed]), sent)
        return sent[0]

    def _build(
        self, options: JobOptions, operation: Operation, number: int, data: bytes
    ) -> Command[dict[int, int]]:
        return jobs.send_jobs(self._keys, operation, groups_of(options, [number], [data]))

    def _template(self, options: JobOptions) -> Template:
        templates, name = self._client.templates, (self._keys, options)
        template = templates.get(name)
        if template is None:
            if len(templates) >= _TEMPLATES:
                templates.clear()
            build = partial(self._build, options)
            template = self._store.template(jobs.SEND_JOBS, build, values=2, usual=[b"ok"])
            templates[name] = template
        return template

    def _send_parcel(
        self,
        options: JobOptions,
        parcel: Parcel,
        sent: list[Job[Any]],
        prepare_next: Meanwhile = None,
    ) -> None:
        """Send jobs, and put them with those `sent`: together, or as many at a time as there is
        room for if they can wait.
        """
        left, wait_s, deadline = parcel.batch, _FIRST_ROOM_S, None
        while True:
            try:
                sent += self._send_whole(options, parcel, prepare_next)
                left, wait_s, deadline = left[len(parcel.batch) :], _FIRST_ROOM_S, None
                if not left:
                    return
                # Not all that is left: it would be refused, and be sent in vain, time and again.
                size = 2 * len(parcel.batch)
            except QueueFull as refusal:
                if refusal.is_final or options.wait_s <= 0:
                    raise
                size = fitting(parcel.batch, refusal.room, refusal.room_bytes)
                if len(parcel.batch) == 1:
                    # From now on, as the first request may have been under way for long.
                    deadline = deadline or time.monotonic() + options.wait_s
                    left_s = deadline - time.monotonic()
                    if left_s <= 0:
                        raise
                    pause(min(left_s, wait_s))
                    wait_s = min(2 * wait_s, _ROOM_S)
            parcel = seal(options, left[:size])

    def _send_whole(
        self, options: JobOptions, parcel: Parcel, prepare_next: Meanwhile
    ) -> list[Job[Any]]:
        client, keys, kind = self._client, self._keys, options.type
        made: list[Job[Any]] = []
        if options.id:
            client.results.forget_ending(keys, parcel.numbers[0])

        def while_it_is_sent() -> None:
            made[:] = [Job(client, keys, number, kind) for number in parcel.numbers]
            if prepare_next is not None:
                prepare_next()

        while True:
            made.clear()
            try:
                existing = self._send(parcel, options.id != "", while_it_is_sent)
                break
            except IdTaken:
                parcel = seal(options, parcel.batch)
        if made and not existing:
            return made
        return [
            self._job(existing.get(index, number), kind, index not in existing)
            for index, number in enumerate(parcel.numbers)
        ]

    def _send(self, parcel: Parcel, is_given: bool, meanwhile: Meanwhile) -> dict[int, int]:
        return self._client.queue(self.name)._in_queue(
            lambda incarnation: self._store.run_once(
                lambda operation: jobs.send_jobs(
                    self._keys, operation, parcel.arguments, incarnation, is_given
                ),
                meanwhile,
            )
        )

    def _job(self, number: int, type: str, is_new: bool = True) -> Job[Any]:
        return Job(self._client, self._keys, number, type, is_new)

    def _read(self, numbers: Sequence[int], with_data: bool) -> list[JobInfo | None]:
        found: list[JobInfo | None] = []
        for first in range(0, len(numbers), _CHUNK):
            chunk = numbers[first : first + _CHUNK]
            command = job_records.read_jobs(self._keys, chunk, with_data)
            infos = self._store.run(command)
            found += infos
        return found

    def _rarest(self, words: Sequence[str]) -> tuple[str, IdPage]:
        """The rarest of some words, and the newest jobs that have it.

        Nobody counts the jobs of a word. But a listing that ends first is the shortest, and if none
        has ended, the one that has come farthest back has the fewest jobs among the newest.
        """
        pages = {word: self._page_of_word(word) for word in words}
        return min(pages.items(), key=lambda item: (len(item[1].places), item[1].places[-1:]))

    def _page_of_word(self, word: str, after: tuple[int, int] | None = None) -> IdPage:
        command = job_records.page_jobs(self._keys, f"*W:{word}", after, _CHUNK, newest_first=True)
        return self._store.run(command)

    def _running(
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
            state = self._client.queue(self.name).inspect()
        except QueueNotFound:
            return JobPage([], "", 0)
        for worker, held in state.held.items():
            if held:
                command = job_records.list_running(self._keys, worker)
                running = self._store.run(command)
                numbers += running
        infos = self._read(numbers, with_data)
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

    def _each(
        self,
        state: JobState,
        which: FilterSettings,
        build: Any,
        wanted: str,
        on_progress: OnProgress | None,
    ) -> int:
        """Do something to every job of a listing, in chunks."""
        chosen = make_filter(state, which)
        done = seen = 0
        place: tuple[int, int] | None = None
        while True:
            page = self._store.run(
                job_records.page_jobs(self._keys, listing_of(chosen), place, _CHUNK, False)
            )
            if not page.places:
                return done
            place = page.places[-1]
            numbers = [number for _, number in page.places]
            infos = self._read(numbers, with_data=False)
            numbers = [
                number
                for number, info in zip(numbers, infos, strict=True)
                if info is not None and matches(info, chosen)
            ]
            if numbers:
                words = self._store.run_once(partial(build, self._keys, ids=numbers))
                done += words.count(wanted)
            seen += len(page.places)
            if on_progress is not None:
                on_progress(seen)

    def _tally(self, dimension: str) -> dict[str, dict[JobState, int]]:
        found: dict[str, dict[JobState, int]] = {}
        cursor = "0"
        while True:
            cursor, page = self._store.run(job_records.tally_jobs(self._keys, cursor, dimension))
            for listing, number in page.items():
                found.setdefault(listing[3:], {})[STATES_BY_CODE[listing[0]]] = number
            if cursor == "0":
                return dict(sorted(found.items()))

    def _set(self, build: Callable[..., Command[bool]], *rule: str | float) -> None:
        """Set a rule, also for jobs that are still to come."""
        self._client.queue(self.name)._in_queue(
            lambda incarnation: self._change(build, rule, incarnation)
        )

    def _lift(self, build: Callable[..., Command[bool]], *rule: str | float) -> None:
        try:
            self._change(build, rule, "")
        except QueueAbsent:
            raise QueueNotFound(
                f"there is no queue {self.name!r}, so it has no rule that could be lifted; check "
                "the name"
            ) from None

    def _change(
        self, build: Callable[..., Command[bool]], rule: Sequence[str | float], incarnation: str
    ) -> None:
        while True:
            try:
                self._store.run_once(
                    lambda operation: build(self._keys, operation, *rule, incarnation=incarnation)
                )
                return
            except MoreToDo:
                continue


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
