"""A dead worker is taken off a queue of any kind, also if that holds something else by now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.client.fsck import check
from penstock.errors import UnknownLayout
from penstock.store.commands import jobs, processes, queues, workers
from penstock.store.kinds import KINDS
from tests.conftest import EVERY_VERSION
from tests.kinds import QUEUE_KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.model.queues import KindName
    from penstock.store.command import Command, Operation
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.stored import Stored

pytestmark = pytest.mark.stores(*EVERY_VERSION)

HOUR_MS = 3_600_000
OTHER: dict[KindName, KindName] = {"tasks": "jobs", "jobs": "tasks"}

each_kind = pytest.mark.parametrize("kind", QUEUE_KINDS)


class Workers:
    """Workers of one queue, each request of which the test sends itself."""

    def __init__(self, ps: penstock.Penstock, operations: Iterator[Operation]) -> None:
        self._ps = ps
        self._operations = operations
        self.keys: QueueKeys = ps.keys.queue("mail")
        self._put: dict[KindName, Callable[[], object]] = {
            "tasks": lambda: ps.queue("mail").enqueue(b"task"),
            "jobs": lambda: ps.jobs("mail").add("email"),
        }

    def put(self, kind: KindName) -> None:
        """What makes a queue of this kind, if there is none."""
        self._put[kind]()

    def register(self, worker: str) -> None:
        self.run(workers.start_worker(self._ps.keys, self.next(), worker, HOUR_MS, "{}"))

    def join(self, worker: str, kind: KindName) -> None:
        self.run(workers.start_work(self._ps.keys, worker, "mail", kind))
        self.run(KINDS[kind].join(self.keys, self.next(), worker, None, ""))

    def take(self, worker: str, kind: KindName) -> None:
        """Start what waits; nothing waits for more."""
        start: Command[Any]
        if kind == "tasks":
            start = processes.start_tasks(self.keys, self.next(), worker, 10, wait=True)
        else:
            start = jobs.start_jobs(self.keys, self.next(), worker, 10, wait=True)
        assert self.run(start).word == "ok"

    def run(self, command: Command[Any]) -> Any:
        return self._ps.store.run(command)

    def next(self) -> Operation:
        return next(self._operations)


@pytest.fixture
def hands(ps: penstock.Penstock, operations: Iterator[Operation]) -> Workers:
    return Workers(ps, operations)


@each_kind
def test_a_worker_lists_the_kind_of_each_queue_that_it_serves(
    kind: KindName, ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    start: dict[KindName, Callable[[penstock.WorkerSession], None]] = {
        "tasks": lambda worker: worker.start_work("mail"),
        "jobs": lambda worker: worker.start_job_work("mail"),
    }
    with ps.worker(lease_ms=HOUR_MS) as worker:
        start[kind](worker)

        assert stored[names.work(worker.id)] == {f"mail\0{kind}".encode()}
        assert ps.work_of(worker.id) == ["mail"]

        worker.stop_work("mail")

        assert names.work(worker.id) not in stored


@each_kind
def test_what_a_dead_worker_held_goes_back(
    kind: KindName, ps: penstock.Penstock, hands: Workers
) -> None:
    hands.put(kind)
    hands.register("dead")
    hands.join("dead", kind)
    hands.take("dead", kind)

    assert ps.fail_worker("dead") == (1, 0)

    assert check(ps).violations == []


@each_kind
def test_what_a_stopped_worker_held_goes_back_at_no_cost(
    kind: KindName, ps: penstock.Penstock, hands: Workers
) -> None:
    hands.put(kind)
    hands.register("stopped")
    hands.join("stopped", kind)
    hands.take("stopped", kind)

    assert ps.release_worker("stopped") == (1, 0)

    assert ps.workers() == []
    if kind == "jobs":
        [job] = ps.jobs("mail").page("ready").jobs
        assert job.crashes == 0
    else:
        assert ps.queue("mail").inspect().failures == 0
    assert check(ps).violations == []


@each_kind
def test_a_list_without_kinds_is_recovered_too(
    kind: KindName, ps: penstock.Penstock, names: NamespaceKeys, hands: Workers
) -> None:
    hands.put(kind)
    hands.register("dead")
    hands.join("dead", kind)
    hands.take("dead", kind)
    listed = names.work("dead")
    ps.store.call(listed, "DEL", listed)
    ps.store.call(listed, "SADD", listed, "mail")

    assert ps.work_of("dead") == ["mail"]
    assert ps.fail_worker("dead") == (1, 0)

    assert check(ps).violations == []


@each_kind
def test_a_queue_that_is_gone_keeps_nothing_of_a_worker(
    kind: KindName, ps: penstock.Penstock, hands: Workers, stored: Stored
) -> None:
    hands.put(kind)
    hands.register("dead")
    hands.join("dead", kind)
    ps.queue("mail").delete()

    assert ps.fail_worker("dead") == (0, 0)

    assert [key for key in stored.types() if ":memory:" not in key] == []


@each_kind
def test_a_worker_leaves_a_queue_that_was_made_anew_with_another_kind(
    kind: KindName, ps: penstock.Penstock, hands: Workers, stored: Stored
) -> None:
    hands.put(kind)
    hands.register("dead")
    hands.join("dead", kind)
    ps.queue("mail").delete()
    hands.put(OTHER[kind])
    hands.put(OTHER[kind])
    hands.register("alive")
    hands.join("alive", OTHER[kind])
    hands.take("alive", OTHER[kind])
    held = stored[hands.keys.running("alive")]

    assert ps.fail_worker("dead") == (0, 0)

    assert stored[hands.keys.members] == {b"alive"}
    assert stored[hands.keys.running("alive")] == held
    assert ps.queue("mail").inspect().running == 2
    assert [key for key in stored.types() if "dead" in key] == []
    assert check(ps).violations == []


@each_kind
def test_what_a_worker_holds_of_a_queue_that_was_made_anew_goes_back(
    kind: KindName, ps: penstock.Penstock, hands: Workers, stored: Stored
) -> None:
    """It has served the queue as both, so it is listed with both."""
    hands.put(kind)
    hands.register("dead")
    hands.join("dead", kind)
    ps.queue("mail").delete()
    hands.put(OTHER[kind])
    hands.join("dead", OTHER[kind])
    hands.take("dead", OTHER[kind])

    assert ps.fail_worker("dead") == (1, 0)

    assert ps.queue("mail").inspect().running == 0
    hands.register("alive")
    hands.join("alive", OTHER[kind])
    hands.take("alive", OTHER[kind])
    assert ps.queue("mail").inspect().running == 1
    assert check(ps).violations == []


@each_kind
def test_recovery_can_be_repeated_from_any_step(
    kind: KindName, ps: penstock.Penstock, names: NamespaceKeys, hands: Workers, stored: Stored
) -> None:
    """A peer that dies after it has left the queue has not forgotten the worker."""
    hands.put(OTHER[kind])
    hands.register("dead")
    hands.join("dead", OTHER[kind])
    ps.queue("mail").delete()
    hands.put(kind)
    hands.join("dead", kind)
    hands.take("dead", kind)
    hands.run(workers.fail_worker(names, "dead", 0))
    hands.run(KINDS[kind].leave(hands.keys, hands.next(), "dead", True, b""))
    assert names.work("dead") in stored

    assert ps.fail_worker("dead") == (0, 0)

    assert ps.queue("mail").inspect().running == 0
    assert [key for key in stored.types() if "dead" in key] == []
    assert check(ps).violations == []


@each_kind
def test_a_queue_says_what_it_holds_to_a_worker_of_another_kind(
    kind: KindName, hands: Workers, stored: Stored
) -> None:
    hands.put(kind)
    hands.register("dead")
    hands.join("dead", kind)
    hands.take("dead", kind)
    operation = hands.next()
    before = {key: value for key, value in stored.everything().items() if ":memory:" not in key}

    for _ in range(2):
        leave = KINDS[OTHER[kind]].leave(hands.keys, operation, "dead", True, b"")

        assert hands.run(leave) == kind

    after = {key: value for key, value in stored.everything().items() if ":memory:" not in key}
    assert after == before


def test_a_kind_that_this_version_does_not_know_is_left_to_a_newer_one(
    ps: penstock.Penstock, names: NamespaceKeys, hands: Workers
) -> None:
    hands.run(queues.register_queue(names, "mail", "i1"))
    hands.register("newer")
    listed = names.work("newer")
    ps.store.call(listed, "SADD", listed, "mail\0tables")

    with pytest.raises(UnknownLayout, match=r"holds 'tables'.*upgrade this program"):
        ps.fail_worker("newer")

    assert [worker.id for worker in ps.workers()] == ["newer"]
    assert ps.work_of("newer") == ["mail"]
