"""Real workers that read a log, while they or servers of an ensemble are cut off."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

import penstock
from penstock.client.connect import find_settings
from penstock.worker.handlers import collect_handlers
from penstock.worker.sources.logs import LogSource
from tests.coordination.forwarder import Forwarder
from tests.proxy import Fault, FaultProxy
from tests.running_worker import RunningWorker, stopped_in_the_end
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.server.ensemble import Ensemble
    from tests.servers import RedisServer

pytestmark = [
    pytest.mark.xdist_group("zookeeper"),
    pytest.mark.timeout(240),
]

SESSION_S = 2.0
LONG_S = 60.0
"""so that a busy machine is no failure"""


class Read(NamedTuple):
    """A message that a consumer was given."""

    worker: str
    partition: int
    body: bytes
    epoch: int


class World:
    """A log with two partitions, and all that its readers were given, in the order of time."""

    def __init__(self, log: penstock.Log) -> None:
        self.log = log
        self.read: list[Read] = []
        self._appended = 0

    def worker(self, url: str, namespace: str, zookeeper: str, mark: str) -> RunningWorker:
        """All workers have the same name, which must not matter."""

        @penstock.consumer("clicks", "g", commit=0.1)
        def consumer(message: penstock.Message, context: penstock.Context) -> None:
            self.read.append(Read(mark, message.partition, message.body, context.token))

        settings = find_settings(url, namespace, zookeeper=f"{zookeeper}?session={SESSION_S}")
        return RunningWorker(settings, collect_handlers([consumer]), name="crew")

    def append(self) -> list[tuple[int, bytes]]:
        """One message to each partition."""
        bodies = [(partition, b"%d" % self._appended) for partition in (0, 1)]
        for partition, body in bodies:
            self.log.append(body, partition=partition)
        self._appended += 1
        return bodies

    def wait_until_read(self) -> None:
        """Until what is appended now is read."""
        bodies = self.append()
        wait_for(lambda: set(bodies) <= {(r.partition, r.body) for r in self.read}, LONG_S)

    def readers(self) -> dict[int, str]:
        """Who was given the newest message of each partition."""
        return {read.partition: read.worker for read in self.read}

    def wait_for_readers(self, *marks: str) -> None:
        def is_so() -> bool:
            self.wait_until_read()
            return sorted(self.readers().values()) == sorted(marks)

        wait_for(is_so, LONG_S)

    def check(self) -> None:
        """Nothing was skipped or overtaken, and nothing was read under an old epoch."""
        for partition in (0, 1):
            reached = newest = 0
            for read in self.read:
                if read.partition == partition:
                    number = int(read.body)
                    assert number <= reached, f"skipped before {read}"
                    assert read.epoch >= newest, f"after epoch {newest}: {read}"
                    reached, newest = max(reached, number + 1), read.epoch
            assert reached == self._appended


@pytest.fixture
def world(ps: penstock.Penstock) -> World:
    made = World(ps.log("clicks", partitions=2))
    made.append()
    return made


@contextmanager
def forwarder(port: int) -> Iterator[tuple[int, asyncio.AbstractEventLoop, Forwarder]]:
    """In a thread of its own, as what is tested runs in threads."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    way = Forwarder(port)
    asyncio.run_coroutine_threadsafe(way.__aenter__(), loop).result(10)
    try:
        yield way.port, loop, way
    finally:
        asyncio.run_coroutine_threadsafe(way.__aexit__(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def may_begin(worker: RunningWorker) -> bool:
    """Whether it may begin a message of a partition that it owns."""
    assert worker.worker is not None
    sources = [pump.source for pump in worker.worker.serving.pumps]
    return any(source.lease.is_valid for source in sources if isinstance(source, LogSource))


def test_a_worker_reads_only_while_it_reaches_both_zookeeper_and_the_store(
    world: World, ensemble: Ensemble, server: RedisServer, namespace: str, tmp_path: Path
) -> None:
    port = int(ensemble.address.split(",")[0].rpartition(":")[2])
    is_cut_off = threading.Event()
    with (
        forwarder(port) as (way_port, loop, way),
        FaultProxy(tmp_path, server.socket) as proxy,
        stopped_in_the_end() as workers,
    ):
        proxy.plan(Fault.LOSE_REQUEST, 10**9, lambda request: is_cut_off.is_set())
        ant = world.worker(f"unix://{proxy.path}", namespace, f"127.0.0.1:{way_port}", "ant")
        bee = world.worker(server.url, namespace, ensemble.address, "bee")
        for worker in (ant, bee):
            workers.append(worker)
            worker.start()
        world.wait_for_readers("ant", "bee")

        # The store, and no ZooKeeper: it stops by its own clock, and another reads on.
        loop.call_soon_threadsafe(way.cut)
        wait_for(lambda: not may_begin(ant), LONG_S)
        before = [read for read in world.read if read.worker == "ant"]
        world.wait_for_readers("bee", "bee")
        assert [read for read in world.read if read.worker == "ant"] == before
        loop.call_soon_threadsafe(way.mend)
        world.wait_for_readers("ant", "bee")

        # ZooKeeper, and no store.
        mine = next(p for p, worker in world.readers().items() if worker == "ant")
        is_cut_off.set()
        before = [read for read in world.read if read.worker == "ant"]
        bodies = world.append()
        wait_for(lambda: bodies[1 - mine] in {(r.partition, r.body) for r in world.read}, LONG_S)
        read_by_ant = [read for read in world.read if read.worker == "ant"]
        # What it had asked for before the cut may still have come.
        assert [read.body for read in read_by_ant[len(before) :]] in ([], [bodies[mine][1]])
        is_cut_off.clear()
        world.wait_until_read()
    world.check()


def test_workers_hold_while_most_servers_are_away_and_go_on_also_with_servers_that_were_wiped(
    world: World, ensemble: Ensemble, server: RedisServer, namespace: str
) -> None:
    """A session lasts 2 s here and 10 s by default, so twelve seconds are as a minute is there."""
    with stopped_in_the_end() as workers:
        worker = world.worker(server.url, namespace, ensemble.address, "ant")
        workers.append(worker)
        worker.start()
        world.wait_until_read()

        first = ensemble.leader
        assert first is not None
        ensemble.kill(first)
        world.wait_until_read()

        second = next(iter(ensemble.modes))
        ensemble.kill(second)
        # The last one goes on for a moment, as it does not know yet that it is alone.
        wait_for(lambda: not any(ensemble.modes.values()), LONG_S)
        _check_that_it_holds(world, worker)
        ensemble.start(second)
        world.wait_until_read()

        last_id = [message.id for message in world.log.read(partition=0)][-1]
        wait_for(lambda: _offset(world) == last_id, LONG_S)
        ensemble.kill()
        killed_at = time.monotonic()
        _check_that_it_holds(world, worker)
        wait_for(lambda: time.monotonic() > killed_at + 6 * SESSION_S, LONG_S)
        assert not may_begin(worker)
        for data in ensemble.data_folders:
            shutil.rmtree(data / "version-2")
        before = len(world.read)
        ensemble.start()
        world.wait_until_read()

        # What was committed came from the store again: nothing restarts at the beginning.
        after = [read for read in world.read[before:] if read.partition == 0]
        assert int(after[0].body) > 0
        assert after[0].epoch > world.read[0].epoch
    world.check()


def _offset(world: World) -> str:
    [reader] = world.log.partition_info(0).readers
    return reader.offset


def _check_that_it_holds(world: World, worker: RunningWorker) -> None:
    wait_for(lambda: not may_begin(worker), LONG_S)
    before = len(world.read)
    for _ in range(20):
        world.append()
    # Long enough for a worker that does not hold: those before took a few milliseconds each.
    appended_at = time.monotonic()
    wait_for(lambda: time.monotonic() > appended_at + SESSION_S / 2, LONG_S)
    assert len(world.read) == before
