# Generated from _async/jobs.py by tools/generate_sync.py. Edit that file instead.

"""A queue of jobs, as its producers and operators see it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from penstock.client._sync.deletion import delete_jobs
from penstock.client._sync.job_lists import JobLists
from penstock.client._sync.job_sending import JobSending
from penstock.codec.notices import open_event
from penstock.connection.subscription import Subscription, listen
from penstock.errors import InvalidArgument, QueueNotFound
from penstock.model.job_filters import listing_of, make_filter, matches
from penstock.model.job_options import Seconds, check_seconds
from penstock.model.job_rules import JobQueueSettings, check_job_settings, check_limit, check_share
from penstock.model.jobs import WAITING_STATES, JobEvent, check_event_kind, check_state
from penstock.model.names import check_name
from penstock.store.command import QueueAbsent
from penstock.store.commands import job_records, job_rules, queues
from penstock.store.commands.job_records import CHUNK
from penstock.store.commands.job_rules import MoreToDo

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from penstock.model.job_filters import FilterSettings
    from penstock.model.job_rules import JobRules
    from penstock.model.jobs import JobEventKind, JobState
    from penstock.model.queues import Deleted
    from penstock.store.command import Command

    OnProgress = Callable[[int], None]


class Jobs(JobSending, JobLists):
    """The jobs of one queue."""

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
                lambda operation: job_records.purge_jobs(self._keys, operation, CHUNK)
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
        jobs are kept. `history_length`: how many entries the history has; `history_cap`: how many
        it may have while a reader has a mark in it. `max_schedules`: how many schedules it has at
        most.
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

    def events(
        self, *kinds: JobEventKind, timeout_s: Seconds | None = None
    ) -> Generator[JobEvent, None, None]:
        """Listen to what happens to jobs from now on; all kinds of events if none is named.

        Live only: what happened before is not told; `history` has every attempt. Ends when nothing
        that was named comes for `timeout_s`.
        """
        for kind in kinds:
            check_event_kind(kind)
        given_s = None if timeout_s is None else check_seconds("timeout_s", timeout_s)

        def read(_: str, message: bytes) -> JobEvent | None:
            event = open_event(self.name, message)
            return event if not kinds or event.kind in kinds else None

        subscription = Subscription(self._store, self._keys.meta, [self._keys.events])
        return listen(subscription, read, given_s)

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
                job_records.page_jobs(self._keys, listing_of(chosen), place, CHUNK, False)
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
