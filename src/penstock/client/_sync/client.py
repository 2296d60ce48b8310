# Generated from _async/client.py by tools/generate_sync.py. Edit that file instead.

"""The connection to a store: where everything begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.client._sync.queue import Queue
from penstock.client._sync.recovery import fail_worker
from penstock.client._sync.session import WorkerSession
from penstock.client._sync.store import Store
from penstock.errors import QueueNotFound
from penstock.model.names import check_worker_name
from penstock.store.commands import queues, workers
from penstock.store.keys import NamespaceKeys

if TYPE_CHECKING:
    from types import TracebackType

    from penstock.client.settings import Settings
    from penstock.model.queues import QueueState, Returned
    from penstock.model.workers import WorkerInfo


class Penstock:
    """A client of one store and one namespace."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.keys = NamespaceKeys(settings.namespace)
        self.store = Store(
            settings.address, settings.retry_for_s, settings.timeout_s, settings.dialect
        )

    def queue(self, name: str) -> Queue:
        """The queue of this name. It need not exist; the first task brings it into being."""
        return Queue(self.store, self.keys, name, self.settings.max_payload)

    def queues(self) -> list[str]:
        """The names of all queues, in order.

        Every queue that exists is among them. A name may also be that of a queue which somebody
        began to create and then crashed; `inspect` leaves those out.
        """
        names: set[str] = set()
        cursor = "0"
        while True:
            cursor, page = self.store.run(queues.list_queues(self.keys, cursor))
            names.update(page)
            if cursor == "0":
                return sorted(names)

    def inspect(self) -> list[QueueState]:
        """The state of every queue, each at one instant."""
        states = []
        for name in self.queues():
            try:
                states.append(self.queue(name).inspect())
            except QueueNotFound:
                continue
        return states

    def worker(self, name: str | None = None, **options: Any) -> WorkerSession:
        """A worker that you drive yourself, registered on entering `with`.

        Its id is the name and something random.
        """
        return WorkerSession(self, name, **options)

    def workers(self) -> list[WorkerInfo]:
        """All registered workers, those nearest to the end of their lease first."""
        found: list[WorkerInfo] = []
        while True:
            total, page = self.store.run(workers.list_workers(self.keys, len(found)))
            found += page
            if not page or len(found) >= total:
                return found

    def work_of(self, worker: str) -> list[str]:
        """The queues that a worker serves."""
        command = workers.list_work(self.keys, check_worker_name(worker))
        return self.store.run(command)

    def fail_worker(self, worker: str) -> Returned:
        """Declare a worker dead: its lease ends, and its tasks go back to the front of their
        queues.

        Failing a worker that is not registered does nothing.
        """
        return fail_worker(self.store, self.keys, worker)

    def open(self) -> Penstock:
        """Look at the store, and refuse one that could lose tasks silently."""
        try:
            self.store.open()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Penstock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
