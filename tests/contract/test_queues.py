"""Queues as a whole: the list of queues, settings, inspection, deletion, membership."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InvalidName, QueueNotFound
from penstock.store.command import Command, Operation, QueueAbsent, QueueTaken
from penstock.store.commands import queues, tasks
from tests.conftest import EVERY_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.stored import Stored

pytestmark = pytest.mark.stores(*EVERY_VERSION)

ODD_NAMES = ["a:b", "a_b", "{a}", "a b", "ä", "%3A", "*", "x" * 255]


def test_queues_are_listed_in_order(ps: penstock.Penstock) -> None:
    for name in ("b", "c", "a"):
        ps.queue(name).enqueue(b"task")

    assert ps.queues() == ["a", "b", "c"]


def test_many_queues_are_listed_in_pages(ps: penstock.Penstock, names: NamespaceKeys) -> None:
    registered = {f"q{number:04}" for number in range(2_500)}
    fields = [part for name in registered for part in (f"i-{name}", f"1 {name}")]
    ps.store.call(names.queues, "HSET", names.queues, *fields)

    cursor, page = ps.store.run(queues.list_queues(names, "0"))

    assert cursor != "0" and len(page) < 2_500
    assert ps.queues() == sorted(registered)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_name_keeps_apart_from_every_other(ps: penstock.Penstock, name: str) -> None:
    for number, other in enumerate(ODD_NAMES):
        ps.queue(other).enqueue(b"%d" % number)

    assert ps.queue(name).page().tasks == [b"%d" % ODD_NAMES.index(name)]
    assert ps.queues() == sorted(ODD_NAMES)


@pytest.mark.parametrize("name", ["", "new\nline", "x" * 256, "\ud800"])
def test_a_bad_name_is_refused(ps: penstock.Penstock, name: str) -> None:
    with pytest.raises(InvalidName, match="queue name"):
        ps.queue(name)


def test_the_first_thing_that_comes_in_decides_what_a_queue_holds(ps: penstock.Penstock) -> None:
    ps.queue("tasks").enqueue(b"task")
    ps.jobs("jobs").add("email")
    ps.schedules("schedules").add("pulse", "email", every=60)
    ps.queue("paused").pause()

    kinds = {state.name: state.kind for state in ps.inspect()}

    assert kinds == {
        "tasks": "tasks",
        "jobs": "jobs",
        "schedules": "jobs",
        "paused": "undecided",
    }


def test_each_incarnation_of_a_queue_is_on_the_list_by_itself_and_the_name_is_listed_once(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    for incarnation in ("old", "new"):
        ps.store.run(queues.register_queue(names, "mail", incarnation))
    assert ps.queues() == ["mail"]

    ps.store.run(queues.unregister_queue(names, "old"))
    assert set(stored.hash(names.queues)) == {b"new"}
    assert ps.queues() == ["mail"]

    ps.store.run(queues.unregister_queue(names, "new"))
    assert names.queues not in stored


def test_a_queue_that_was_registered_and_never_created_is_listed_but_not_inspected(
    ps: penstock.Penstock, names: NamespaceKeys
) -> None:
    ps.store.run(queues.register_queue(names, "mail", "broken off"))

    assert ps.queues() == ["mail"]
    assert ps.inspect() == []


def test_a_slow_creator_leaves_no_unlisted_queue_when_another_deletes_it_meanwhile(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    names: NamespaceKeys,
    keys: QueueKeys,
    operations: Iterator[Operation],
) -> None:
    ps.store.run(queues.register_queue(names, "mail", "slow"))
    queue.enqueue(b"quick")
    queue.delete()

    ps.store.run(tasks.enqueue_tasks(keys, next(operations), [b"slow"], "slow"))

    assert ps.queues() == ["mail"]
    assert queue.delete() == (1, 0)
    assert ps.queues() == []


def test_two_creators_at_once_leave_no_name_behind_when_the_queue_is_deleted(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    names: NamespaceKeys,
    keys: QueueKeys,
    operations: Iterator[Operation],
    stored: Stored,
) -> None:
    def enqueue_slowly(incarnation: str) -> int:
        """Registered, and somebody else has been faster."""
        if incarnation:
            ps.queue("mail").enqueue(b"quick")
        return ps.store.run(tasks.enqueue_tasks(keys, next(operations), [b"slow"], incarnation))

    queue._in_queue(enqueue_slowly)

    assert queue.page().tasks == [b"quick", b"slow"]
    assert list(stored.hash(names.queues)) == [queue.inspect().incarnation.encode()]
    assert queue.delete() == (2, 0)
    assert names.queues not in stored


CREATING: dict[str, Callable[[QueueKeys, Operation, str], Command[Any]]] = {
    "enqueue": lambda keys, operation, i: tasks.enqueue_tasks(keys, operation, [b"a"], i),
    "enqueue_unique": lambda keys, operation, i: tasks.enqueue_unique_task(
        keys, operation, b"a", b"=k", b"8 bytes.", i
    ),
    "join": lambda keys, operation, i: queues.join_queue(keys, operation, "w1", i),
    "pause": queues.pause_queue,
    "configure": lambda keys, operation, i: queues.configure_queue(
        keys, operation, {"max_length": 1}, i
    ),
}


@pytest.mark.parametrize("create", CREATING.values(), ids=list(CREATING))
def test_a_queue_that_exists_is_not_touched_under_another_incarnation(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    keys: QueueKeys,
    stored: Stored,
    create: Callable[[QueueKeys, Operation, str], Command[Any]],
) -> None:
    # Neither a key that is taken nor a queue that is full may hide that the queue is another.
    queue.configure(max_length=1)
    ps.store.run(tasks.enqueue_unique_task(keys, Operation("other", 1), b"a", b"=k", b"8 BYTES."))
    before = stored.everything()

    with pytest.raises(QueueTaken):
        ps.store.run(create(keys, Operation("lane", 1), "another"))

    after = stored.everything()
    del after[keys.memory("lane")]
    assert after == before


@pytest.mark.parametrize("create", CREATING.values(), ids=list(CREATING))
def test_a_late_copy_of_a_refused_creation_creates_nothing(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    keys: QueueKeys,
    stored: Stored,
    create: Callable[[QueueKeys, Operation, str], Command[Any]],
) -> None:
    queue.enqueue(b"a")
    command = create(keys, Operation("lane", 1), "another")
    with pytest.raises(QueueTaken):
        ps.store.run(command)
    queue.delete()

    with pytest.raises(QueueTaken):
        ps.store.run(command)

    assert keys.meta not in stored


@pytest.mark.parametrize("create", CREATING.values(), ids=list(CREATING))
def test_a_late_copy_of_a_creation_does_not_bring_a_deleted_queue_back(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    keys: QueueKeys,
    stored: Stored,
    create: Callable[[QueueKeys, Operation, str], Command[Any]],
) -> None:
    command = create(keys, Operation("lane", 1), "i1")
    ps.store.run(command)
    queue.delete()

    ps.store.run(command)

    assert keys.meta not in stored


def test_settings_change_one_by_one_and_fall_back_to_their_defaults(
    queue: penstock.Queue, keys: QueueKeys, stored: Stored
) -> None:
    queue.configure(max_length=7, max_failures=2)
    state = queue.inspect()
    assert (state.max_length, state.max_failures) == (7, 2)

    queue.configure(max_length=None)
    state = queue.inspect()
    assert (state.max_length, state.max_failures) == (None, 2)

    queue.configure(max_failures=None)
    assert queue.inspect().max_failures == 5
    assert not {b"max_length", b"max_failures"} & set(stored.hash(keys.meta))


def test_settings_of_an_unknown_queue_ask_for_registration(
    ps: penstock.Penstock, keys: QueueKeys, stored: Stored
) -> None:
    with pytest.raises(QueueAbsent):
        ps.store.run(queues.configure_queue(keys, Operation("lane", 1), {"max_length": 1}))

    assert list(stored.everything()) == [keys.memory("lane")]


def test_configuring_creates_the_queue(ps: penstock.Penstock) -> None:
    ps.queue("mail").configure(max_length=1)

    assert ps.queues() == ["mail"]


def test_an_inspection_counts_everything_at_one_instant(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.configure(max_failures=2)
    queue.enqueue_many([b"a", b"b", b"c", b"d"])
    queue.enqueue_unique(b"u")
    first, second, _ = worker.start_tasks("mail", 3)
    first.fail()
    second.finish()
    queue.pause()

    state = queue.inspect()

    assert state.incarnation.encode() == stored.hash(keys.meta)[b"incarnation"]
    assert (state.ready, state.running, state.dead) == (3, 1, 0)
    assert (state.unique, state.failures, state.idle) == (1, 1, 0)
    assert state.is_paused
    assert state.held == {worker.id: 1}
    counters = state.counters
    assert (counters.enqueued, counters.started) == (5, 3)
    assert (counters.failed, counters.finished) == (1, 1)


def test_an_inspection_with_other_members_answers_who_they_are(
    ps: penstock.Penstock, worker: penstock.WorkerSession, keys: QueueKeys
) -> None:
    for guess in ([], ["somebody"], [worker.id, "somebody"]):
        assert ps.store.run(queues.inspect_queue(keys, guess)) == [worker.id]


def test_an_absent_queue_cannot_be_inspected(ps: penstock.Penstock) -> None:
    with pytest.raises(QueueNotFound, match="it is created by the first task"):
        ps.queue("mail").inspect()

    assert ps.inspect() == []


def test_all_queues_are_inspected(ps: penstock.Penstock) -> None:
    ps.queue("a").enqueue(b"task")
    ps.queue("b").enqueue_many([b"task", b"task"])

    assert [(state.name, state.ready) for state in ps.inspect()] == [("a", 1), ("b", 2)]


def test_a_deleted_queue_leaves_nothing_behind(
    ps: penstock.Penstock, queue: penstock.Queue, stored: Stored
) -> None:
    queue.configure(max_length=100)
    queue.enqueue_many([b"a", b"b"])
    queue.enqueue_unique(b"c")

    assert queue.delete() == (3, 0)

    assert ps.queues() == []
    assert not [key for key in stored.everything() if ":memory:" not in key]


def test_deleting_an_absent_queue_removes_nothing(queue: penstock.Queue) -> None:
    assert queue.delete() == (0, 0)


def test_a_delete_takes_the_dead_tasks_too(
    queue: penstock.Queue, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    queue.configure(max_failures=1)
    queue.enqueue_many([b"a", b"b"])
    [process] = worker.start_tasks("mail")
    process.fail()

    assert queue.delete() == (2, 0)

    assert keys.dead not in stored and keys.failures not in stored


def test_a_delete_leaves_running_tasks_and_the_queue_alone(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue_many([b"a", b"b", b"c"])
    [process] = worker.start_tasks("mail")

    assert queue.delete() == (2, 1)

    assert ps.queues() == ["mail"]
    assert queue.inspect().counters.deleted == 2
    process.stop()
    assert queue.page().tasks == [b"a"]


def test_a_delete_after_the_last_finish_removes_the_queue(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    [process] = worker.start_tasks("mail")
    queue.delete()
    process.finish()

    assert queue.delete() == (0, 0)

    assert ps.queues() == []


def test_joining_an_unknown_queue_asks_for_registration(
    ps: penstock.Penstock, keys: QueueKeys, stored: Stored
) -> None:
    with pytest.raises(QueueAbsent):
        ps.store.run(queues.join_queue(keys, Operation("lane", 1), "w1"))

    assert list(stored.everything()) == [keys.memory("lane")]


def test_the_first_worker_creates_the_queue(
    ps: penstock.Penstock, worker: penstock.WorkerSession, keys: QueueKeys, stored: Stored
) -> None:
    assert ps.queues() == ["mail"]
    assert stored[keys.members] == {worker.id.encode()}


def test_a_member_asked_to_join_an_unknown_queue_stays_a_member(
    ps: penstock.Penstock,
    queue: penstock.Queue,
    worker: penstock.WorkerSession,
    keys: QueueKeys,
    stored: Stored,
) -> None:
    queue.delete()

    with pytest.raises(QueueAbsent):
        ps.store.run(queues.join_queue(keys, Operation("lane", 1), worker.id))

    assert stored[keys.members] == {worker.id.encode()}


def test_leaving_a_queue_that_does_not_exist_returns_nothing(
    ps: penstock.Penstock, keys: QueueKeys, operations: Iterator[Operation], stored: Stored
) -> None:
    left = ps.store.run(queues.leave_queue(keys, next(operations), "w1", is_lost=True))

    assert left == (0, 0)
    assert keys.meta not in stored and keys.ready not in stored


def test_namespaces_do_not_see_each_other(
    ps: penstock.Penstock, namespace: str, names: NamespaceKeys
) -> None:
    ps.queue("mail").enqueue(b"a")
    neighbour = type(names)(f"{namespace}2")

    assert ps.store.run(queues.list_queues(neighbour, "0")) == ("0", [])
