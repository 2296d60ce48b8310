"""Keeps a worker's lease alive from a thread of its own, and recovers the dead peers that each
beat hands it.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING

from penstock.client._sync.recovery import fail_worker
from penstock.connection.store import Store
from penstock.errors import LeaseLost, PenstockError
from penstock.model.workers import lease_clock, with_news
from penstock.store.commands import workers
from penstock.store.keys import NamespaceKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.connection.settings import Settings
    from penstock.model.workers import Lease

log = logging.getLogger("penstock.heartbeat")

_PEERS_PER_BEAT = 10
_LEAVE_S = 5.0


class Heartbeat:
    """Two threads: one only renews, so that neither user code nor a slow recovery can delay it."""

    def __init__(
        self, settings: Settings, worker: str, lease: Lease, lease_ms: int, heartbeat_ms: int
    ) -> None:
        self._settings = settings
        self._keys = NamespaceKeys(settings.namespace)
        self._worker = worker
        self._lease = lease
        self._lease_ms = lease_ms
        self._beat_s = heartbeat_ms / 1000
        # A beat that waits longer than this is better sent anew.
        self._beat_timeout_s = max(self._beat_s, 0.2)
        self._stopping = threading.Event()
        self._dead_peers: SimpleQueue[str | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.on_lost: Callable[[], None] = lambda: None
        """called from the heartbeat's thread when the store says that the lease is lost"""
        self.on_paused: Callable[[bool], None] = lambda is_paused: None
        """called from the heartbeat's thread when the worker is paused or resumed"""
        self.on_renewed: Callable[[float], None] = lambda at: None
        """called from the heartbeat's thread when the lease was renewed, with when that was sent"""
        self.about = "{}"
        """what the worker said about itself when it registered, as JSON"""
        self.news: Callable[[], dict[str, object]] = dict
        """asked from the heartbeat's thread for what has to be added to it, as it is now"""
        self._told: dict[str, object] = {}
        self.is_paused = False
        self.recovered = 0
        """how many peers this worker has recovered"""

    def start(self) -> None:
        for target in (self._renew, self._recover):
            thread = threading.Thread(target=target, name=f"penstock{target.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End both threads and wait for them."""
        self._stopping.set()
        self._dead_peers.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_LEAVE_S)
        self._threads.clear()

    def _renew(self) -> None:
        with self._store(self._beat_timeout_s) as store:
            while not self._stopping.wait(self._beat_s):
                sent_at = lease_clock()
                news = self.news()
                try:
                    peers = store.run(
                        workers.keep_worker_alive(
                            self._keys,
                            self._worker,
                            self._lease_ms,
                            _PEERS_PER_BEAT,
                            "" if news == self._told else with_news(self.about, news),
                        )
                    )
                except LeaseLost:
                    self._lease.lose()
                    self._dead_peers.put(None)
                    self.on_lost()
                    return
                except PenstockError as error:
                    log.warning("heartbeat failed worker=%s error=%s", self._worker, error)
                    continue
                self._lease.renewed(sent_at)
                self.on_renewed(sent_at)
                self._told = news
                if peers.is_paused != self.is_paused:
                    self.is_paused = peers.is_paused
                    self.on_paused(self.is_paused)
                for peer in peers:
                    self._dead_peers.put(peer)

    def _recover(self) -> None:
        with self._store(self._settings.timeout_s) as store:
            while (peer := self._dead_peers.get()) is not None and not self._stopping.is_set():
                try:
                    returned = fail_worker(store, self._keys, peer)
                except PenstockError as error:
                    # The peer stays condemned, and a later heartbeat is handed it again.
                    log.warning("recovery failed worker=%s error=%s", peer, error)
                    continue
                self.recovered += 1
                log.info(
                    "recovered dead worker=%s returned=%d dead=%d by=%s",
                    peer,
                    returned.returned,
                    returned.dead,
                    self._worker,
                )

    @contextmanager
    def _store(self, timeout_s: float) -> Iterator[Store]:
        """A connection of this thread's own. It gives up soon: there is always a next beat."""
        settings = self._settings
        store = Store(settings.address, 0.0, timeout_s, settings.dialect, settings.server)
        try:
            yield store
        finally:
            store.close()
