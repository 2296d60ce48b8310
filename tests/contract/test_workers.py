"""Workers: registration, lease, recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InvalidName, LeaseLost, WorkerExists
from penstock.store.commands import queues, workers
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import penstock
    from penstock.store.command import Operation
    from penstock.store.keys import NamespaceKeys, QueueKeys
    from tests.contract.conftest import Ear
    from tests.stored import Stored

MINUTE_MS = 60_000
ENDED_MS = -1


@pytest.fixture
def start(
    ps: penstock.Penstock, names: NamespaceKeys, operations: Iterator[Operation]
) -> Callable[[str, int], None]:
    """Registers a worker without a heartbeat."""

    def start_worker(worker: str, lease_ms: int = MINUTE_MS) -> None:
        ps.store.run(workers.start_worker(names, next(operations), worker, lease_ms, "{}"))

    return start_worker


def score(stored: Stored, key: str, member: bytes) -> float:
    value = stored[key]
    assert isinstance(value, dict)
    return float(value[member])


def test_a_started_worker_has_a_lease_and_says_who_it_is(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    with ps.worker("bee", about={"team": "red"}) as worker:
        [info] = ps.workers()

        assert info.id == worker.id
        assert info.is_alive
        assert info.about["team"] == "red"
        assert list(stored.hash(names.info)) == [worker.id.encode()]
        assert worker.lease.is_valid


def test_a_name_is_used_once(
    ps: penstock.Penstock, names: NamespaceKeys, operations: Iterator[Operation]
) -> None:
    start = workers.start_worker
    ps.store.run(start(names, next(operations), "w1", MINUTE_MS, "{}"))

    with pytest.raises(WorkerExists, match="'w1' is registered already"):
        ps.store.run(start(names, next(operations), "w1", MINUTE_MS, "{}"))

    ps.store.run(workers.fail_worker(names, "w1", MINUTE_MS))
    with pytest.raises(WorkerExists):
        ps.store.run(start(names, next(operations), "w1", MINUTE_MS, "{}"))


def test_a_stopped_worker_leaves_nothing_behind(
    ps: penstock.Penstock, names: NamespaceKeys, keys: QueueKeys, stored: Stored
) -> None:
    with ps.worker("bee") as worker:
        worker.start_work("mail")

    assert ps.workers() == []
    gone = {names.workers, names.condemned, names.info, names.work(worker.id), keys.members}
    assert not gone & set(stored.everything())


def test_a_heartbeat_moves_the_end_of_the_lease(
    ps: penstock.Penstock,
    names: NamespaceKeys,
    stored: Stored,
    start: Callable[[str, int], None],
) -> None:
    start("w1", 1)
    before = score(stored, names.workers, b"w1")

    ps.store.run(workers.keep_worker_alive(names, "w1", MINUTE_MS))

    assert score(stored, names.workers, b"w1") >= before + MINUTE_MS - 1


def test_a_heartbeat_carries_what_has_changed_about_a_worker(
    ps: penstock.Penstock, names: NamespaceKeys, start: Callable[[str], None]
) -> None:
    start("w1")
    about = '{"concurrency": 2, "stuck_slots": %d}'

    seen = []
    for text in (about % 1, "", about % 2, about % 0):
        ps.store.run(workers.keep_worker_alive(names, "w1", MINUTE_MS, about=text))
        [info] = ps.workers()
        seen.append((info.stuck_slots, info.is_stuck))

    assert seen == [(1, False), (1, False), (2, True), (0, False)]


def test_a_heartbeat_of_a_failed_worker_is_refused_and_does_not_revive_it(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored, start: Callable[[str], None]
) -> None:
    start("w1")
    ps.fail_worker("w1")

    with pytest.raises(LeaseLost, match="'w1' no longer holds its lease"):
        ps.store.run(workers.keep_worker_alive(names, "w1", MINUTE_MS, about="{}"))

    assert names.workers not in stored
    assert names.info not in stored


def test_a_heartbeat_hands_out_dead_peers_to_one_worker_only(
    ps: penstock.Penstock,
    names: NamespaceKeys,
    stored: Stored,
    start: Callable[[str, int], None],
) -> None:
    start("w1", MINUTE_MS)
    start("w2", MINUTE_MS)
    start("dead", ENDED_MS)

    mine = ps.store.run(workers.keep_worker_alive(names, "w1", MINUTE_MS, 10))
    yours = ps.store.run(workers.keep_worker_alive(names, "w2", MINUTE_MS, 10))

    assert (mine, yours) == (["dead"], [])
    assert set(stored[names.condemned]) == {b"dead"}
    assert set(stored[names.workers]) == {b"w1", b"w2"}


def test_a_dead_peer_is_handed_to_another_when_its_recoverer_is_late(
    ps: penstock.Penstock, names: NamespaceKeys, start: Callable[[str], None]
) -> None:
    start("w1")
    start("dead")
    ps.store.run(workers.fail_worker(names, "dead", ENDED_MS))

    peers = ps.store.run(workers.keep_worker_alive(names, "w1", MINUTE_MS, 10))
    again = ps.store.run(workers.keep_worker_alive(names, "w1", MINUTE_MS, 10))

    assert (peers, again) == (["dead"], [])


def test_a_heartbeat_takes_on_no_more_dead_peers_than_asked(
    ps: penstock.Penstock, names: NamespaceKeys, start: Callable[[str, int], None]
) -> None:
    start("w1", MINUTE_MS)
    for number in range(3):
        start(f"dead{number}", ENDED_MS)
    start("overdue", MINUTE_MS)
    ps.store.run(workers.fail_worker(names, "overdue", ENDED_MS))

    beats = [ps.store.run(workers.keep_worker_alive(names, "w1", MINUTE_MS, 2)) for _ in range(3)]

    assert [len(peers) for peers in beats] == [2, 2, 0]


def test_a_worker_whose_own_lease_had_run_out_judges_nobody(
    ps: penstock.Penstock, names: NamespaceKeys, start: Callable[[str, int], None]
) -> None:
    start("w1", ENDED_MS)
    start("w2", ENDED_MS)

    peers = ps.store.run(workers.keep_worker_alive(names, "w1", MINUTE_MS, 10))

    assert peers == []
    assert ps.store.run(workers.keep_worker_alive(names, "w2", MINUTE_MS)) == []


def test_an_unregistered_worker_starts_no_work(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    with pytest.raises(LeaseLost):
        ps.store.run(workers.start_work(names, "w1", "mail", "tasks"))

    assert stored.everything() == {}


def test_the_queues_of_a_worker_are_listed(
    ps: penstock.Penstock, worker: penstock.WorkerSession, names: NamespaceKeys, stored: Stored
) -> None:
    worker.start_work("cards")

    assert ps.work_of(worker.id) == ["cards", "mail"]
    assert stored[names.work(worker.id)] == {b"cards\0tasks", b"mail\0tasks"}

    worker.stop_work("cards")
    assert ps.work_of(worker.id) == ["mail"]


@pytest.mark.parametrize("queue", ["", "tab\there", "x" * 256])
def test_a_bad_queue_name_never_reaches_the_workers_list(
    ps: penstock.Penstock, worker: penstock.WorkerSession, queue: str
) -> None:
    with pytest.raises(InvalidName):
        worker.start_work(queue)

    assert ps.work_of(worker.id) == ["mail"]


def test_failing_a_worker_returns_its_tasks_of_every_queue_and_forgets_it(
    ps: penstock.Penstock, worker: penstock.WorkerSession, names: NamespaceKeys, stored: Stored
) -> None:
    for name in ("mail", "cards"):
        ps.queue(name).enqueue_many([b"a", b"b", b"c"])
        worker.start_work(name)
        worker.start_tasks(name, 2)

    assert ps.fail_worker(worker.id) == (4, 0)

    assert ps.queue("mail").page().tasks == [b"a", b"b", b"c"]
    assert ps.queue("cards").page().tasks == [b"a", b"b", b"c"]
    assert ps.queue("mail").inspect().counters.lost == 2
    assert names.info not in stored and names.condemned not in stored


def test_failing_a_worker_twice_does_no_more(
    ps: penstock.Penstock, queue: penstock.Queue, worker: penstock.WorkerSession
) -> None:
    queue.enqueue(b"a")
    worker.start_task("mail")
    ps.fail_worker(worker.id)

    assert ps.fail_worker(worker.id) == (0, 0)

    assert queue.page().tasks == [b"a"]
    assert queue.inspect().counters.lost == 1


def test_failing_an_unknown_worker_does_nothing(
    ps: penstock.Penstock, names: NamespaceKeys, stored: Stored
) -> None:
    assert ps.store.run(workers.fail_worker(names, "nobody", MINUTE_MS)) is None
    assert ps.fail_worker("nobody") == (0, 0)

    assert stored.everything() == {}


def test_a_condemned_worker_stays_on_the_list_until_it_is_forgotten(
    ps: penstock.Penstock, names: NamespaceKeys, start: Callable[[str], None]
) -> None:
    start("w1")
    ps.store.run(workers.fail_worker(names, "w1", MINUTE_MS))
    [condemned] = ps.workers()

    assert ps.store.run(workers.forget_worker(names, "w1")) is True

    assert condemned.id == "w1" and not condemned.is_alive
    assert condemned.lease_left_ms is None
    assert ps.workers() == []


def test_a_living_worker_is_not_forgotten(
    ps: penstock.Penstock, names: NamespaceKeys, start: Callable[[str], None]
) -> None:
    start("w1")

    assert ps.store.run(workers.forget_worker(names, "w1")) is False
    assert ps.store.run(workers.forget_worker(names, "nobody")) is True

    [info] = ps.workers()
    assert info.is_alive


def test_a_listed_worker_says_whether_its_name_is_paused(ps: penstock.Penstock) -> None:
    with ps.worker("bob"), ps.worker("ann"):
        ps.pause_worker("bob")

        assert {info.name: info.is_paused for info in ps.workers()} == {"bob": True, "ann": False}


def test_workers_are_listed_in_pages_the_living_before_the_condemned(
    ps: penstock.Penstock, names: NamespaceKeys, start: Callable[[str, int], None]
) -> None:
    for number in range(3):
        start(f"w{number}", MINUTE_MS + 1_000 * number)
    start("c1", MINUTE_MS)
    start("c2", MINUTE_MS)
    ps.store.run(workers.fail_worker(names, "c1", MINUTE_MS))
    ps.store.run(workers.fail_worker(names, "c2", 2 * MINUTE_MS))

    pages = [ps.store.run(workers.list_workers(names, offset, 2)) for offset in (0, 2, 4, 6)]

    assert [total for total, _ in pages] == [5, 5, 5, 5]
    assert [[info.id for info in page] for _, page in pages] == [
        ["w0", "w1"],
        ["w2", "c1"],
        ["c2"],
        [],
    ]


def test_the_heartbeat_recovers_a_dead_peer(
    ps: penstock.Penstock,
    names: NamespaceKeys,
    queue: penstock.Queue,
    keys: QueueKeys,
    listen: Callable[[str], Ear],
) -> None:
    queue.enqueue_many([b"a", b"b"])
    dead = ps.worker("dead", lease_ms=MINUTE_MS, heartbeat_ms=MINUTE_MS - 1)
    dead.start()
    dead.start_work("mail")
    dead.start_tasks("mail", 2)
    ear = listen(keys.work)
    ps.store.run(workers.keep_worker_alive(names, dead.id, ENDED_MS))

    with ps.worker("bee", heartbeat_ms=20) as worker:
        wait_for(lambda: worker.heartbeat.recovered == 1)

    assert queue.page().tasks == [b"a", b"b"]
    assert ear.hear_the_rest() == [b"2"]
    dead.heartbeat.stop()


def test_a_worker_failed_while_it_joins_is_taken_off_the_queue_again(
    ps: penstock.Penstock,
    names: NamespaceKeys,
    keys: QueueKeys,
    operations: Iterator[Operation],
    stored: Stored,
    start: Callable[[str], None],
) -> None:
    start("w1")
    ps.store.run(queues.register_queue(names, "mail", "i1"))
    ps.store.run(workers.start_work(names, "w1", "mail", "tasks"))
    ps.fail_worker("w1")
    ps.store.run(queues.join_queue(keys, next(operations), "w1", "i1"))

    with pytest.raises(LeaseLost):
        ps.store.run(workers.keep_worker_alive(names, "w1", MINUTE_MS))
    ps.store.run(queues.leave_queue(keys, next(operations), "w1", is_lost=True))

    assert keys.members not in stored


@pytest.mark.parametrize("worker", ["", "a b", "a:b", "ä", "x" * 256])
def test_a_bad_worker_name_is_refused(ps: penstock.Penstock, worker: str) -> None:
    with pytest.raises(InvalidName, match="letters, digits"):
        ps.fail_worker(worker)
