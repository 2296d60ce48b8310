"""One command of every script on jobs, and a queue in which each of them has something to do."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from penstock.codec.chunks import pack_chunk
from penstock.codec.forms import DAMAGED
from penstock.codec.heads import pack_head, with_cause
from penstock.model.job_options import JobOptions, JobSettings, make_options
from penstock.model.jobs import HandedOut, Report
from penstock.model.staging import Keep, Stage
from penstock.store.command import Command, Operation
from penstock.store.commands import (
    history,
    job_checks,
    job_records,
    job_rules,
    job_staging,
    jobs,
    queues,
    staging,
    workers,
)
from penstock.store.commands.job_rules import StoredSchedule
from penstock.store.commands.jobs import Group
from penstock.store.script import scripts

if TYPE_CHECKING:
    from typing import Unpack

    from penstock.connection.store import Store
    from penstock.store.keys import NamespaceKeys, QueueKeys

QUEUE = "mail"
SCRIPTS = {script.name: script for script in scripts("jobs")}
"""Every script on jobs, by name."""
LANE = "sample"
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
FIRST_ID = 10**18
ERROR = b'["ValueError", "no", "Traceback"]'
DUE_SCHEDULE = StoredSchedule("hourly", b"each hour", 1)

# fmt: off
JOB_IDS = {
    name: FIRST_ID + index
    for index, name in enumerate((
        "done", "dead", "cancelled", "retrying", "suspect", "report", "fax", "held", "parked",
        "token", "throttled", "asked", "failing", "acme", "acme next", "zeta", "urgent", "once",
        "windowed", "later", "due", "new", "new too", "new and later", "fired",
    ))
}
"""What the samples call their jobs -> id."""
# fmt: on

HELD = ("held", "token", "asked", "failing", "acme")
"""What `w1` holds at the end."""


def sample_job_world(store: Store, keys: NamespaceKeys) -> dict[str, int]:
    """A queue with every kind of key in use; returns the process of each job that `w1` holds.

    `w1` handles all types and holds HELD, of which "held" has a log and progress and "asked" is to
    be cancelled. `w2` handles "sms" alone and waits. `w3` holds "suspect", which has crashed twice.
    "parked" and "throttled" wait for a limit, "report" and "fax" for a worker that takes them,
    "retrying" and "later" for their time; "due" has waited long enough, as has a schedule.
    """
    world = _World(store, keys)
    world.begin()
    world.finish_some()
    world.crash_one()
    world.hold_some()
    world.let_others_wait()
    return world.processes


def sample_job_commands(
    keys: NamespaceKeys, processes: dict[str, int], number: int = 100
) -> dict[str, Command[Any]]:
    """Script -> a command of it, with two of whatever it takes any number of."""
    queue = keys.queue(QUEUE)
    operation = Operation(LANE, number)
    commands: list[Command[Any]] = [
        jobs.send_jobs(queue, operation, new_groups()),
        jobs.join_jobs(queue, operation, "w4", ["sms", "fax"]),
        jobs.start_jobs(queue, operation, "w1", 10, wait=True),
        jobs.report_jobs(queue, operation, "w1", reports(processes), 2, wait=True),
        jobs.leave_jobs(queue, operation, "w1", is_lost=True, known=_ids("once", "held")),
        jobs.note_job(queue, operation, "w1", processes["held"], b"[9, null]", [b"c", b"d"]),
        jobs.find_cancelled(queue, "w1"),
        jobs.find_handed(queue, "w1", [processes["held"], processes["token"]]),
        jobs.pass_jobs(queue, "w2", is_busy=True),
        job_records.cancel_jobs(queue, operation, _ids("once", "held")),
        job_records.retry_jobs(queue, operation, _ids("dead", "cancelled")),
        job_records.remove_jobs(queue, operation, _ids("dead", "later")),
        job_records.change_job(queue, operation, JOB_IDS["later"], "delay", 0),
        job_records.read_jobs(queue, _ids("held", "once")),
        job_records.read_log(queue, JOB_IDS["held"], 0, 10),
        job_records.page_jobs(queue, "rA:", (0, 1), 10, newest_first=False),
        job_records.count_jobs(queue, ["rA:", "rT:email"]),
        job_records.tally_jobs(queue, "0", "T"),
        job_records.list_running(queue, "w1"),
        job_records.explain_job(queue, JOB_IDS["once"], 100),
        history.read_history(queue, "-", 10),
        history.describe_history(queue, "0-0"),
        history.step_history(queue, "0-0", "+", 10),
        history.mark_history(queue, operation, "archive", "1-0"),
        job_records.purge_jobs(queue, operation, 10, "buried", 10**13),
        job_records.delete_jobs(queue, operation, 100, is_last=False),
        job_rules.pause_type(queue, operation, "fax", is_paused=False),
        job_rules.set_limit(queue, operation, "host", 3, 0.0, 0, 0.0),
        job_rules.set_share(queue, operation, "acme", 3),
        job_rules.read_rules(queue),
        job_rules.put_schedule(queue, operation, "weekly", b"each week", 10**13),
        job_rules.remove_schedule(queue, operation, "hourly"),
        job_rules.list_schedules(queue, ["hourly", "nightly"]),
        job_rules.fire_schedule(
            queue, operation, DUE_SCHEDULE, 10**13, [group("fired", tenant="new")]
        ),
        job_staging.move_jobs(queue, operation, [FIRST_ID + 200, FIRST_ID + 201]),
        job_checks.read_totals(queue, ["w1", "w4"]),
        job_checks.scan_jobs(queue, "0", "jobs", 100),
        job_checks.mend_job(queue, JOB_IDS["once"], 100),
        job_checks.mend_page(queue, "rA:", 0, _ids("once", "done")),
        job_checks.mend_count(queue, "meta", "rA:", b"9", 10),
        job_checks.mend_line(queue, "line", "0:acme"),
        job_checks.mend_trace(queue, "types", b"w4"),
    ]
    return {command.script.name: command for command in commands}


def more_job_commands(
    keys: NamespaceKeys, processes: dict[str, int], number: int = 100
) -> dict[str, Command[Any]]:
    """What the same scripts also do -> a command that makes them do it."""
    queue = keys.queue(QUEUE)
    operation = Operation(LANE, number)
    held = [Report(process, "stopped") for process in processes.values()]
    return {
        "report only": jobs.report_jobs(queue, operation, "w1", reports(processes)),
        "stop": jobs.report_jobs(queue, operation, "w1", held, 5),
        "leave in peace": jobs.leave_jobs(queue, operation, "w1", is_lost=False),
        "leave dead": jobs.leave_jobs(queue, operation, "w1", True, ERROR, has_died=True),
        "start as a worker that takes one type": jobs.start_jobs(queue, operation, "w2", 5),
        "send a job again": jobs.send_jobs(
            queue, operation, [group("urgent", priority="high")], origin="given"
        ),
        "send jobs with causes": jobs.send_jobs(
            queue, operation, caused_groups(), origin="derived"
        ),
        "cancel what has its time": job_records.cancel_jobs(queue, operation, _ids("later", "due")),
        "change the priority": job_records.change_job(
            queue, operation, JOB_IDS["once"], "priority", -100
        ),
        "put off": job_records.change_job(queue, operation, JOB_IDS["once"], "delay", HOUR_MS),
        "read stored jobs": job_records.read_stored_jobs(queue, [JOB_IDS["dead"]]),
        "read attempts": job_records.read_attempts(queue, JOB_IDS["dead"]),
        "page words": job_records.page_jobs(queue, "*W:hello", None, 10, newest_first=True),
        "end a mark": history.mark_history(queue, operation, "lake", ""),
        "purge what is old": job_records.purge_jobs(queue, operation, 10),
        "purge what is finished": job_records.purge_jobs(queue, operation, 10, "finished", 10**13),
        "pause a type": job_rules.pause_type(queue, operation, "email", is_paused=True),
        "lift a limit": job_rules.set_limit(queue, operation, "api", 0, 0.0, 0, 0.0),
        "end a share": job_rules.set_share(queue, operation, "acme", 1),
        "list all schedules": job_rules.list_schedules(queue),
        "fire for the last time": job_rules.fire_schedule(queue, operation, DUE_SCHEDULE, None, []),
    }


def new_groups() -> list[Group]:
    """Jobs that the world does not have: of a new line, later, and in the place of "later"."""
    new, too = group("new", priority=7, tenant="new"), group("new too", priority=7, tenant="new")
    return [
        new._replace(jobs=[*new.jobs, *too.jobs]),
        group("new and later", words=("hello",), delay=60, unique="other", unique_for=60),
        Group(LATER.head, LATER.delay_ms, 0, 0, [(FIRST_ID + 99, b"in its place")]),
    ]


def caused_groups() -> list[Group]:
    """Three jobs under one id: two of different causes, and the first of them again."""
    one, other = group("new"), group("new", delay=60)
    first, second = (
        sent._replace(head=with_cause(sent.head, cause))
        for sent, cause in ((one, b"one"), (other, b"other"))
    )
    return [first, second, first]


def reports(processes: dict[str, int]) -> list[Report]:
    """Every way in which a worker can be done with a job."""
    outcomes = [
        Report(processes["held"], "done", 5, 3, 0, "", b"j1"),
        Report(processes["token"], "failed", 5, 3, MINUTE_MS, "", ERROR),
        Report(processes["asked"], "cancelled", 5, 3),
        Report(processes["failing"], "failed", 5, 3, 0, "", ERROR),
        Report(processes["acme"], "crashed", 5, 3, 0, "", ERROR),
    ]
    return [*outcomes, Report(1, "done")]


def group(name: str, words: tuple[str, ...] = (), **options: Unpack[JobSettings]) -> Group:
    """One job, as it is sent."""
    made: JobOptions = make_options("email", options)
    job = (JOB_IDS[name], name.encode())
    return Group(pack_head(made, words), made.delay_ms, made.run_at_ms, made.window_ms, [job])


LATER = group("later", words=("hello", "world"), unique="later", debounce=3600, tags=["red"])


def staged_jobs() -> list[bytes]:
    """Two jobs without ids, as a chunk has them."""
    made = pack_head(make_options("email", {"tenant": "new"}))
    group = [made, b"0", b"0", b"0", b"1", b"", b"staged"]
    later = str(LATER.delay_ms).encode()
    return [*group, LATER.head, later, b"0", b"0", b"1", b"", b"instead"]


def _ids(*names: str) -> list[int]:
    return [JOB_IDS[name] for name in names]


class _World:
    """Builds the queue, one request after the other."""

    def __init__(self, store: Store, keys: NamespaceKeys) -> None:
        self.processes: dict[str, int] = {}
        self._keys = keys
        self._queue: QueueKeys = keys.queue(QUEUE)
        self._call = store.call
        self._run = store.run
        self._operations = (Operation(LANE, number) for number in count(1))

    def begin(self) -> None:
        self._run(queues.register_queue(self._keys, QUEUE, "i1"))
        for worker, types in (("w1", None), ("w2", ["sms"]), ("w3", None)):
            started = workers.start_worker(self._keys, self._next(), worker, MINUTE_MS, "{}")
            self._run(started)
            self._run(workers.start_work(self._keys, worker, QUEUE, "jobs"))
            self._run(jobs.join_jobs(self._queue, self._next(), worker, types, "i1"))
        self._run(
            job_rules.put_schedule(self._queue, self._next(), "nightly", b"each night", 10**13)
        )

    def finish_some(self) -> None:
        self._send(group("done", tags=["red"]))
        self._report("w1", Report(self._start("w1"), "done", 5, 3, 0, "", b"j1"))
        self._send(group("dead", unique="dead", unique_for="queued", tenant="acme"))
        self._report("w1", Report(self._start("w1"), "final", 5, 3, 0, "failed", ERROR))
        self._send(group("cancelled"))
        cancelled = _ids("cancelled")
        self._run(job_records.cancel_jobs(self._queue, self._next(), cancelled))
        self._send(group("retrying", attempts=5))
        self._report("w1", Report(self._start("w1"), "failed", 5, 3, HOUR_MS, "", ERROR))
        self._run(history.mark_history(self._queue, self._next(), "lake", "0-0"))

    def crash_one(self) -> None:
        self._send(group("suspect"))
        for _ in range(2):
            self._report("w3", Report(self._start("w3"), "crashed", 5, 3, 0, "", ERROR))
        self._start("w3")

    def hold_some(self) -> None:
        self._run(job_rules.set_limit(self._queue, self._next(), "host", 1, 0.0, 0, 0.0))
        self._run(job_rules.set_limit(self._queue, self._next(), "api", 0, 1.0, HOUR_MS, 1.0))
        for name, waiting, key in (("held", "parked", "host"), ("token", "throttled", "api")):
            self._send(group(name, key=key, attempts=2))
            self.processes[name] = self._start("w1")
            self._send(group(waiting, key=key))
            self._ask("w1")
        self._run(
            jobs.note_job(
                self._queue, self._next(), "w1", self.processes["held"], b"[5, null]", [b"a", b"b"]
            )
        )
        for name in ("asked", "failing"):
            self._send(group(name, attempts=2))
            self.processes[name] = self._start("w1")
        self._run(job_records.cancel_jobs(self._queue, self._next(), _ids("asked")))

    def let_others_wait(self) -> None:
        self._run(job_rules.pause_type(self._queue, self._next(), "fax", is_paused=True))
        for name in ("fax", "report"):
            made = make_options(name, {"priority": 10})
            self._send(Group(pack_head(made), 0, 0, 0, [(JOB_IDS[name], b"")]))
        self._ask("w2")
        self._run(job_rules.set_share(self._queue, self._next(), "acme", 2))
        for name, tenant in (("acme", "acme"), ("acme next", "acme"), ("zeta", "zeta")):
            self._send(group(name, tenant=tenant))
        self.processes["acme"] = self._start("w1")
        self._send(group("urgent", priority="high"))
        self._send(group("once", priority="low", unique="once"))
        self._send(group("windowed", priority="low", unique="windowed", unique_for=60))
        self._send(LATER)
        self._send(group("due", delay=3600))
        self._run(job_rules.put_schedule(self._queue, self._next(), *DUE_SCHEDULE))
        damaged = self._queue.damaged
        kept = DAMAGED.pack(found=1, place=b"line", record=b"", facts=b"")
        self._call(damaged, "HSET", damaged, FIRST_ID + 300, kept)
        due, idle = f"{self._queue.tag}:due", self._queue.idle
        self._call(due, "ZADD", due, 1, JOB_IDS["due"])
        self._call(idle, "SADD", idle, "w2")
        self._stage_some()

    def _stage_some(self) -> None:
        """Two jobs that are decided and to be moved, one of them instead of "later"."""
        for staged in ("s1", "s2"):
            chunk = pack_chunk(staged_jobs())
            self._run(staging.stage_chunk(self._queue, "b", staged, 0, chunk, 1000))
        decided = [Stage("s1", chunks=1, rows=2, largest=6)]
        keep = Keep("batch b1", HOUR_MS)
        self._run(
            staging.decide_batch(self._queue, self._next(), "b1", 0, "jobs", decided, keep=keep)
        )

    def _send(self, sent: Group) -> None:
        assert not self._run(jobs.send_jobs(self._queue, self._next(), [sent]))

    def _start(self, worker: str) -> int:
        [job] = self._ask(worker)
        return job.process

    def _ask(self, worker: str) -> list[HandedOut]:
        return list(
            self._run(jobs.start_jobs(self._queue, self._next(), worker, 1, True, offer=1)).found
        )

    def _report(self, worker: str, report: Report) -> None:
        assert (
            self._run(jobs.report_jobs(self._queue, self._next(), worker, [report])).refused == []
        )

    def _next(self) -> Operation:
        return next(self._operations)
