"""What every source promises. A new kind of work is served by a worker once it passes these: add
it to `SOURCES`.
"""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import penstock
from penstock.executors.job_context import JobContext
from penstock.model.retries import fixed
from penstock.store.command import Operation
from penstock.worker.source import WOKEN, Cancelled, Request
from penstock.worker.sources.jobs import JobSource
from penstock.worker.sources.tasks import TaskSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.executors.context import Context
    from penstock.model.claims import Claim
    from penstock.worker.source import QueueSource
    from tests.contract.conftest import Ear

# The scripts behind it are tested on every store. Channels differ on a cluster.
pytestmark = pytest.mark.stores("debian", "cluster")


@penstock.job(queue="mail", type="echo")
def echo() -> None: ...


class Kind(NamedTuple):
    """How a test makes a source, and work for it."""

    join: Callable[[penstock.WorkerSession], None]
    make: Callable[[penstock.Penstock, penstock.WorkerSession], QueueSource]
    send: Callable[[penstock.Penstock, list[int]], object]
    name: Callable[[Context], int]
    """which of the numbers that were sent it is"""
    cancel: Callable[[penstock.Penstock, Context], object]


def make_tasks(ps: penstock.Penstock, worker: penstock.WorkerSession) -> QueueSource:
    return TaskSource(
        *(ps.keys.queue("mail"), worker.id, worker.lease, lambda t, c: None, 1000, fixed(0), {})
    )


def make_jobs(ps: penstock.Penstock, worker: penstock.WorkerSession) -> QueueSource:
    return JobSource(
        *(ps.keys.queue("mail"), worker.id, worker.lease, {"echo": echo}, {}, 1000),
        JobContext.cancel,
        takes_pushed=True,
    )


SOURCES = {
    "tasks": Kind(
        lambda worker: worker.start_work("mail"),
        make_tasks,
        lambda ps, numbers: ps.queue("mail").enqueue_many([b"%d" % number for number in numbers]),
        lambda context: int(context.task),
        lambda ps, context: ps.queue("mail").cancel(context.task),
    ),
    "jobs": Kind(
        lambda worker: worker.start_job_work("mail"),
        make_jobs,
        lambda ps, numbers: ps.jobs("mail").add_many("echo", list(numbers)),
        lambda context: int(json.loads(context.task)),
        lambda ps, context: ps.job(context.job, queue="mail").cancel(),  # type: ignore[attr-defined]
    ),
}


class Worker:
    """A worker that sends the requests of one source."""

    def __init__(self, ps: penstock.Penstock, kind: Kind, name: str) -> None:
        self._ps = ps
        self._kind = kind
        self.session = ps.worker(name=name)
        self.session.start()
        kind.join(self.session)
        self.session.lease.renewed(math.inf)
        self.source = kind.make(ps, self.session)

    def ask(self, request: Request | None) -> Claim[Any]:
        assert request is not None
        command, store = request.command, self._ps.store
        answer = store.run_once(command) if callable(command) else store.run(command)
        return request.read(answer) if request.read else answer

    def claim(self, limit: int, *reported: Context, offer: int = 0) -> list[Context]:
        claim = self.ask(self.source.claim(self.prepared(*reported), limit, offer))
        assert not claim.refused
        return self.source.contexts(claim.found, claim.first_process)

    def prepared(self, *contexts: Context) -> list[Context]:
        for context in contexts:
            self.source.prepare(context)
        return list(contexts)

    def names(self, contexts: list[Context]) -> list[int]:
        return [self._kind.name(context) for context in contexts]


@pytest.fixture(params=list(SOURCES))
def kind(request: pytest.FixtureRequest) -> Kind:
    return SOURCES[request.param]


@pytest.fixture
def start(ps: penstock.Penstock, kind: Kind) -> Iterator[Callable[[str], Worker]]:
    """Start a worker of this name."""
    with ExitStack() as stack:

        def start(name: str) -> Worker:
            worker = Worker(ps, kind, name)
            stack.callback(worker.session.stop)
            return worker

        yield start


@pytest.fixture
def worker(start: Callable[[str], Worker]) -> Worker:
    return start("ant")


def test_a_claim_brings_the_oldest_in_order_and_no_more_than_its_limit(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1, 2, 3])

    claimed = worker.claim(2)

    assert worker.names(claimed) == [1, 2]
    assert claimed[0].token < claimed[1].token
    assert worker.names(worker.claim(2)) == [3]


def test_a_claim_reports_and_starts_in_one_request(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1, 2, 3])
    first = worker.claim(1)

    assert worker.names(worker.claim(2, *first)) == [2, 3]
    assert worker.source.told(first, []).finished == 1
    assert ps.queue("mail").inspect().running == 2


def test_what_became_of_work_can_be_told_in_every_case(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1, 2, 3])
    contexts = worker.claim(3)
    usual = contexts[0].outcome
    contexts[1].outcome, contexts[2].outcome = "failed", "stopped"
    apart, rest = worker.source.report_apart(worker.prepared(*contexts))
    told = [worker.source.told(request.contexts, []) for request in apart]
    told.append(worker.source.told(rest, []))

    for request in apart:
        assert not worker.ask(request).refused
    worker.ask(worker.source.claim(rest, 0, 0))

    assert contexts[0].outcome == usual
    assert sum(one.finished for one in told) == 1
    assert sum(one.failed for one in told) == 1
    assert ps.queue("mail").inspect().running == 0


def test_what_is_given_back_comes_first_again_in_its_old_order(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1, 2, 3, 4])
    claimed = worker.claim(3)

    assert not worker.ask(worker.source.give_back(claimed)).refused

    assert worker.names(worker.claim(4)) == [1, 2, 3, 4]


def test_what_was_taken_away_is_refused_and_not_counted(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1, 2])
    claimed = worker.claim(2)
    tokens = [context.token for context in claimed]
    worker.session.stop_work("mail")
    kind.join(worker.session)

    claim = worker.ask(worker.source.claim(worker.prepared(*claimed), 0, 0))

    assert sorted(claim.refused) == tokens
    told = worker.source.told(claimed, claim.refused)
    assert (told.finished, told.failed) == (0, 0)
    assert sorted(worker.ask(worker.source.give_back(claimed)).refused) == tokens


def test_a_worker_that_does_not_serve_the_queue_is_told_so(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1])
    worker.session.stop_work("mail")

    assert worker.ask(worker.source.claim([], 1, 0)).word == "not_working"


def test_a_claim_that_finds_nothing_is_followed_by_a_wake_up(
    ps: penstock.Penstock, kind: Kind, worker: Worker, listen: Callable[[str], Ear]
) -> None:
    ears = {channel: listen(channel) for channel in worker.source.channels}
    assert worker.claim(1) == []

    kind.send(ps, [1])

    heard = [(channel, m) for channel, ear in ears.items() for m in ear.hear_the_rest()]
    assert [worker.source.hear(*message) for message in heard] == [WOKEN]


def test_a_wake_up_that_is_passed_on_reaches_another_worker(
    ps: penstock.Penstock,
    kind: Kind,
    start: Callable[[str], Worker],
    listen: Callable[[str], Ear],
) -> None:
    workers = [start(name) for name in ("ant", "bee", "cat", "dog")]
    ears = [listen(worker.source.keys.wake + worker.source.worker) for worker in workers]
    for worker in workers:
        assert worker.claim(1) == []
    kind.send(ps, [1])
    is_woken = [bool(ear.hear_the_rest()) for ear in ears]
    assert is_woken.count(True) < len(workers)

    woken = workers[is_woken.index(True)]
    woken.ask(woken.source.pass_on(is_busy=True))

    heard = [bool(ear.hear_the_rest()) for ear in ears]
    assert any(now and not before for now, before in zip(heard, is_woken, strict=True))


def test_a_cancel_is_heard_and_means_what_is_held(
    ps: penstock.Penstock, kind: Kind, worker: Worker, listen: Callable[[str], Ear]
) -> None:
    ears = {channel: listen(channel) for channel in worker.source.channels}
    kind.send(ps, [1, 2])
    first, second = worker.claim(2)
    for ear in ears.values():
        ear.hear_the_rest()

    kind.cancel(ps, first)

    heard = [(channel, m) for channel, ear in ears.items() for m in ear.hear_the_rest()]
    [cancelled] = [worker.source.hear(*message) for message in heard]
    assert isinstance(cancelled, Cancelled)
    assert (cancelled.includes(first), cancelled.includes(second)) == (True, False)


def test_a_cancel_is_for_the_worker_that_holds_it(
    ps: penstock.Penstock,
    kind: Kind,
    worker: Worker,
    start: Callable[[str], Worker],
    listen: Callable[[str], Ear],
) -> None:
    peer = start("bee")
    ears = {channel: listen(channel) for channel in peer.source.channels}
    kind.send(ps, [1, 2])
    [mine], [its] = worker.claim(1), peer.claim(1)
    for ear in ears.values():
        ear.hear_the_rest()

    kind.cancel(ps, mine)

    heard = [(channel, m) for channel, ear in ears.items() for m in ear.hear_the_rest()]
    read = [peer.source.hear(*message) for message in heard]
    assert not any(isinstance(one, Cancelled) and one.includes(its) for one in read)


def test_what_was_pushed_and_not_heard_of_is_found(
    ps: penstock.Penstock, kind: Kind, worker: Worker, listen: Callable[[str], Ear]
) -> None:
    if not worker.source.takes_pushed:
        # Then nothing is ever pushed, also to a worker that offers to take it.
        listen(worker.source.keys.hand + worker.source.worker)
        worker.claim(1, offer=1)
        kind.send(ps, [1])
        assert ps.queue("mail").inspect().running == 0
        return
    channel = worker.source.keys.hand + worker.source.worker
    assert channel in worker.source.channels
    ear = listen(channel)
    worker.claim(1, offer=1)
    ps.jobs("mail").add("echo", 1)

    [message] = ear.hear_the_rest()
    pushed: Any = worker.source.hear(channel, message)
    found = worker.ask(worker.source.find_pushed([]))
    [same] = worker.source.contexts(found.found, found.first_process)

    assert (pushed.token, pushed.task) == (same.token, same.task)
    assert worker.ask(worker.source.find_pushed([same.token])).size == 0


def test_a_request_that_is_sent_again_has_one_effect(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:

    kind.send(ps, [1, 2, 3])
    build = worker.source.claim([], 2, 0).command
    assert callable(build)
    command = build(Operation("lane", 1))

    first, second = ps.store.run(command), ps.store.run(command)

    assert worker.names(worker.source.contexts(first.found, first.first_process)) == [1, 2]
    assert list(second.found) == list(first.found)
    assert ps.queue("mail").inspect().running == 2


def test_nothing_of_a_closed_source_counts(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1])
    [context] = worker.claim(1)

    worker.source.close([context])

    assert context.is_void
    assert not context.may_begin
