"""What every source promises. A new kind of work is served by a worker once it passes these: add
it to `SOURCES`.
"""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import penstock
from penstock.executors.batch_context import BatchContext
from penstock.executors.job_context import JobContext
from penstock.model.retries import fixed
from penstock.store.command import Operation
from penstock.worker.consumers import CONSUMER_MARK
from penstock.worker.source import WOKEN, Cancelled, QueueSource, Request
from penstock.worker.sources.jobs import JobSource
from penstock.worker.sources.logs import LogSource
from penstock.worker.sources.tasks import TaskSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.executors.context import Context
    from penstock.model.claims import Claim
    from penstock.store.keys import QueueKeys
    from penstock.worker.source import Source, Told
    from tests.contract.conftest import Ear

# The scripts behind it are tested on every store. Channels differ on a cluster.
pytestmark = pytest.mark.stores("debian", "cluster")


@penstock.job(queue="mail", type="echo")
def echo() -> None: ...


class Kind(NamedTuple):
    """How a test makes a source, and work for it."""

    join: Callable[[penstock.WorkerSession], object]
    make: Callable[[penstock.Penstock, penstock.WorkerSession], Source]
    send: Callable[[penstock.Penstock, list[int]], object]
    names: Callable[[Context], list[int]]
    """which of the numbers that were sent it is"""
    leave: Callable[[penstock.Penstock, penstock.WorkerSession], object]
    """what is held belongs to this worker no more, and it gets nothing"""
    cancel: Callable[[penstock.Penstock, Context], object] | None
    """None: what runs cannot be cancelled from outside"""
    is_shared: bool = True
    """any worker takes from the queue, and what one has taken is gone for others until it is given
    back. Else all belongs to one worker, and stays where it is: nothing is given back or pushed, no
    wake-up is passed on, the store does not know what runs, and what went well is not reported, but
    written down by the committer.
    """
    allow: Callable[[Source, int], object] = lambda source, limit: None
    """lets the next claim bring so much, where that is one batch"""
    run: Callable[[Context], object] = lambda context: None
    """notes in it what an executor would"""


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


def make_log(ps: penstock.Penstock, worker: penstock.WorkerSession) -> Source:
    @penstock.consumer("mail", "g", batch=1, attempts=1)
    def read(messages: list[penstock.Message]) -> None: ...

    log = ps.log("mail")
    log.configure(keep_count=None)
    group = log.group("g")
    taken = group.take(0, worker.id)
    [consumer] = getattr(read, CONSUMER_MARK)
    return LogSource(
        *(ps.keys.queue("mail").partition(0), worker.id, worker.lease, consumer),
        *(taken.epoch, taken.offset, 1000),
        lambda offset: group.commit(0, taken.epoch, offset),
    )


def allow_messages(source: Source, limit: int) -> None:
    assert isinstance(source, LogSource)
    source.consumer = replace(source.consumer, batch=max(1, limit))


def run_messages(context: Context) -> None:
    assert isinstance(context, BatchContext)
    is_done = context.outcome not in ("failed", "stopped")
    context.done = len(context.messages) if is_done else 0


SOURCES = {
    "tasks": Kind(
        lambda worker: worker.start_work("mail"),
        make_tasks,
        lambda ps, numbers: ps.queue("mail").enqueue_many([b"%d" % number for number in numbers]),
        lambda context: [int(context.task)],
        lambda ps, worker: worker.stop_work("mail"),
        lambda ps, context: ps.queue("mail").cancel(context.task),
    ),
    "jobs": Kind(
        lambda worker: worker.start_job_work("mail"),
        make_jobs,
        lambda ps, numbers: ps.jobs("mail").add_many("echo", list(numbers)),
        lambda context: [int(json.loads(context.task))],
        lambda ps, worker: worker.stop_work("mail"),
        lambda ps, context: ps.job(context.job, queue="mail").cancel(),  # type: ignore[attr-defined]
    ),
    "logs": Kind(
        lambda worker: None,  # to take the partition is to join
        make_log,
        lambda ps, numbers: ps.log("mail").append_many([b"%d" % number for number in numbers]),
        lambda context: [int(message.body) for message in context.messages],  # type: ignore[attr-defined]
        lambda ps, worker: ps.log("mail").group("g").take(0, "another"),
        cancel=None,
        is_shared=False,
        allow=allow_messages,
        run=run_messages,
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
        apart, rest = self.source.report_apart(self.prepared(*reported))
        assert apart == []
        self._kind.allow(self.source, limit)
        claim = self.ask(self.source.claim(rest, limit, offer))
        assert not claim.refused
        return self.source.contexts(claim.found, claim.first_process)

    def prepared(self, *contexts: Context) -> list[Context]:
        for context in contexts:
            self._kind.run(context)
            self.source.prepare(context)
        return list(contexts)

    def names(self, contexts: list[Context]) -> list[int]:
        return [name for context in contexts for name in self._kind.names(context)]


def count_running(ps: penstock.Penstock, kind: Kind) -> int:
    """How much the store knows to be running."""
    return ps.queue("mail").inspect().running if kind.is_shared else 0


def queue_keys(worker: Worker) -> QueueKeys:
    """Of a source that is shared."""
    assert isinstance(worker.source, QueueSource)
    return worker.source.keys


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
    if kind.is_shared:
        assert claimed[0].token < claimed[1].token
        assert worker.names(worker.claim(2)) == [3]
    else:
        [batch] = claimed
        assert batch.token == worker.source.epoch  # type: ignore[attr-defined]
        assert worker.names(worker.claim(2, batch)) == [3]


def test_a_claim_reports_and_starts_in_one_request(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1, 2, 3])
    first = worker.claim(1)

    assert worker.names(worker.claim(2, *first)) == [2, 3]
    assert worker.source.told(first, []).finished == 1
    assert count_running(ps, kind) == 2 * kind.is_shared


def test_what_became_of_work_can_be_told_in_every_case(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1, 2, 3])
    told: list[Told] = []

    def tell(contexts: list[Context], *outcomes: str | None) -> None:
        for context, outcome in zip(contexts, outcomes, strict=True):
            context.outcome = outcome or context.outcome
        first = contexts[0].outcome
        apart, rest = worker.source.report_apart(worker.prepared(*contexts))
        told_apart = [context for request in apart for context in request.contexts]
        told.extend(worker.source.told(request.contexts, []) for request in apart)
        told.append(worker.source.told([c for c in contexts if c not in told_apart], []))
        for request in apart:
            assert not worker.ask(request).refused
        worker.ask(worker.source.claim(rest, 0, 0))
        assert contexts[0].outcome == first

    if kind.is_shared:
        tell(worker.claim(3), None, "failed", "stopped")
    else:
        tell(worker.claim(1), None)
        tell(worker.claim(1), "failed")
        tell(worker.claim(1), "stopped")

    assert sum(one.finished for one in told) == 1
    assert sum(one.failed for one in told) == 1
    assert count_running(ps, kind) == 0


def test_what_is_given_back_comes_first_again_in_its_old_order(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1, 2, 3, 4])
    claimed = worker.claim(3)

    request = worker.source.give_back(claimed)
    assert not worker.ask(request).refused if kind.is_shared else request is None

    assert worker.names(worker.claim(4)) == [1, 2, 3, 4]


def test_what_was_taken_away_is_refused_and_not_counted(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1, 2])
    claimed = worker.claim(worker.source.most_held or 2)
    tokens = [context.token for context in claimed]
    kind.leave(ps, worker.session)
    kind.join(worker.session)

    if kind.is_shared:
        claim = worker.ask(worker.source.claim(worker.prepared(*claimed), 0, 0))
    else:
        claimed[0].outcome = "failed"
        [request], _ = worker.source.report_apart(worker.prepared(*claimed))
        claim = worker.ask(request)

    assert sorted(claim.refused) == tokens
    told = worker.source.told(claimed, claim.refused)
    assert (told.finished, told.failed) == (0, 0)
    if kind.is_shared:
        assert sorted(worker.ask(worker.source.give_back(claimed)).refused) == tokens
    else:
        assert worker.source.lease.is_lost
        claimed[0].outcome = "finished"
        with pytest.raises(penstock.errors.OffsetRefused):
            worker.source.report_apart(worker.prepared(*claimed))


def test_a_worker_that_does_not_serve_the_queue_is_told_so(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1])
    kind.leave(ps, worker.session)

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
    if not kind.is_shared:
        # Then no other could use it, and all who wait for it hear the same.
        assert all(worker.source.pass_on(is_busy=True) is None for worker in workers)
        assert len({tuple(worker.source.channels) for worker in workers}) == 1
        return
    ears = [listen(queue_keys(worker).wake + worker.source.worker) for worker in workers]
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
    claimed = worker.claim(2)
    said = [(channel, m) for channel, ear in ears.items() for m in ear.hear_the_rest()]
    if kind.cancel is None:
        assert {worker.source.hear(*message) for message in [*said, ("", b"")]} == {WOKEN}
        assert worker.source.find_cancelled() is None
        return
    first, second = claimed

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
    if kind.cancel is None:
        # Only one of them holds anything.
        assert worker.ask(worker.source.claim([], 1, 0)).word == "not_working"
        assert peer.names(peer.claim(2)) == [1, 2]
        return
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
    if not kind.is_shared:
        assert not worker.source.takes_pushed
        assert worker.source.find_pushed([]) is None
        return
    if not worker.source.takes_pushed:
        # Then nothing is ever pushed, also to a worker that offers to take it.
        listen(queue_keys(worker).hand + worker.source.worker)
        worker.claim(1, offer=1)
        kind.send(ps, [1])
        assert ps.queue("mail").inspect().running == 0
        return
    channel = queue_keys(worker).hand + worker.source.worker
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
    kind.allow(worker.source, 2)
    request = worker.source.claim([], 2, 0)
    command: Any = request.command
    # What takes nothing away need not be told from another request.
    assert callable(command) == kind.is_shared
    if kind.is_shared:
        command = command(Operation("lane", 1))

    answers = [ps.store.run(command), ps.store.run(command)]

    first, second = [request.read(answer) if request.read else answer for answer in answers]
    assert worker.names(worker.source.contexts(first.found, first.first_process)) == [1, 2]
    assert list(second.found) == list(first.found)
    assert count_running(ps, kind) == 2 * kind.is_shared


def test_nothing_of_a_closed_source_counts(
    ps: penstock.Penstock, kind: Kind, worker: Worker
) -> None:
    kind.send(ps, [1])
    [context] = worker.claim(1)

    worker.source.close([context])

    assert context.is_void
    assert not context.may_begin
