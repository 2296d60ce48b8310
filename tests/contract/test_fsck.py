"""`penstock fsck`: silent about a healthy store, and exact about a damaged one."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.client import fsck
from penstock.errors import LeaseLost
from penstock.store.commands import queues
from penstock.store.keys import NamespaceKeys
from tests.invariants import assert_invariants
from tests.servers import RedisCluster, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    from penstock.store.keys import QueueKeys
    from tests.servers import RedisServer

    Damage = Callable[[redis.Redis, QueueKeys, NamespaceKeys], object]


@pytest.fixture
def ps(server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    """On one kind of store: what is damaged here is damaged by hand."""
    with penstock.connect(server.url, namespace=namespace) as client:
        yield client


@pytest.fixture
def namespace_keys(namespace: str) -> NamespaceKeys:
    return NamespaceKeys(namespace)


@pytest.fixture
def worker(ps: penstock.Penstock, queue: penstock.Queue) -> Iterator[penstock.WorkerSession]:
    """A worker of a queue in which everything there can be is there: tasks that wait, are held, are
    dead, have failed, and are unique.
    """
    queue.configure(max_failures=2)
    queue.enqueue_many([b"dead", b"failed", b"held", b"waiting"])
    queue.enqueue_unique(b"only", key="one")
    session = ps.worker()
    session.start()
    session.start_work(queue.name)
    for process in session.start_tasks(queue.name, 3):
        if process.task != b"held":
            process.fail()
    assert queue.page().tasks == [b"waiting", b"only", b"dead", b"failed"]
    for process in session.start_tasks(queue.name, 3):
        process.fail() if process.task == b"dead" else process.stop()
    yield session
    session.stop()


def kinds(report: fsck.Report) -> set[tuple[str, str]]:
    return {(violation.invariant, violation.kind) for violation in report.violations}


def test_a_healthy_queue_has_no_violations(
    ps: penstock.Penstock, worker: penstock.WorkerSession
) -> None:
    report = fsck.check(ps)

    assert report.violations == []
    assert (report.queues, report.tasks, report.workers) == (1, 5, 1)


def test_a_store_of_any_kind_can_be_checked(
    any_store: RedisServer | RedisCluster, namespace: str
) -> None:
    with penstock.connect(any_store.url, namespace=namespace) as ps:
        for number in range(20):
            ps.queue(f"queue {number}").enqueue(b"task")

        report = fsck.check(ps)

        assert (report.queues, report.tasks, report.violations) == (20, 20, [])


async def _check(url: str, namespace: str) -> Any:
    async with await penstock.aconnect(url, namespace=namespace) as ps:
        return await fsck.acheck(ps)


def test_the_async_client_checks_as_well(
    server: RedisServer, namespace: str, worker: penstock.WorkerSession
) -> None:
    report = asyncio.run(_check(server.url, namespace))

    assert (report.tasks, report.violations) == (5, [])


@pytest.mark.parametrize("small", [0, 10_000])
def test_a_busy_system_gives_no_false_alarm(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    small: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.client._sync.task_scan._SMALL", small)
    queue.enqueue(b"first")
    stopping = threading.Event()
    threads = [threading.Thread(target=_produce, args=(ps, queue.name, stopping))]
    threads += [
        threading.Thread(target=_consume, args=(ps, queue.name, stopping)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: queue.inspect().counters.finished > 50)
        reports = [fsck.check(ps) for _ in range(10)]
    finally:
        stopping.set()
        for thread in threads:
            thread.join()

    assert [violation for report in reports for violation in report.violations] == []
    assert_invariants(ps)


def _produce(ps: penstock.Penstock, name: str, stopping: threading.Event) -> None:
    queue = ps.queue(name)
    number = 0
    while not stopping.is_set():
        number += 1
        queue.enqueue(b"%d" % number)
        queue.enqueue_unique(b"unique %d" % number, key=str(number % 10))
        if number % 10 == 0:
            queue.cancel(b"%d" % number)
            ps.queue(f"passing {number}").enqueue(b"task")
            ps.queue(f"passing {number}").delete()
        wait_for(lambda: queue.count() < 500)


def _consume(ps: penstock.Penstock, name: str, stopping: threading.Event) -> None:
    while not stopping.is_set():
        with ps.worker() as worker:
            worker.start_work(name)
            for _ in range(20):
                for process in worker.start_tasks(name, 5):
                    if process.id % 7 == 0:
                        process.fail()
                    elif process.id % 5 == 0:
                        process.stop()
                    else:
                        process.finish()


DAMAGES: dict[str, tuple[Damage, tuple[str, str]]] = {
    "a task is lost": (
        lambda r, q, n: r.rpop(q.ready),
        ("I1", "enqueued_tasks_add_up"),
    ),
    "a start is not counted": (
        lambda r, q, n: r.hincrby(q.meta, "started", -1),
        ("I1", "started_tasks_add_up"),
    ),
    "a process has two holders": (
        lambda r, q, n: r.copy(_running(r, q), q.running("other")),
        ("I2", "one_holder"),
    ),
    "a holder has not started work": (
        lambda r, q, n: r.delete(q.members),
        ("I2", "holder_is_no_member"),
    ),
    "a stranger waits for a wake-up": (
        lambda r, q, n: r.sadd(q.idle, "stranger"),
        ("I2", "waiter_is_no_member"),
    ),
    "a counter went below zero": (
        lambda r, q, n: r.hset(q.meta, "cancelled", -1),
        ("I3", "counter_is_negative"),
    ),
    "a counter is no number": (
        lambda r, q, n: r.hset(q.meta, "finished", "many"),
        ("I3", "figure_is_no_number"),
    ),
    "the most that may wait is no number": (
        lambda r, q, n: r.hset(q.meta, "max_length", "many"),
        ("I3", "figure_is_no_number"),
    ),
    "process ids went back": (
        lambda r, q, n: r.hset(q.meta, "process", 1),
        ("I4", "process_from_the_future"),
    ),
    "failures of no task": (
        lambda r, q, n: r.hset(q.failures, "0" * 40, 1),
        ("I5", "failures_of_no_task"),
    ),
    "a unique key of no task": (
        lambda r, q, n: r.hset(q.unique, "=gone", b"12345678task"),
        ("I6", "unique_key_of_no_task"),
    ),
    "a unique key that is not indexed": (
        lambda r, q, n: r.delete(q.unique_tasks),
        ("I6", "unique_key_not_indexed"),
    ),
    "an index entry of no key": (
        lambda r, q, n: r.zadd(q.unique_tasks, {b"0" * 40 + b"=gone": 0}),
        ("I6", "index_of_no_unique_key"),
    ),
    "a member that nobody knows": (
        lambda r, q, n: r.sadd(q.members, "stranger"),
        ("I13", "member_is_unknown"),
    ),
    "a holder that nobody knows": (
        lambda r, q, n: (r.sadd(q.members, "gone"), r.rename(_running(r, q), q.running("gone"))),
        ("I13", "holder_is_unknown"),
    ),
    "a holder that does not list the queue": (
        lambda r, q, n: r.delete(*r.keys(n.work("*"))),
        ("I13", "holder_does_not_list_the_queue"),
    ),
    "a queue that is not registered": (
        lambda r, q, n: r.delete(n.queues),
        ("I13", "queue_not_registered"),
    ),
    "a queue that is registered under another incarnation": (
        lambda r, q, n: (r.delete(n.queues), r.hset(n.queues, "other", "1 mail")),
        ("I13", "queue_not_registered"),
    ),
    "a registration of a queue that is not there": (
        lambda r, q, n: r.hset(n.queues, "incarnation", "1 ghost"),
        ("I13", "registration_of_no_queue"),
    ),
    "a second registration of a queue": (
        lambda r, q, n: r.hset(n.queues, "incarnation", "1 mail"),
        ("I13", "registration_of_no_queue"),
    ),
    "an entry in the list of queues that somebody else wrote": (
        lambda r, q, n: r.hset(n.queues, "mail", "incarnation"),
        ("I13", "registration_of_no_queue"),
    ),
    "a list of queues of nobody": (
        lambda r, q, n: r.sadd(n.work("gone"), "mail"),
        ("I13", "trace_of_no_worker"),
    ),
    "a description of nobody": (
        lambda r, q, n: r.hset(n.info, "gone", "{}"),
        ("I13", "trace_of_no_worker"),
    ),
    "a worker long dead": (
        lambda r, q, n: r.zadd(n.condemned, {"gone": 1}),
        ("I13", "dead_worker_not_recovered"),
    ),
    "live state that expires": (
        lambda r, q, n: r.expire(q.ready, 1000),
        ("I13", "live_state_expires"),
    ),
    "a process that is no number": (
        lambda r, q, n: r.hset(_running(r, q), "x", "task"),
        ("I13", "foreign_entry"),
    ),
    "failures that are no number": (
        lambda r, q, n: r.hset(q.failures, "0" * 40, "many"),
        ("I13", "foreign_entry"),
    ),
    "what is no name among the workers": (
        lambda r, q, n: r.zadd(n.workers, {b"\xff": 5}),
        ("I13", "foreign_entry"),
    ),
    "what is no queue on the list of queues": (
        lambda r, q, n: r.hset(n.queues, "i9", b"1 \xff\0"),
        ("I13", "foreign_entry"),
    ),
    "a description that is garbage": (
        lambda r, q, n: r.hset(n.info, r.hkeys(n.info)[0], "garbage"),
        ("I13", "foreign_entry"),
    ),
    "a member that does not list the queue": (
        lambda r, q, n: (r.delete(_running(r, q)), r.delete(*r.keys(n.work("*")))),
        ("I13", "member_does_not_list_the_queue"),
    ),
    "a time of no batch": (
        lambda r, q, n: r.zadd(q.batch_times, {"b": 5}),
        ("I13", "foreign_entry"),
    ),
    "a memory that stays": (
        lambda r, q, n: r.set(q.memory("lane"), "1"),
        ("I13", "memory_stays"),
    ),
    "an unknown key": (
        lambda r, q, n: r.set(f"{q.tag}:surprise", "1"),
        ("I13", "unknown_key"),
    ),
    "a key of another type": (
        lambda r, q, n: r.set(q.dead, "1"),
        ("I13", "mistyped_key"),
    ),
    "tasks in a queue that was deleted": (
        lambda r, q, n: r.delete(q.meta),
        ("I13", "tasks_without_a_queue"),
    ),
}

NOT_REPAIRABLE = {
    "a process that is no number",
    "a member that does not list the queue",  # nor is what it held there any more
    "the most that may wait is no number",
    "a task is lost",
    "a start is not counted",
    "a process has two holders",
    "a holder has not started work",
    "a counter went below zero",
    "a counter is no number",
    "process ids went back",
    "a holder that does not list the queue",
    "an unknown key",
    "a key of another type",
    "tasks in a queue that was deleted",
}


def _running(client: redis.Redis, keys: QueueKeys) -> str:
    (found,) = client.keys(keys.running("*"))
    assert isinstance(found, bytes)
    return found.decode()


@pytest.mark.parametrize("small", [0, 10_000])
@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_is_found_and_named(
    ps: penstock.Penstock,
    worker: penstock.WorkerSession,
    redis_client: redis.Redis,
    keys: QueueKeys,
    namespace_keys: NamespaceKeys,
    name: str,
    small: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.client._sync.task_scan._SMALL", small)
    damage, expected = DAMAGES[name]
    worker.heartbeat.stop()
    damage(redis_client, keys, namespace_keys)

    assert expected in kinds(fsck.check(ps))

    redis_client.delete(keys.dead, keys.ready)


@pytest.mark.parametrize("name", sorted(DAMAGES.keys() - NOT_REPAIRABLE))
def test_repair_mends_what_can_be_mended_without_risk(
    ps: penstock.Penstock,
    worker: penstock.WorkerSession,
    redis_client: redis.Redis,
    keys: QueueKeys,
    namespace_keys: NamespaceKeys,
    name: str,
) -> None:
    damage, expected = DAMAGES[name]
    worker.heartbeat.stop()
    damage(redis_client, keys, namespace_keys)
    found = fsck.check(ps)

    report = fsck.repair(ps, found)

    assert report.violations == []
    assert expected in {(v.invariant, v.kind) for v in report.repaired}
    assert_invariants(ps)


@pytest.mark.parametrize("name", ["a task is lost", "a counter went below zero"])
def test_repair_leaves_counters_alone_and_goes_on_reporting_them(
    ps: penstock.Penstock,
    worker: penstock.WorkerSession,
    redis_client: redis.Redis,
    keys: QueueKeys,
    namespace_keys: NamespaceKeys,
    name: str,
) -> None:
    damage, expected = DAMAGES[name]
    damage(redis_client, keys, namespace_keys)
    counters = redis_client.hgetall(keys.meta)

    report = fsck.repair(ps, fsck.check(ps))

    assert expected in kinds(report)
    assert redis_client.hgetall(keys.meta) == counters


def test_a_registration_is_left_alone_while_somebody_could_still_create_the_queue(
    ps: penstock.Penstock, namespace_keys: NamespaceKeys
) -> None:
    ps.store.run(queues.register_queue(namespace_keys, "mail", "i1"))

    assert fsck.check(ps).violations == []


def test_a_registration_of_a_queue_that_cannot_be_read_is_left_alone(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    redis_client: redis.Redis,
    keys: QueueKeys,
    namespace_keys: NamespaceKeys,
) -> None:
    queue.enqueue(b"task")
    incarnation = queue.inspect().incarnation
    redis_client.hset(namespace_keys.queues, incarnation, "1 mail")
    redis_client.set(keys.dead, "something else")

    fsck.repair(ps, fsck.check(ps))

    assert ps.queues() == ["mail"]


def test_repair_gives_back_what_an_unknown_worker_holds(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    redis_client: redis.Redis,
    keys: QueueKeys,
    namespace_keys: NamespaceKeys,
) -> None:
    DAMAGES["a holder that nobody knows"][0](redis_client, keys, namespace_keys)

    fsck.repair(ps, fsck.check(ps))

    assert queue.peek() == b"held"
    assert queue.inspect().counters.lost == 1


def test_a_worker_repaired_away_cannot_finish_its_task(
    ps: penstock.Penstock, queue: penstock.Queue, redis_client: redis.Redis, namespace: str
) -> None:
    queue.enqueue(b"task")
    session = ps.worker()
    session.start()
    session.heartbeat.stop()
    session.start_work(queue.name)
    process = session.start_task(queue.name)
    assert process is not None
    redis_client.zadd(NamespaceKeys(namespace).workers, {session.id: 1})

    report = fsck.repair(ps, fsck.check(ps))

    assert report.violations == []
    with pytest.raises(LeaseLost):
        process.finish()
    assert queue.peek() == b"task"


def test_nothing_is_repaired_while_a_key_of_the_namespace_cannot_be_read(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    redis_client: redis.Redis,
    namespace_keys: NamespaceKeys,
) -> None:
    held = queue.inspect().held
    leases = redis_client.dump(namespace_keys.workers)
    assert leases is not None
    redis_client.set(namespace_keys.workers, "not a sorted set")

    report = fsck.check(ps)
    fsck.repair(ps, report)

    assert report.violations
    assert not any(violation.is_repairable for violation in report.violations)
    assert queue.inspect().held == held
    redis_client.delete(namespace_keys.workers)
    redis_client.restore(namespace_keys.workers, 0, leases)
