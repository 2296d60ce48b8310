"""What the clients of jobs were told, held against what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.codec.ids import id_text
from penstock.model.job_invariants import job_violations
from tests.simulation.arguments import Arguments
from tests.simulation.batch_history import BatchStep
from tests.simulation.jobs_checks import (
    MAY_ADD,
    Change,
    Step,
    check_change,
    check_reply,
    is_suspect,
)
from tests.simulation.jobs_limits import LimitBooks
from tests.simulation.jobs_schedules import SlotBooks
from tests.simulation.server import Violated

if TYPE_CHECKING:
    from collections import Counter

    from penstock.client.job import AsyncJob
    from penstock.store.command import Command
    from tests.simulation.batch_history import BatchHistory
    from tests.simulation.jobs_look import Look

GIVEN_IDS = range(1, 7)


class JobHistory:
    """Everything that was promised and everything that was seen, since the beginning."""

    def __init__(self, sometimes: Counter[str], is_heard: bool, batches: BatchHistory) -> None:
        self.sometimes = sometimes
        self._batches = batches
        self._is_heard = is_heard
        self.seen: set[tuple[str, str]] = set()
        """queue and id of every job that was ever there"""
        self.data: set[tuple[str, str, bytes]] = set()
        """the same with what was ever its data"""
        self.reused = {id_text(number) for number in GIVEN_IDS}
        """ids that somebody may come with again after the job is gone"""
        self._gone: dict[tuple[str, str], str] = {}
        self._ends: dict[tuple[str, int], str] = {}
        """queue and process -> by what its attempt has ended"""
        self._last_token: dict[str, int] = {}
        self._done: dict[str, int] = {}
        """what a lane is remembered by -> its last operation"""
        self.unique_rows: dict[bytes, bytes] = {}
        """data of jobs in batches -> their unique key, of those that have one"""
        self._limits = LimitBooks()
        self.slots = SlotBooks()

    @property
    def ends(self) -> int:
        """How many attempts have ended."""
        return len(self._ends)

    # What clients were told.

    def accepted(self, queue: str, data: list[bytes], sent: list[AsyncJob[Any]]) -> None:
        """A producer was told that these are in, or that others are there in their place."""
        for job in sent:
            # Of equal jobs in a row, the first or the last counts.
            own = [each for each, other in zip(data, sent, strict=True) if other == job]
            if (queue, job.id) not in self.seen:
                raise Violated(f"job {job.id} of {queue} was acknowledged but never there")
            if job.is_new and not any((queue, job.id, each) in self.data for each in own):
                raise Violated(f"{own!r} was acknowledged but never there")

    def end_told(self, queue: str, process: int, is_accepted: bool) -> None:
        """A worker was told whether its word on a job counted."""
        if is_accepted != (self._ends.get((queue, process)) == "report_jobs"):
            told = "accepted" if is_accepted else "refused"
            raise Violated(f"the end of process {process} in {queue} was {told}, and it was not")

    # What happened.

    def observe(
        self, command: Command[Any], reply: list[Any], before: Look, after: Look, now_ms: int
    ) -> None:
        """One command has run; everything must still be as promised."""
        step = Step(command, reply, before, after, now_ms, self._is_repetition(command))
        if step.is_repetition:
            self.sometimes["repetition absorbed"] += 1
        for name, new in after.queues.items():
            change = Change(step, name, before.queues[name], new)
            if change.old is not new:
                self._queue_changed(change)
            if change.old is not new or change.is_addressed:
                self._note_batches(change)
        if step.is_hand_out:
            change = Change(step, *step.sides)
            check_reply(change)
            self._limits.check_reply(change)

    def _is_repetition(self, command: Command[Any]) -> bool:
        arguments = Arguments(command)
        if "memory" not in arguments:
            return False
        memory, number = arguments["memory"], arguments["operation"]
        last = self._done.get(memory, 0)
        self._done[memory] = max(last, number)
        return bool(number <= last)

    def _queue_changed(self, change: Change) -> None:
        found = job_violations(change.new.snapshot)
        if found:
            raise Violated("\n".join(f"{v.invariant} {v.queue}: {v.message}" for v in found))
        if change.new.incarnation and change.new.incarnation not in change.step.after.registry:
            raise Violated(f"queue {change.queue!r} is not on the list of queues")
        check_change(change)
        self._limits.check(change)
        self._limits.check_parked(change)
        self.slots.check(change)
        self._count(change)
        self._note_jobs(change)
        self._note_tokens(change)
        self._note_ends(change)
        self._nobody_sleeps_beside_work(change)

    def _note_jobs(self, change: Change) -> None:
        for id, (old, new) in change.changed.items():
            name = (change.queue, id)
            if new is None:
                self._gone[name] = change.step.name
            elif old is None and name in self._gone and id not in self.reused:
                raise Violated(f"job {id} is back, although {self._gone[name]} had removed it")
            if new is not None:
                self.seen.add(name)
                self.data.add((*name, new.data))

    def _note_batches(self, change: Change) -> None:
        """Jobs of a batch come in as it was decided, but for those whose unique key is taken."""
        step = change.step
        added = [new for old, new in change.changed.values() if old is None and new is not None]
        added.sort(key=lambda job: job.stored.number)
        is_move = step.name == "move_jobs" and not step.is_repetition
        merged = int(step.reply[2]) if is_move and step.reply[0] == b"ok" else 0
        skipped = self._batches.observe(
            BatchStep(
                *(step.name, step.arguments, step.reply, step.is_repetition),
                *(change.queue, change.old.staging, change.new.staging),
            ),
            [job.data for job in added],
            merged,
        )
        taken = change.old.snapshot.unique.keys() | {job.stored.head.unique for job in added}
        for row in skipped:
            if self.unique_rows.get(row) not in taken:
                raise Violated(f"{row!r} of a batch was not added, and nobody has its key")
            self.sometimes["job of a batch merged"] += 1

    def _count(self, change: Change) -> None:
        """What a simulation should have seen."""
        old, new = change.old.snapshot, change.new.snapshot
        for before, after in change.changed.values():
            if before is None:
                self.sometimes[f"came by {change.step.name}"] += 1
                self.sometimes["handed over"] += bool(change.started)
            elif after is None:
                self.sometimes[f"gone by {change.step.name}"] += 1
            elif change.step.name in MAY_ADD:
                self.sometimes["debounced"] += 1
            elif after.reason and before.stored.state != "dead":
                self.sometimes[f"dead: {after.reason}"] += 1
        for what, was, is_now in (
            ("job parked", old.parked, new.parked),
            ("job unhandled", old.unhandled, new.unhandled),
            ("suspect alone", old.suspects, new.suspects),
        ):
            self.sometimes[what] += len(is_now) > len(was)
            self.sometimes[f"{what} no more"] += len(is_now) < len(was)
        for priority, ring in old.rings.items():
            now = list(new.rings.get(priority, ()))
            if len(ring) > 1 and set(now) == set(ring) and now != list(ring):
                self.sometimes["tenants take turns"] += 1
        if change.step.name == "fire_schedule" and len(change.changed) > 1:
            self.sometimes["several slots fired at once"] += 1

    def _note_tokens(self, change: Change) -> None:
        last = self._last_token.get(change.queue, 0)
        for process in sorted(change.started):
            if process <= last:
                raise Violated(f"process {process} of {change.queue} was given out after {last}")
        self._last_token[change.queue] = max([last, *change.started])

    def _note_ends(self, change: Change) -> None:
        for ended in change.ended.values():
            name = (change.queue, ended.process)
            if name in self._ends:
                raise Violated(f"process {ended.process} of {change.queue} has ended twice")
            self._ends[name] = change.step.name
            self.sometimes[f"ended: {ended.outcome}"] += 1
        if change.step.name == "leave_jobs" and change.ended and change.step.arguments["lost"]:
            if change.worker in change.step.before.leases:
                raise Violated(f"jobs of {change.worker!r} were taken while it held its lease")
            self.sometimes["worker recovered with its jobs"] += 1

    def _nobody_sleeps_beside_work(self, change: Change) -> None:
        """A worker that waits to be woken has nothing to do, as far as is known without a clock."""
        new = change.new
        if self._is_heard:
            return  # then others may be on their way
        if not new.snapshot.totals.idle or new.is_paused or "" in new.limits:
            return
        parked = {entry.id for entries in new.snapshot.parked.values() for entry in entries}
        for job in new.jobs.values():
            head = job.stored.head
            if job.stored.state != "ready" or job.stored.id in parked or is_suspect(job):
                continue
            if head.type in new.paused_types:
                continue
            for worker in new.snapshot.totals.idle:
                if new.handles(worker, head.type):
                    raise Violated(f"{worker!r} sleeps in {change.queue} beside {job.stored}")
