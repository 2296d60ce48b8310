"""A request about jobs that was refused does nothing if a copy of it comes late, when it could.

A no is remembered as well as a yes: whoever asked has been told, and acts on it.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pytest

import penstock
from penstock.store.command import Command, Operation, QueueAbsent
from penstock.store.commands import job_records, job_rules, jobs, queues, tasks
from penstock.store.commands.job_rules import StoredSchedule
from penstock.store.commands.jobs import IdTaken
from tests.job_samples import JOB_IDS, group
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.store.keys import QueueKeys
    from tests.servers import RedisServer

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
        return self._do(lambda keys, own: jobs.send_jobs(keys, own, sent, are_given=True))

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

    def schedule(self) -> Self:
        return self._do(lambda keys, own: job_rules.put_schedule(keys, own, *NIGHTLY))

    def enqueue(self) -> Self:
        return self._do(lambda keys, own: tasks.enqueue_tasks(keys, own, [b"task"], "i1"))

    def delete(self) -> Self:
        return self._do(queues.delete_queue)

    def _do(self, build: Callable[[QueueKeys, Operation], Command[Any]]) -> Self:
        self._store.run(build(self._keys, Operation("other", next(self._numbers))))
        return self


class Case(NamedTuple):
    before: Callable[[Others], object]
    request: Callable[[QueueKeys], Command[Any]]
    after: Callable[[Others], object]
    """what makes it possible"""


CASES = {
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
        lambda keys: jobs.send_jobs(keys, ASKED, [group("once", priority=5)], are_given=True),
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


@pytest.fixture
def ps(server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(server.url, namespace=namespace) as client:
        yield client


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_was_refused_is_not_done_by_a_late_copy(
    case: Case, ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    others, stored = Others(ps, keys), Stored(server, keys.namespace)
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
    except (penstock.PenstockError, QueueAbsent, IdTaken) as refusal:
        return type(refusal), str(refusal)
    return getattr(answer, "word", answer)


def test_a_late_copy_of_a_join_does_not_bring_a_failed_worker_back(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    others = Others(ps, keys).create()
    join = jobs.join_jobs(keys, ASKED, "w1", None)
    ps.store.run(join)
    others.leave()

    ps.store.run(join)

    assert Stored(server, keys.namespace)[keys.members] == {b"w0"}


def test_a_claim_whose_jobs_went_back_is_not_repeated(
    ps: penstock.Penstock, server: RedisServer, keys: QueueKeys
) -> None:
    others, stored = Others(ps, keys), Stored(server, keys.namespace)
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
