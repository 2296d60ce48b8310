"""A group of real worker processes: one is killed, one is frozen, and the partitions move."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.server.ensemble import Ensemble
from tests.chaos.fleet import WorkerProcess
from tests.chaos.log_consumers import GATE, GROUP, JOURNAL, LOG
from tests.chaos.log_journal import LogJournal, check
from tests.servers import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.servers import RedisServer

pytestmark = [pytest.mark.xdist_group("zookeeper"), pytest.mark.stores("debian")]

PARTITIONS = 4
SESSION_S = 2.0
MARGIN_S = 20.0
"""so that a busy machine is no failure"""


class World:
    """A log, who reads it, and what they did."""

    def __init__(self, url: str, namespace: str, folder: Path, options: list[str]) -> None:
        self.folder = folder
        self.journal = LogJournal(folder / "journal")
        self.gate = folder / "gate"
        self.client = penstock.connect(url, namespace=namespace)
        self.log = self.client.log(LOG, partitions=PARTITIONS)
        self.appended: dict[int, list[str]] = {number: [] for number in range(PARTITIONS)}
        self.workers: list[WorkerProcess] = []
        self._url = url
        self._namespace = namespace
        self._options = options
        self._seen: dict[int, tuple[int, tuple[int, int]]] = {}

    def append(self, body: bytes = b"message") -> None:
        for partition, ids in self.appended.items():
            ids.append(self.log.append(body, partition=partition).id)

    def start(self, name: str) -> WorkerProcess:
        command = [sys.executable, "-m", "penstock", "worker", "run", "tests.chaos.log_consumers"]
        command += ["--url", self._url, "--namespace", self._namespace, "--name", name]
        command += ["-c", "4", "--alone", "--lease-ms", "1500", "--heartbeat-ms", "300"]
        names = {JOURNAL: str(self.folder / "journal"), GATE: str(self.gate)}
        path = self.folder / f"{name}.log"
        worker = WorkerProcess(command + self._options, {**os.environ, **names}, path)
        self.workers.append(worker)
        return worker

    def owners(self) -> list[str]:
        """The name of each partition's owner; on the way, nothing may go back."""
        owners = []
        for partition in range(PARTITIONS):
            readers = self.log.partition_info(partition).readers
            owner = ""
            for reader in readers:
                ms, _, number = reader.offset.partition("-")
                now = reader.epoch, (int(ms), int(number))
                before = self._seen.get(partition, now)
                assert before[0] <= now[0], f"the epoch went back from {before} to {now}"
                assert before[1] <= now[1], f"the offset went back from {before} to {now}"
                self._seen[partition] = now
                owner = reader.owner.partition(".")[0]
            owners.append(owner)
        return owners

    def wait_for_owners(self, **counts: int) -> None:
        """Until each of these workers owns so many partitions, while messages keep coming."""

        def is_so() -> bool:
            self.append()
            owners = self.owners()
            return all(owners.count(name) == count for name, count in counts.items())

        wait_for(is_so, 10.0 + MARGIN_S)

    def is_read(self) -> bool:
        self.owners()
        done = {
            id
            for entry in self.journal.read()
            if entry.what == "end"
            for id in ((entry.batch.partition, id) for id in entry.batch.ids)
        }
        return all((p, id) in done for p, ids in self.appended.items() for id in ids[-1:])


@pytest.fixture
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], str]]:
    started: list[Ensemble] = []

    def start() -> str:
        started.append(Ensemble(tmp_path_factory.mktemp("ensemble")))
        started[-1].start()
        return started[-1].address

    yield start
    for servers in started:
        servers.kill()


@pytest.fixture(params=["zookeeper", "redis"])
def world(
    request: pytest.FixtureRequest,
    server: RedisServer,
    namespace: str,
    tmp_path: Path,
    zookeeper: Callable[[], str],
) -> Iterator[World]:
    options: list[str] = []
    if request.param == "zookeeper":
        options = ["--zookeeper", f"{zookeeper()}?session={SESSION_S}"]
    made = World(server.url, namespace, tmp_path, options)
    yield made
    for worker in made.workers:
        worker.kill()
    made.client.close()


def test_partitions_of_a_killed_and_of_a_frozen_owner_move_and_nothing_is_skipped(
    world: World, record_property: Callable[[str, Any], None]
) -> None:
    world.append()
    ant = world.start("ant")
    world.wait_for_owners(ant=4)
    bee = world.start("bee")
    world.wait_for_owners(ant=2, bee=2)

    # Killed.
    kept = [number for number, name in enumerate(world.owners()) if name == "bee"]
    ant.kill()
    killed_at = time.monotonic()
    world.wait_for_owners(bee=4)
    took_s = time.monotonic() - killed_at
    record_property("chaos", f"partitions of a killed consumer moved after {took_s:.1f} s")
    begun = [entry for entry in world.journal.read() if entry.at > killed_at]
    assert {entry.batch.partition for entry in begun[:20]} <= set(kept), "others waited too"

    # Frozen in mid-batch, for longer than its session.
    cat = world.start("cat")
    world.wait_for_owners(bee=2, cat=2)
    world.append(b"wait")
    pid = bee._process.pid
    wait_for(lambda: _waiting_batches(world, pid) == 2)
    bee.freeze()
    world.gate.touch()
    world.wait_for_owners(cat=4)
    bee.thaw()
    world.wait_for_owners(bee=2, cat=2)
    world.append()
    wait_for(world.is_read)

    for worker in (bee, cat):
        worker.terminate()
    for worker in (bee, cat):
        worker.wait(10.0 + MARGIN_S)
    check(world.journal.read(), world.appended, frozen={pid})
    for partition, ids in world.appended.items():
        [reader] = world.log.partition_info(partition).readers
        assert (reader.name, reader.offset) == (GROUP, ids[-1])


def _waiting_batches(world: World, pid: int) -> int:
    """How many batches of a process have begun and not ended."""
    entries = [entry for entry in world.journal.read() if entry.batch.pid == pid]
    began = {entry.batch for entry in entries if entry.what == "begin"}
    return len(began - {entry.batch for entry in entries if entry.what == "end"})
