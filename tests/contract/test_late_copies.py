"""A request does nothing if a copy of it comes late, when the world has changed.

A no is remembered as well as a yes: the client that asked has been told, and acts on it.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pytest

import penstock
from penstock.connection.wire import pack_ahead
from penstock.model.logs import LogFacts
from penstock.store.command import Command, Operation, QueueAbsent
from penstock.store.commands import (
    job_records,
    job_rules,
    jobs,
    log_groups,
    logs,
    processes,
    queues,
    tasks,
    workers,
)
from penstock.store.commands.job_rules import StoredSchedule
from penstock.store.commands.jobs import IdTaken
from penstock.store.commands.logs import NoPartition
from penstock.store.kinds import KINDS
from tests.conftest import EVERY_VERSION
from tests.job_samples import JOB_IDS, group
from tests.kinds import each_queue_kind
from tests.log_samples import MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.queues import KindName
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.stored import Stored

pytestmark = pytest.mark.stores(*EVERY_VERSION)

MINUTE_MS = 60_000
ASKED = Operation("lane", 1)
ONCE = JOB_IDS["once"]
NIGHTLY = StoredSchedule("nightly", b"each night", 1)


class Others:
    """What others do to the queue, before and after the request."""

    def __init__(self, ps: penstock.Penstock, keys: QueueKeys) -> None:
        self._store = ps.store
        self._keys = keys
        self._numbers = count(1)

    def create(self) -> Self:
        """An empty queue of jobs."""
        return self._do(lambda keys, own: jobs.join_jobs(keys, own, "w0", None, "i1"))

    def send(self, name: str = "once") -> Self:
        sent = [group(name)]
        return self._do(lambda keys, own: jobs.send_jobs(keys, own, sent, origin="given"))

    def remove(self) -> Self:
        return self._do(lambda keys, own: job_records.remove_jobs(keys, own, [ONCE]))

    def cancel(self) -> Self:
        return self._do(lambda keys, own: job_records.cancel_jobs(keys, own, [ONCE]))

    def allow(self, max_length: int | None) -> Self:
        settings = {"max_length": max_length}
        return self._do(lambda keys, own: queues.configure_queue(keys, own, settings))

    def join(self) -> Self:
        return self._do(lambda keys, own: jobs.join_jobs(keys, own, "w1", None))

    def leave(self) -> Self:
        return self._do(lambda keys, own: jobs.leave_jobs(keys, own, "w1", is_lost=False))

    def make_log(self) -> Self:
        return self._do(lambda keys, own: logs.put_log(keys, own, 1, {}, "i1"))

    def open_partition(self) -> Self:
        facts = LogFacts("mail", "5", 1, 1, {}, {})
        return self._do(lambda keys, own: logs.open_partition(keys.partition(0), facts))

    def append(self) -> Self:
        return self._do(
            lambda keys, own: logs.append_messages(
                keys.partition(0), own, "5", 1, pack_ahead([b"x"])
            )
        )

    def take(self, epoch: int) -> Self:
        return self._do(
            lambda keys, own: log_groups.take_partition(
                keys.partition(0), own, "5", "g", "w0", epoch
            )
        )

    def forget_group(self) -> Self:
        return self._do(lambda keys, own: log_groups.forget_group(keys.partition(0), own, "g"))

    def schedule(self) -> Self:
        return self._do(lambda keys, own: job_rules.put_schedule(keys, own, *NIGHTLY))

    def enqueue(self) -> Self:
        return self._do(lambda keys, own: tasks.enqueue_tasks(keys, own, [b"task"], "i1"))

    def create_for_tasks(self) -> Self:
        """An empty queue, which takes tasks."""
        return self._do(lambda keys, own: queues.join_queue(keys, own, "w0", "i1"))

    def join_tasks(self) -> Self:
        return self._do(lambda keys, own: queues.join_queue(keys, own, "w1"))

    def bury(self) -> Self:
        """A task that failed too often."""
        self.allow_failures(1).enqueue().join_tasks()
        claim = self._run(lambda keys, own: processes.start_tasks(keys, own, "w1", 1))
        held = [claim.first_process]
        return self._do(lambda keys, own: processes.fail_tasks(keys, own, "w1", held))

    def allow_failures(self, most: int | None) -> Self:
        settings = {"max_failures": most}
        return self._do(lambda keys, own: queues.configure_queue(keys, own, settings, "i1"))

    def delete(self) -> Self:
        return self._do(queues.delete_queue)

    def delete_jobs(self) -> Self:
        return self._do(lambda keys, own: job_records.delete_jobs(keys, own, 10, True))

    def _do(self, build: Callable[[QueueKeys, Operation], Command[Any]]) -> Self:
        self._run(build)
        return self

    def _run(self, build: Callable[[QueueKeys, Operation], Command[Any]]) -> Any:
        return self._store.run(build(self._keys, Operation("other", next(self._numbers))))


class Case(NamedTuple):
    before: Callable[[Others], object]
    request: Callable[[QueueKeys], Command[Any]]
    after: Callable[[Others], object]
    """what makes it possible"""


TASK_CASES = {
    "enqueue in no queue": Case(
        lambda others: others,
        lambda keys: tasks.enqueue_tasks(keys, ASKED, [b"late"]),
        Others.create_for_tasks,
    ),
    "enqueue in a full queue": Case(
        lambda others: others.enqueue().allow(1),
        lambda keys: tasks.enqueue_tasks(keys, ASKED, [b"late"]),
        lambda others: others.allow(None),
    ),
    "enqueue among jobs": Case(
        Others.create,
        lambda keys: tasks.enqueue_tasks(keys, ASKED, [b"late"]),
        lambda others: others.delete_jobs().create_for_tasks(),
    ),
    "enqueue a unique task in no queue": Case(
        lambda others: others,
        lambda keys: tasks.enqueue_unique_task(keys, ASKED, b"late", b"=key", b"8 bytes."),
        Others.create_for_tasks,
    ),
    "enqueue a unique task in a full queue": Case(
        lambda others: others.enqueue().allow(1),
        lambda keys: tasks.enqueue_unique_task(keys, ASKED, b"late", b"=key", b"8 bytes."),
        lambda others: others.allow(None),
    ),
    "cancel no task": Case(
        Others.create_for_tasks,
        lambda keys: tasks.cancel_tasks(keys, ASKED, b"task"),
        Others.enqueue,
    ),
    "retry no dead task": Case(
        Others.create_for_tasks,
        lambda keys: tasks.retry_dead_tasks(keys, ASKED, 10),
        Others.bury,
    ),
    "join no queue": Case(
        lambda others: others,
        lambda keys: queues.join_queue(keys, ASKED, "w1"),
        Others.create_for_tasks,
    ),
    "start before joining": Case(
        Others.enqueue,
        lambda keys: processes.start_tasks(keys, ASKED, "w1", 1),
        Others.join_tasks,
    ),
    "start from an empty queue": Case(
        lambda others: others.create_for_tasks().join_tasks(),
        lambda keys: processes.start_tasks(keys, ASKED, "w1", 1),
        Others.enqueue,
    ),
    "finish and start from an empty queue": Case(
        lambda others: others.create_for_tasks().join_tasks(),
        lambda keys: processes.finish_tasks(keys, ASKED, "w1", [], limit=1),
        Others.enqueue,
    ),
    "leave a queue of jobs": Case(
        lambda others: others.create().join().send(),
        lambda keys: queues.leave_queue(keys, ASKED, "w1", is_lost=True),
        lambda others: others.delete_jobs().enqueue().join_tasks(),
    ),
    "delete no queue": Case(
        lambda others: others,
        lambda keys: queues.delete_queue(keys, ASKED),
        Others.create_for_tasks,
    ),
    "delete a queue of jobs": Case(
        Others.create,
        lambda keys: queues.delete_queue(keys, ASKED),
        lambda others: others.delete_jobs().create_for_tasks(),
    ),
    "pause no queue": Case(
        lambda others: others,
        lambda keys: queues.pause_queue(keys, ASKED),
        Others.create_for_tasks,
    ),
    "configure no queue": Case(
        lambda others: others,
        lambda keys: queues.configure_queue(keys, ASKED, {"max_length": 5}),
        Others.create_for_tasks,
    ),
}
JOB_CASES = {
    "send to no queue": Case(
        lambda others: others,
        lambda keys: jobs.send_jobs(keys, ASKED, [group("once")]),
        Others.create,
    ),
    "send to a full queue": Case(
        lambda others: others.create().send("urgent").allow(1),
        lambda keys: jobs.send_jobs(keys, ASKED, [group("once")]),
        lambda others: others.allow(None),
    ),
    "send to plain tasks": Case(
        Others.enqueue,
        lambda keys: jobs.send_jobs(keys, ASKED, [group("once")]),
        Others.delete,
    ),
    "send under an id that is taken": Case(
        lambda others: others.create().send(),
        lambda keys: jobs.send_jobs(keys, ASKED, [group("once")]),
        Others.remove,
    ),
    "send something else under a given id": Case(
        lambda others: others.create().send(),
        lambda keys: jobs.send_jobs(keys, ASKED, [group("once", priority=5)], origin="given"),
        Others.remove,
    ),
    "join no queue": Case(
        lambda others: others,
        lambda keys: jobs.join_jobs(keys, ASKED, "w1", None),
        Others.create,
    ),
    "join plain tasks": Case(
        Others.enqueue,
        lambda keys: jobs.join_jobs(keys, ASKED, "w1", None),
        Others.delete,
    ),
    "start before joining": Case(
        lambda others: others.create().send(),
        lambda keys: jobs.start_jobs(keys, ASKED, "w1", 1),
        Others.join,
    ),
    "start from an empty queue": Case(
        lambda others: others.create().join(),
        lambda keys: jobs.start_jobs(keys, ASKED, "w1", 1),
        Others.send,
    ),
    "report and start from an empty queue": Case(
        lambda others: others.create().join(),
        lambda keys: jobs.report_jobs(keys, ASKED, "w1", [], 1),
        Others.send,
    ),
    "cancel no job": Case(
        Others.create, lambda keys: job_records.cancel_jobs(keys, ASKED, [ONCE]), Others.send
    ),
    "remove no job": Case(
        Others.create, lambda keys: job_records.remove_jobs(keys, ASKED, [ONCE]), Others.send
    ),
    "retry a job that waits": Case(
        lambda others: others.create().send(),
        lambda keys: job_records.retry_jobs(keys, ASKED, [ONCE]),
        Others.cancel,
    ),
    "change no job": Case(
        Others.create,
        lambda keys: job_records.change_job(keys, ASKED, ONCE, "delay", 5000),
        Others.send,
    ),
    "change a job that is cancelled": Case(
        lambda others: others.create().send().cancel(),
        lambda keys: job_records.change_job(keys, ASKED, ONCE, "delay", 5000),
        lambda others: others.remove().send(),
    ),
    "leave a queue of tasks": Case(
        lambda others: others.enqueue().join_tasks(),
        lambda keys: jobs.leave_jobs(keys, ASKED, "w1", is_lost=True),
        lambda others: others.delete().create().join().send(),
    ),
    "delete no queue": Case(
        lambda others: others,
        lambda keys: job_records.delete_jobs(keys, ASKED, 10, is_last=True),
        Others.create,
    ),
    "put a schedule on no queue": Case(
        lambda others: others,
        lambda keys: job_rules.put_schedule(keys, ASKED, *NIGHTLY),
        Others.create,
    ),
    "put a schedule on plain tasks": Case(
        Others.enqueue,
        lambda keys: job_rules.put_schedule(keys, ASKED, *NIGHTLY),
        Others.delete,
    ),
    "remove no schedule": Case(
        Others.create,
        lambda keys: job_rules.remove_schedule(keys, ASKED, "nightly"),
        Others.schedule,
    ),
    "fire no schedule": Case(
        Others.create,
        lambda keys: job_rules.fire_schedule(keys, ASKED, NIGHTLY, 5, [group("fired")]),
        Others.schedule,
    ),
    "fire a schedule of a full queue": Case(
        lambda others: others.create().schedule().send("urgent").allow(1),
        lambda keys: job_rules.fire_schedule(keys, ASKED, NIGHTLY, 5, [group("fired")]),
        lambda others: others.allow(None),
    ),
    "pause a type of no queue": Case(
        lambda others: others,
        lambda keys: job_rules.pause_type(keys, ASKED, "email", True),
        Others.create,
    ),
    "limit no queue": Case(
        lambda others: others,
        lambda keys: job_rules.set_limit(keys, ASKED, "", 1, 0.0, 0, 0.0),
        Others.create,
    ),
    "share no queue": Case(
        lambda others: others,
        lambda keys: job_rules.set_share(keys, ASKED, "acme", 5),
        Others.create,
    ),
}


LOG_CASES = {
    "put no log": Case(
        lambda others: others,
        lambda keys: logs.put_log(keys, ASKED, 1, {}),
        Others.make_log,
    ),
    "put a log where plain tasks are": Case(
        Others.enqueue, lambda keys: logs.put_log(keys, ASKED, 1, {}), Others.delete
    ),
    "delete no log": Case(
        lambda others: others, lambda keys: logs.delete_log(keys, ASKED), Others.make_log
    ),
    "append to no partition": Case(
        lambda others: others,
        lambda keys: logs.append_messages(
            keys.partition(0), ASKED, "5", 1, pack_ahead([b"message"])
        ),
        Others.open_partition,
    ),
    "take no partition": Case(
        lambda others: others,
        lambda keys: log_groups.take_partition(keys.partition(0), ASKED, "5", "g", "w1"),
        Others.open_partition,
    ),
    "take a partition with an old epoch": Case(
        lambda others: others.open_partition().take(7),
        lambda keys: log_groups.take_partition(keys.partition(0), ASKED, "5", "g", "w1", 7),
        Others.forget_group,
    ),
    "seek in no partition": Case(
        lambda others: others,
        lambda keys: log_groups.seek_group(keys.partition(0), ASKED, "5", "g", "1-0"),
        Others.open_partition,
    ),
    "note an error with an old epoch": Case(
        Others.open_partition,
        lambda keys: log_groups.note_error(keys.partition(0), ASKED, "g", 7, MESSAGE, "no", 1),
        lambda others: others.take(7),
    ),
    "replay into no partition": Case(
        lambda others: others,
        lambda keys: log_groups.replay_errors(keys.partition(0), ASKED, "5", "g", ["1-0"]),
        Others.open_partition,
    ),
    "trim no partition": Case(
        lambda others: others,
        lambda keys: logs.trim_partition(keys.partition(0), ASKED, "99999999999999-0"),
        lambda others: others.open_partition().append(),
    ),
}
CASES = {"tasks": TASK_CASES, "jobs": JOB_CASES, "logs": LOG_CASES}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{kind}-{name}")
        for kind in KINDS
        for name, case in CASES[kind].items()
    ],
)
def test_what_was_refused_is_not_done_by_a_late_copy(
    case: Case, ps: penstock.Penstock, stored: Stored, keys: QueueKeys
) -> None:
    others = Others(ps, keys)
    case.before(others)
    answer = answer_to(ps, case.request(keys))
    case.after(others)
    before = stored.everything()

    late = answer_to(ps, case.request(keys))

    assert late == answer
    assert stored.everything() == before


def answer_to(ps: penstock.Penstock, request: Command[Any]) -> object:
    """What the client is told, also if it is an error; a claim that is repeated does not know when
    to look again.
    """
    try:
        answer = ps.store.run(request)
    except (penstock.PenstockError, QueueAbsent, IdTaken, NoPartition) as refusal:
        return type(refusal), str(refusal)
    return getattr(answer, "word", answer)


@each_queue_kind
def test_a_late_copy_of_a_join_does_not_bring_a_failed_worker_back(
    kind: KindName, ps: penstock.Penstock, stored: Stored, keys: QueueKeys
) -> None:
    put = {"tasks": lambda: ps.queue("mail").enqueue(b"task"), "jobs": Others(ps, keys).create}
    put[kind]()
    ps.store.run(workers.start_worker(ps.keys, Operation("lane", 1), "w1", MINUTE_MS, "{}"))
    ps.store.run(workers.start_work(ps.keys, "w1", "mail", kind))
    join = KINDS[kind].join(keys, Operation("lane", 2), "w1", None, "")
    ps.store.run(join)
    ps.fail_worker("w1")

    ps.store.run(join)

    assert b"w1" not in stored.everything().get(keys.members, ())


def test_a_claim_whose_jobs_went_back_is_not_repeated(
    ps: penstock.Penstock, stored: Stored, keys: QueueKeys
) -> None:
    others = Others(ps, keys)
    others.create().join().send()
    claim = jobs.start_jobs(keys, ASKED, "w1", 1)
    assert ps.store.run(claim).word == "ok"
    others.leave()
    before = stored.everything()

    assert ps.store.run(claim).word == "not_working"

    assert stored.everything() == before


def test_a_schedule_that_two_workers_fire_is_fired_once(
    ps: penstock.Penstock, keys: QueueKeys
) -> None:
    Others(ps, keys).create().schedule()

    def fire(lane: str, name: str) -> bool:
        operation = Operation(lane, 1)
        return ps.store.run(
            job_rules.fire_schedule(keys, operation, NIGHTLY, 10**13, [group(name)])
        )

    assert [fire("first", "fired"), fire("second", "new")] == [True, False]
    assert ps.jobs("mail").counts()["ready"] == 1


@each_queue_kind
def test_a_late_copy_of_stop_work_does_not_hide_a_worker_that_serves_the_queue_again(
    kind: KindName, ps: penstock.Penstock, names: NamespaceKeys
) -> None:
    ps.store.run(workers.start_worker(names, Operation("lane", 1), "w1", MINUTE_MS, "{}"))
    ps.store.run(workers.start_work(names, "w1", "mail", kind))
    stop = workers.stop_work(names, Operation("lane", 2), "w1", "mail", kind)
    ps.store.run(stop)
    ps.store.run(workers.start_work(names, "w1", "mail", kind))

    ps.store.run(stop)

    assert ps.work_of("w1") == ["mail"]


def test_a_unique_task_given_back_after_a_delete_can_be_cancelled(
    ps: penstock.Penstock, worker: penstock.WorkerSession
) -> None:
    queue = ps.queue("mail")
    queue.enqueue_unique(b"old", key="k")
    process = worker.start_task("mail")
    assert process is not None
    queue.delete()
    queue.enqueue_unique(b"new", key="k")
    process.stop()

    assert queue.cancel(b"old") == 1

    assert queue.page().tasks == [b"new"]
