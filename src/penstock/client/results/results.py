"""Waiting for jobs to end: any number of them, on one connection (on a cluster, one for each
queue).

All jobs that one process has sent have one channel, on which Redis tells how each ends. A client
that listens looks at each job once when the channel is open, and again after every reconnect, so it
misses nothing and does not poll. A job that was sent just now has hardly ended by then, so the look
is put off for a moment: often the end comes first, and the look is saved. A job that was made while
the channel was open needs no look. The channel stays open for a while after the last wait, as a
caller that has waited for one job is likely to wait for another.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from penstock.client.results.watch import Watch
from penstock.errors import StoreUnavailable
from penstock.store.script import CLUSTER

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.client.results.ending_channel import Ending
    from penstock.connection.settings import Settings
    from penstock.store.keys import QueueKeys


class Results:
    """Everything that one client waits for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._is_sharded = settings.dialect is not None and (
            settings.dialect.channels == CLUSTER.channels
        )
        self._by_process = {os.getpid(): _Watches()}
        self._is_closed = False

    def watch(self, keys: QueueKeys, id_number: int) -> Future[Ending]:
        """A future of how a job ends; forget it when it is of no interest any more.

        Raises StoreUnavailable once the client is closed.
        """
        mine, place = self._mine(), keys.queue if self._is_sharded else ""
        with mine.lock:
            if self._is_closed:
                raise StoreUnavailable(
                    "the client was closed, so it cannot wait for jobs any more; ask for the "
                    "result with another client"
                )
            watch = mine.by_place.get(place)
            if watch is None or not watch.is_alive:
                watch = mine.by_place[place] = Watch(self._settings, keys, self._is_sharded)
            return watch.add(keys, id_number)

    def read_for(
        self, keys: QueueKeys, id_number: int, now: float, timeout_s: float | None
    ) -> Ending | None:
        """How a job ends, if that is told soon and the calling thread can read it itself."""
        watch = self._find(keys)
        return watch.read_for(keys, id_number, now, timeout_s) if watch is not None else None

    def _find(self, keys: QueueKeys) -> Watch | None:
        """The watch for the jobs of a queue, if there is one."""
        # Single steps, so there is no need for the lock: a watch that is about to be made, or was
        # closed just now, might as well have been a moment later.
        mine = self._by_process.get(os.getpid()) or self._mine()
        return mine.by_place.get(keys.queue if self._is_sharded else "")

    def forget_ending(self, keys: QueueKeys, id_number: int) -> None:
        """To be called before an id is sent that may have been used before."""
        watch = self._find(keys)
        if watch is not None:
            watch.forget_ending(keys, id_number)

    def forget(self, keys: QueueKeys, id_number: int, future: Future[Ending]) -> None:
        """The caller that has this future does not wait any more."""
        watch = self._find(keys)
        if watch is not None:
            watch.forget(keys, id_number, future)

    def close(self) -> None:
        mine = self._mine()
        with mine.lock:
            self._is_closed = True
            watches, mine.by_place = mine.by_place, {}
        for watch in watches.values():
            watch.close()

    def _mine(self) -> _Watches:
        """The watches of this process. After a fork they are new: a child has neither the threads
        of its parent nor a right to its connections, and if another thread held a lock at that
        moment, no thread of the child would release it.
        """
        process = os.getpid()
        mine = self._by_process.get(process)
        if mine is None:
            # In one step, because several threads of the child may come here at once.
            mine = self._by_process.setdefault(process, _Watches())
            for other in set(self._by_process) - {process}:
                for watch in self._by_process.pop(other, _Watches()).by_place.values():
                    watch.let_go()
        return mine


class _Watches:
    """The connections of one process: one, or one for each queue."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.by_place: dict[str, Watch] = {}
