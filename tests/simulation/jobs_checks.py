"""What one command may do to jobs, and what it must do: rules for the step from before to after.

No second implementation: a rule says what has to be true of any way of doing it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.codec.ids import id_text
from penstock.model.jobs import FINAL_STATES, MAX_CRASHES, MAX_LAPSES, MOVES, WAITING_STATES
from tests.simulation.arguments import Arguments
from tests.simulation.server import Violated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.claims import Claim
    from penstock.model.jobs import HandedOut
    from penstock.store.command import Command
    from tests.simulation.jobs_look import Job, Look, QueueLook

_REPORT_PARTS = 7
MAY_ADD = {"send_jobs", "fire_schedule", "move_jobs"}
_MAY_HAND_OUT = {"start_jobs", "report_jobs"}
_MAY_REMOVE = {"remove_jobs", "purge_jobs", "delete_jobs"}
_NAMES_IDS = {"cancel_jobs", "retry_jobs", "remove_jobs"}
_MAY_MOVE = {
    "cancel_jobs": {("scheduled", "cancelled"), ("ready", "cancelled")},
    "retry_jobs": {("dead", "ready"), ("cancelled", "ready")},
    "change_job": {
        *(("scheduled", "ready"), ("scheduled", "scheduled")),
        *(("ready", "scheduled"), ("ready", "ready")),
    },
}
_SUSPECT_FROM = 2
_LOSSES = ("", "lapsed", "lost")
"""What leave_jobs is told of the worker -> how what it held has ended."""


class Ended(NamedTuple):
    """An attempt that was said to be over, and how."""

    process: int
    outcome: str
    delay_ms: int = 0


@dataclass(frozen=True)
class Step:
    """A command, and everything before and after it."""

    command: Command[Any]
    reply: list[Any]
    before: Look
    after: Look
    now_ms: int
    is_repetition: bool

    @cached_property
    def name(self) -> str:
        return self.command.script.name

    @cached_property
    def arguments(self) -> Arguments:
        return Arguments(self.command)

    @property
    def is_hand_out(self) -> bool:
        """Whether a worker has asked for jobs, and hears the answer."""
        return self.name in _MAY_HAND_OUT and b"superseded" not in self.reply

    @property
    def sides(self) -> tuple[str, QueueLook, QueueLook]:
        """The queue that the command is about, before and after it."""
        queue = self.command.keys[-1].partition("}")[0].rpartition(":")[2]
        return queue, self.before.queues[queue], self.after.queues[queue]

    @cached_property
    def claim(self) -> Claim[HandedOut]:
        """The answer to a worker that asked for jobs."""
        claim: Claim[HandedOut] = self.command.decode(self.reply)
        return claim


@dataclass(frozen=True)
class Change:
    """What a step did to one queue."""

    step: Step
    queue: str
    old: QueueLook
    new: QueueLook

    @cached_property
    def is_addressed(self) -> bool:
        """Whether the command was about this queue."""
        return f":{self.queue}}}" in self.step.command.keys[-1]

    @cached_property
    def changed(self) -> dict[str, tuple[Job | None, Job | None]]:
        """Jobs that are not what they were, before and after."""
        old, new = self.old.jobs, self.new.jobs
        return {
            id: (old.get(id), new.get(id))
            for id in old.keys() | new.keys()
            if old.get(id) is not new.get(id) and old.get(id) != new.get(id)
        }

    @cached_property
    def worker(self) -> str:
        return str(self.step.arguments.get("worker", ""))

    @cached_property
    def held(self) -> dict[int, str]:
        """What the worker held before."""
        return dict(self.old.snapshot.running.get(self.worker, {}))

    @cached_property
    def started(self) -> dict[int, str]:
        """Processes that were not there before."""
        return {
            process: id
            for worker, held in self.new.snapshot.running.items()
            for process, id in held.items()
            if process not in self.old.snapshot.running.get(worker, {})
        }

    @cached_property
    def ended(self) -> dict[str, Ended]:
        """Jobs of which the command said that an attempt is over, if it was accepted."""
        name, arguments = self.step.name, self.step.arguments
        if self.step.is_repetition or not self.is_addressed:
            return {}
        if name == "leave_jobs":
            jobs = self.old.jobs
            outcome = _LOSSES[int(arguments["lost"])]
            return {
                id: Ended(process, outcome or ("lost" if jobs[id].is_at_most_once else "stopped"))
                for process, id in self.held.items()
            }
        if name != "report_jobs":
            return {}
        parts = arguments["reports"]
        reports = [parts[at : at + _REPORT_PARTS] for at in range(0, len(parts), _REPORT_PARTS)]
        return {
            self.held[report[0]]: Ended(report[0], report[1], int(report[4]))
            for report in reports
            if report[0] in self.held
        }


def check_reply(change: Change) -> None:
    """A worker is told what it holds and what it held, also when it asks again."""
    step = change.step
    running = change.new.snapshot.running.get(change.worker, {})
    for job in step.claim.found:
        if running.get(job.process) != job.id:
            raise Violated(f"{change.worker!r} was told of {job}, and holds {running}")
    if step.is_repetition:
        return
    if step.claim.word == "empty" and (left := next(_left_behind(change), None)):
        raise Violated(f"{change.worker!r} was told that there is nothing, and there is {left}")
    if not step.claim.found and step.claim.wait_ms == 0 and change.old is change.new:
        raise Violated(f"{change.worker!r} is to ask again, and nothing has changed")
    if step.name == "report_jobs":
        said = set(step.arguments["reports"][::_REPORT_PARTS])
        if set(step.claim.refused) != said - change.held.keys():
            raise Violated(
                f"{change.worker!r} held {sorted(change.held)}, spoke of {sorted(said)}, and was "
                f"refused {step.claim.refused}"
            )


def check_change(change: Change) -> None:
    """Everything that is said below."""
    if change.step.is_repetition:
        raise Violated(f"a repeated {change.step.name} had a second effect on {change.queue}")
    for id, (old, new) in change.changed.items():
        _check_move(change, id, old, new)
    _check_ends(change)
    _check_hand_out(change)
    _check_order(change)
    _check_unique(change)


def _check_move(change: Change, id: str, old: Job | None, new: Job | None) -> None:
    name = change.step.name
    was, is_now = _state(old), _state(new)
    what = f"job {id} of {change.queue} went from {was} to {is_now} by {name}"
    if old is None or new is None:
        if not (_may_add(change, new) if old is None else _may_vanish(change, id, old)):
            raise Violated(what)
        return
    if new.stored.number != old.stored.number or new.stored.turn < old.stored.turn:
        raise Violated(f"job {id} was {old.stored} and is {new.stored}, by {name}")
    # A worker that asks takes a job through several states at once.
    if name not in _MAY_HAND_OUT and was != is_now and is_now not in MOVES[old.stored.state]:
        raise Violated(f"{what}, which no job may")
    if name in _MAY_HAND_OUT and id not in change.ended:
        _check_looked_at(change, id, old, new, what)
    elif name in MAY_ADD and (was, is_now) == ("scheduled", "scheduled"):
        if old.stored.head.unique_mode != "scheduled":
            raise Violated(f"job {id} was sent anew, and is not one that can be")
    elif id not in change.ended and was != is_now and (was, is_now) not in _MAY_MOVE.get(name, ()):
        raise Violated(what)
    if not _is_meant(change, id):
        raise Violated(f"{what}, which did not name it")


def _state(job: Job | None) -> str:
    return "nothing" if job is None else job.stored.state


def _may_add(change: Change, new: Job | None) -> bool:
    is_handed_over = new is not None and new.stored.id in change.started.values()
    return change.step.name in MAY_ADD and (
        _state(new) in ("ready", "scheduled") or (_state(new) == "running" and is_handed_over)
    )


def _may_vanish(change: Change, id: str, old: Job) -> bool:
    name, state = change.step.name, old.stored.state
    if name in _MAY_REMOVE:
        return state != "running" and (name != "purge_jobs" or state in FINAL_STATES)
    if name not in _MAY_HAND_OUT:
        return False
    if id in change.ended and change.ended[id].outcome == "done" and old.is_forgotten:
        return True
    # A few that are kept no longer go with every request, if anything at all was said about that.
    is_kept = not change.old.snapshot.totals.meta.keys() & {"keep_ms", "keep_count", "keep_dead_ms"}
    ends = change.ended[id].outcome if id in change.ended else ""
    return not is_kept and (state in FINAL_STATES or ends not in ("", "stopped"))


def _is_meant(change: Change, id: str) -> bool:
    name, arguments = change.step.name, change.step.arguments
    if name in _NAMES_IDS:
        return any(_text(number) == id for number in arguments["ids"])
    if name == "change_job":
        return _text(arguments["id"]) == id
    if name == "note_job":
        running = change.old.snapshot.running.values()
        return any(held.get(arguments["process"]) == id for held in running)
    return True


def _check_looked_at(change: Change, id: str, old: Job, new: Job, what: str) -> None:
    """A job that a worker may have met when it asked for some."""
    was, is_now = old.stored.state, new.stored.state
    is_due = was != "scheduled" or old.stored.since_ms <= change.step.now_ms
    if was not in ("scheduled", "ready") or not is_due:
        raise Violated(f"{what}, though it was not its time")
    if is_now not in ("ready", "running", "dead"):
        raise Violated(what)
    if is_now == "dead" and not (new.reason == "expired" and old.is_expired(change.step.now_ms)):
        raise Violated(f"{what} for {new.reason!r}, though it had not expired")
    if was == "ready" and new.stored.turn != old.stored.turn:
        raise Violated(f"{what} and lost its turn")
    if _counts(old) != _counts(new):
        raise Violated(f"{what} and has other failures than before")


def _check_ends(change: Change) -> None:
    """Attempts end as their outcome says; each end that is more than giving back is on record, as
    is each end of a job that no worker held.
    """
    for id, ended in change.ended.items():
        _check_end(change, id, ended)
    attempts = sum(ended.outcome != "stopped" for ended in change.ended.values())
    endings = sum(_ends_without_attempt(change, id) for id in change.changed)
    recorded = change.new.history - change.old.history
    if recorded != attempts + endings and change.new.incarnation:
        raise Violated(
            f"{attempts} attempts and {endings} jobs without one ended by {change.step.name} in "
            f"{change.queue}, and {recorded} were recorded"
        )
    gone = {
        id
        for worker, held in change.old.snapshot.running.items()
        for process, id in held.items()
        if process not in change.new.snapshot.running.get(worker, {})
    }
    if gone != change.ended.keys():
        raise Violated(
            f"{change.step.name} ended attempts of {sorted(gone)} in {change.queue}, and should "
            f"have ended those of {sorted(change.ended)}"
        )


def _ends_without_attempt(change: Change, id: str) -> bool:
    old, new = change.changed[id]
    if old is None or old.stored.state in FINAL_STATES:
        return False
    if new is None:
        return change.step.name == "remove_jobs"
    is_given_back = id not in change.ended or change.ended[id].outcome == "stopped"
    return new.reason == "expired" or (new.stored.state == "cancelled" and is_given_back)


def _check_end(change: Change, id: str, ended: Ended) -> None:
    old, new = change.old.jobs[id], change.new.jobs.get(id)
    fails, crashes = ended.outcome in ("failed", "final"), ended.outcome in ("crashed", "lost")
    lapses = ended.outcome == "lapsed"
    failures, crashed, lapsed = _counts(old)
    after = (failures + fails, crashed + crashes, lapsed + lapses)
    state = _follows(old, ended, *after)
    what = f"job {id} of {change.queue} ended as {ended.outcome!r} and"
    if new is None:
        if not _may_vanish(change, id, old):
            raise Violated(f"{what} is gone")
        return
    if _counts(new) != after:
        raise Violated(f"{what} has {_counts(new)} failures, crashes and lapses, not {after}")
    allowed = {state}
    if state == "ready" and id in change.started.values():
        allowed.add("running")
    if state == "ready" and new.reason == "expired" and new.expires_ms:
        allowed.add("dead")
    if new.stored.state not in allowed:
        raise Violated(f"{what} is {new.stored.state}, not {state}")
    if state == "scheduled" and new.stored.since_ms != change.step.now_ms + ended.delay_ms:
        raise Violated(f"{what} is due at {new.stored.since_ms}")
    if ended.outcome == "stopped" and state == "ready" and new.stored.turn != old.stored.turn:
        raise Violated(f"{what} lost its turn")


def _counts(job: Job) -> tuple[int, int, int]:
    return job.stored.failures, job.stored.crashes, job.stored.lapses


def _follows(old: Job, ended: Ended, failures: int, crashes: int, lapses: int) -> str:
    """The state that an outcome leads to."""
    if ended.outcome == "done":
        return "done"
    if ended.outcome == "cancelled" or old.is_cancel_asked:
        return "cancelled"
    if ended.outcome == "final":
        return "dead"
    if ended.outcome == "failed":
        is_over = failures >= old.stored.head.attempts
        return "dead" if is_over else "scheduled" if ended.delay_ms > 0 else "ready"
    if ended.outcome in ("crashed", "lost"):
        return "dead" if old.is_at_most_once or crashes >= MAX_CRASHES else "ready"
    if ended.outcome == "lapsed":
        return "dead" if old.is_at_most_once or lapses >= MAX_LAPSES else "ready"
    return "ready"


def _check_hand_out(change: Change) -> None:
    """Jobs go to the worker that asked, if it may have them."""
    step, old = change.step, change.old
    if not change.started:
        return
    if step.name == "send_jobs":
        _check_hand_over(change)
        return
    if step.name not in _MAY_HAND_OUT or not change.is_addressed:
        raise Violated(f"{step.name} started {change.started}")
    told = {job.process: job for job in step.claim.found}
    if told.keys() != change.started.keys():
        raise Violated(f"the worker was told of {sorted(told)} and holds {change.started}")
    if old.is_paused or change.worker not in old.snapshot.totals.members:
        raise Violated(f"{change.started} started though {change.worker!r} may start nothing")
    for process, id in change.started.items():
        job = change.new.jobs[id]
        head, handed = job.stored.head, told[process]
        if (handed.id, handed.data, handed.type) != (id, job.data, head.type):
            raise Violated(f"process {process} is job {id} and was said to be {handed}")
        if head.type in old.paused_types:
            raise Violated(f"job {id} started although its type {head.type!r} is paused")
        if not old.handles(change.worker, head.type):
            raise Violated(f"job {id} went to a worker that does not handle {head.type!r}")
        if job.is_expired(step.now_ms):
            raise Violated(f"job {id} started after it had expired")
    held = change.new.snapshot.running[change.worker].values()
    suspects = [id for id in held if is_suspect(change.new.jobs[id])]
    if len(suspects) > 1 or (set(suspects) & set(change.started.values()) and len(told) > 1):
        raise Violated(f"{change.worker!r} holds {suspects}, each of which may kill it")


def is_suspect(job: Job) -> bool:
    return job.stored.crashes + job.stored.lapses >= _SUSPECT_FROM


def _check_hand_over(change: Change) -> None:
    """A job that is sent goes to a worker that waits and takes it unasked, if nothing comes before
    it; the worker then takes one less.
    """
    old, new = change.old, change.new
    [(process, id)] = change.started.items()
    [worker] = [name for name, held in new.snapshot.running.items() if process in held]
    job = new.jobs[id]
    what = f"job {id} was handed to {worker!r}"
    if id in old.jobs or len(change.changed) > 1 or not change.is_addressed:
        raise Violated(f"{what}, and {sorted(change.changed)} changed")
    if worker not in old.offers:
        raise Violated(f"{what}, which takes nothing unasked")
    if worker in new.snapshot.totals.idle:
        raise Violated(f"{what}, which takes another unasked")
    if not old.handles(worker, job.stored.head.type) or old.is_paused or "" in old.limits:
        raise Violated(f"{what}, which may not start it")
    if job.stored.head.type in old.paused_types or job.is_at_most_once:
        raise Violated(f"{what}, and it is one to be asked for")
    parked = {entry.id for entries in old.snapshot.parked.values() for entry in entries}
    for other in old.jobs.values():
        is_due = other.stored.since_ms <= change.step.now_ms
        if other.stored.id in parked:
            continue
        if other.stored.state == "ready" or (other.stored.state == "scheduled" and is_due):
            raise Violated(f"{what} before {other.stored}")


def _check_order(change: Change) -> None:
    """Nothing was handed out while something better waited: of higher priority, or of the same
    priority and tenant and before it. With ageing, time decides as well.
    """
    if not change.started or change.new.ageing_ms:
        return
    left = list(_left_behind(change))
    if not left:
        return
    has_aside = bool(change.old.snapshot.unhandled_types or change.old.snapshot.parked)
    has_aside |= bool(change.new.snapshot.unhandled_types or change.new.snapshot.parked)
    for id in change.started.values():
        taken = change.new.jobs[id].stored
        for waiting in left:
            if waiting.stored.head.priority < taken.head.priority:
                raise Violated(f"job {id} started before {waiting.stored.id}, which is more urgent")
            is_same_line = waiting.stored.head.line == taken.head.line
            if is_same_line and waiting.stored.turn < taken.turn and not has_aside:
                raise Violated(f"job {id} started before {waiting.stored.id}, which came earlier")


def _left_behind(change: Change) -> Iterator[Job]:
    """What the worker could have had as well, and was not given."""
    new = change.new
    for job in new.jobs.values():
        head = job.stored.head
        if (
            job.stored.state == "ready"
            and head.type not in new.paused_types
            and new.handles(change.worker, head.type)
            and new.limit_of(head.key) is None
            and not is_suspect(job)
        ):
            yield job


def _check_unique(change: Change) -> None:
    """A key is given to a new job only if nobody had it."""
    if change.step.name not in MAY_ADD:
        return
    for id, (old, new) in change.changed.items():
        if old is not None or new is None or not new.stored.head.unique:
            continue
        key = new.stored.head.unique
        if change.old.snapshot.windows.get(key, 0) > change.step.now_ms:
            raise Violated(f"job {id} was given the key {key!r}, which is taken for a time")
        for other in change.old.jobs.values():
            if other.stored.head.unique == key and _holds_key(other):
                raise Violated(f"job {id} was given the key {key!r}, which {other.stored.id} has")


def _holds_key(job: Job) -> bool:
    """Whether a job must have its key still, whatever the store says."""
    state, mode = job.stored.state, job.stored.head.unique_mode
    if mode == "queued":
        return state in WAITING_STATES and job.started_ms == 0
    if mode == "done":
        return state not in FINAL_STATES
    # One that was ready before, and was put off then, has its key no more.
    is_first = job.started_ms == 0 and job.stored.turn == job.stored.number
    return mode == "scheduled" and state == "scheduled" and is_first


def _text(number: Any) -> str:
    return id_text(int(number))
