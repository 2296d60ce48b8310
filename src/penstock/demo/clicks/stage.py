"""Where the act about a log plays: the log, its group, the workers, the ensemble of ZooKeeper."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.client.connect import connect
from penstock.demo.clicks import consumers
from penstock.demo.clicks.producers import Producer
from penstock.demo.clicks.records import Ledger
from penstock.demo.patience import look_until
from penstock.demo.processes import WorkerProcess
from penstock.errors import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.demo.clicks.view import View
    from penstock.server.ensemble import Ensemble

PARTITIONS = 6
WORKERS = 3

_LOOK_EVERY_S = 0.05
_MODES_EVERY_S = 0.25


class Share(NamedTuple):
    """A partition, as its group has it."""

    partition: int
    owner: int | None
    """the number of the worker"""
    epoch: int
    offset: str
    lag: int
    """messages that are not committed yet"""


@dataclass(frozen=True, slots=True)
class Scene:
    """What there is to see at one instant."""

    appended: int
    handled: int
    shares: list[Share]
    workers: list[WorkerProcess]
    modes: dict[int, str]
    """server of ZooKeeper -> leader, follower, killed, or empty while they choose a leader"""


class Stage:
    """The group as it was a moment ago, and the processes that change it."""

    def __init__(
        self, url: str, ensemble: Ensemble, session_s: float, folder: Path, view: View
    ) -> None:
        self.session_s = session_s
        self.view = view
        self.ensemble = ensemble
        self.ledger = Ledger(folder / "records")
        self.client = connect(url, namespace=consumers.NAMESPACE)
        self.log = self.client.log(consumers.LOG, partitions=PARTITIONS)
        # No look before there is something to see.
        self.log.configure()
        self.shares: list[Share] = []
        self.producers = [Producer(url, range(n, PARTITIONS, 2)) for n in range(2)]
        self.workers = [self._worker(number, url, folder) for number in range(1, WORKERS + 1)]
        self._environment = {
            consumers.RECORDS: str(folder / "records"),
            consumers.STORE: url,
            "PENSTOCK_ZOOKEEPER": f"{ensemble.address}?session={session_s:g}",
        }
        self._modes: dict[int, str] = {}
        self._asked_at = 0.0

    def _worker(self, number: int, url: str, folder: Path) -> WorkerProcess:
        lease_ms = int(self.session_s * 1000)
        about = consumers.__name__, consumers.LOG, PARTITIONS, url, consumers.NAMESPACE
        return WorkerProcess(number, *about, lease_ms, folder)

    def start_workers(self) -> None:
        """Start them all, and do not wait until they work."""
        for worker in self.workers:
            worker.start({**self._environment, consumers.WORKER: str(worker.number)})

    def stop_workers(self) -> None:
        for worker in self.workers:
            worker.ask_to_stop()
        for worker in self.workers:
            worker.wait()
        self.look()

    def stop_producers(self) -> None:
        for producer in self.producers:
            producer.stop()

    def close(self) -> None:
        """End all workers, also frozen ones, and the producers."""
        for worker in self.workers:
            worker.end()
        self.stop_producers()
        self.client.close()
        self.ledger.close()

    @property
    def appended(self) -> dict[int, int]:
        """Partition -> messages whose append was acknowledged."""
        return {p: count for one in self.producers for p, count in one.appended.items()}

    @property
    def handled(self) -> int:
        return sum(self.ledger.handled.values())

    def owned(self, worker: WorkerProcess) -> list[int]:
        return [share.partition for share in self.shares if share.owner == worker.number]

    @property
    def is_shared_out(self) -> bool:
        """All partitions have owners that live, and as many each as balance allows."""
        alive = [w for w in self.workers if w.state not in ("killed", "frozen")]
        counts = [len(self.owned(worker)) for worker in alive]
        return sum(counts) == PARTITIONS and max(counts) - min(counts) <= 1

    def until(self, condition: Callable[[], bool]) -> None:
        """Go on looking until something is so. Raises DemoFailed if nothing moves any more."""
        look_until(
            condition,
            self.look,
            _LOOK_EVERY_S,
            lambda: f"{self.handled:,} of {sum(self.appended.values()):,} messages handled",
        )

    def linger(self, seconds: float) -> None:
        """Give people time to read, while the work goes on."""
        end_at = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end_at)

    def look(self) -> list[Share]:
        for worker in self.workers:
            if words := worker.last_words:
                raise DemoFailed(f"{worker} ended by itself; its log ends with:\n{words}")
        for producer in self.producers:
            if producer.error is not None:
                raise producer.error
        self.ledger.read_on()
        lags = {lag.partition: lag.messages for lag in self.log.group(consumers.GROUP).lag()}
        self.shares = [self._share(number, lags) for number in range(PARTITIONS)]
        self.view.show(
            Scene(
                appended=sum(self.appended.values()),
                handled=self.handled,
                shares=self.shares,
                workers=self.workers,
                modes=self._look_at_ensemble(),
            )
        )
        return self.shares

    def _share(self, number: int, lags: dict[int, int]) -> Share:
        readers = self.log.partition_info(number).readers
        for reader in readers:
            owners = [w.number for w in self.workers if w.is_called(reader.owner)]
            owner = owners[0] if owners else None
            return Share(number, owner, reader.epoch, reader.offset, lags.get(number, 0))
        return Share(number, None, 0, "", self.appended[number])

    def _look_at_ensemble(self) -> dict[int, str]:
        if time.monotonic() - self._asked_at > _MODES_EVERY_S:
            known = dict.fromkeys(self._modes, "killed")
            self._modes = {**known, **self.ensemble.modes}
            self._asked_at = time.monotonic()
        return self._modes
