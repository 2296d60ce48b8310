# Generated from _async/session.py by tools/generate_sync.py. Edit that file instead.

"""A worker that the application drives itself: the operations of the seed diagrams, one to one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.client._sync.recovery import leave_queue
from penstock.client.heartbeat import Heartbeat
from penstock.codec.attempts import pack_error
from penstock.codec.failures import lapse_of
from penstock.connection.transport import run_blocking
from penstock.errors import (
    InvalidArgument,
    LeaseLost,
    NotWorking,
    TooManyProcesses,
    WrongKind,
)
from penstock.model.queues import MAX_HELD, check_payload
from penstock.model.workers import (
    HEARTBEAT_MS,
    LEASE_MS,
    Lease,
    describe_worker,
    lease_clock,
    new_worker_id,
)
from penstock.store.commands import processes, workers
from penstock.store.commands.workers import lease_lost
from penstock.store.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from penstock.client._sync.client import Penstock
    from penstock.model.claims import Claim
    from penstock.model.queues import Side
    from penstock.store.kinds import Kind


class WorkerSession:
    """A registered worker. Its lease is renewed by a thread of its own until it is stopped or
    lost.
    """

    def __init__(
        self,
        client: Penstock,
        name: str | None = None,
        lease_ms: int = LEASE_MS,
        heartbeat_ms: int = HEARTBEAT_MS,
        about: dict[str, Any] | None = None,
    ) -> None:
        _check_lease(lease_ms, heartbeat_ms)
        self._client = client
        self._store = client.store
        self._keys = client.keys
        self._about = about or {}
        self._lease_ms = lease_ms
        self._queues: dict[str, Kind] = {}
        self.id = new_worker_id(name)
        self.lease = Lease(lease_ms)
        settings = replace(client.settings, dialect=client.store.dialect)
        self.heartbeat = Heartbeat(settings, self.id, self.lease, lease_ms, heartbeat_ms)

    def start(self) -> None:
        """Register and begin to renew the lease. Raises PermissionMissing if the user of Redis may
        not do everything that a worker does.
        """
        if self._store.permissions is not None:
            self._store.permissions.check_role("worker")
        about = describe_worker(**self._about)
        sent_at = lease_clock()
        self._store.run_once(
            lambda operation: workers.start_worker(
                self._keys, operation, self.id, self._lease_ms, about
            )
        )
        self.lease.renewed(sent_at)
        self.heartbeat.about = about
        self.heartbeat.start()

    def start_work(self, queue: str) -> None:
        """Begin to serve a queue; needed before tasks of it can be started.

        Raises WrongKind if the queue holds jobs, LeaseLost if the worker was failed, or was never
        started.
        """
        self._start_work(queue, KINDS["tasks"])

    def start_job_work(self, queue: str, types: Sequence[str] | None = None) -> None:
        """Begin to serve a queue of jobs of these types (None: of all).

        Raises WrongKind if the queue holds plain tasks, LeaseLost as above.
        """
        self._start_work(queue, KINDS["jobs"], types)

    def _start_work(self, queue: str, kind: Kind, types: Sequence[str] | None = None) -> None:
        keys = self._keys.queue(queue)  # refuses a bad name before anything is written
        self._store.run(workers.start_work(self._keys, self.id, queue, kind.name))
        try:
            self._client.queue(queue)._in_queue(
                lambda incarnation: self._store.run_once(
                    lambda operation: kind.join(keys, operation, self.id, types, incarnation)
                ),
                joins=True,
            )
        except WrongKind:
            self._stop_work(queue, kind)
            raise
        try:
            # A worker failed between the two steps above is a member that nobody will ever take off
            # the queue.
            command = workers.keep_worker_alive(self._keys, self.id, self._lease_ms)
            self.heartbeat.is_paused = (self._store.run(command)).is_paused
        except LeaseLost:
            self._leave(queue, kind, is_lost=True)
            raise
        self._queues[queue] = kind

    def stop_work(self, queue: str) -> None:
        """Cease to serve a queue. Tasks of it still held go back to the front."""
        self._stop_work(queue, self._queues.get(queue, KINDS["tasks"]))

    def _stop_work(self, queue: str, kind: Kind) -> None:
        self._leave(queue, kind, is_lost=False)
        self._store.run_once(
            lambda operation: workers.stop_work(self._keys, operation, self.id, queue, kind.name)
        )
        self._queues.pop(queue, None)

    def start_task(self, queue: str) -> Process | None:
        """Take the oldest task of a queue, or None if nothing is ready; it never blocks."""
        started = self.start_tasks(queue, 1)
        return started[0] if started else None

    def start_tasks(self, queue: str, limit: int = 1) -> list[Process]:
        """Take up to `limit` tasks of a queue, oldest first.

        Returns an empty list when nothing is ready or the queue is paused; it never blocks. Each
        task stays with this worker until it is finished or stopped, or until the worker's lease
        runs out, after which it returns to the front.

        If the call itself ends without an answer (it was cancelled, or the store is away), tasks
        that it may have started stay with this worker until it stops.

        Raises NotWorking if the worker has not started work on the queue, LeaseLost if it was
        failed since.
        """
        _check_limit(limit, at_least=1)
        claim = self._store.run_once(
            lambda operation: processes.start_tasks(
                self._keys.queue(queue), operation, self.id, limit
            )
        )
        return self._processes(queue, claim)

    def finish_tasks(
        self, queue: str, finished: list[int], limit: int = 0
    ) -> tuple[list[Process], list[int]]:
        """Finish processes by id and start up to `limit` tasks in the same round trip.

        Returns the started ones, and the ids that were refused because this worker no longer held
        them.
        """
        _check_limit(limit, at_least=0)
        each_once = list(dict.fromkeys(finished))
        claim = self._store.run_once(
            lambda operation: processes.finish_tasks(
                self._keys.queue(queue), operation, self.id, each_once, limit=limit
            )
        )
        return self._processes(queue, claim), claim.refused

    def abandon(self, held: Mapping[str, Sequence[int]] | None = None) -> None:
        """Give everything up after the lease was lost, also where nobody knows of this worker.

        `held` are the jobs that it held, by queue: where a peer was first, their records say that
        nobody has reported a death, and are told now that this worker has lived.
        """
        for queue, kind in sorted(self._queues.items()):
            self._leave(queue, kind, is_lost=True, known=(held or {}).get(queue, ()))
        self._client.fail_worker(self.id)

    def stop(self) -> None:
        """Unregister. Everything still held goes back to the front at no cost."""
        run_blocking(self.heartbeat.stop)
        for queue in sorted(self._queues):
            self.stop_work(queue)
        self._client.fail_worker(self.id)

    def __enter__(self) -> WorkerSession:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _leave(self, queue: str, kind: Kind, is_lost: bool, known: Sequence[int] = ()) -> None:
        error = pack_error(lapse_of(has_lived=True)) if is_lost else b""
        keys = self._keys.queue(queue)
        leave_queue(self._store, keys, self.id, kind.name, is_lost, error, known=known)

    def _processes(self, queue: str, claim: Claim[bytes]) -> list[Process]:
        if claim.word == "not_working":
            if queue in self._queues:
                self.lease.lose()
                raise lease_lost(self.id)
            raise NotWorking(
                f"worker {self.id!r} has not started work on queue {queue!r}; call "
                f"start_work({queue!r}) first"
            )
        if claim.word == "too_many":
            raise TooManyProcesses(
                f"worker {self.id!r} holds as many tasks of queue {queue!r} as one worker may; "
                "finish some first"
            )
        return [
            Process(self, queue, claim.first_process + index, task)
            for index, task in enumerate(claim.found)
        ]


class Process:
    """A task in the hands of this worker."""

    __slots__ = ("_session", "id", "queue", "task")

    def __init__(self, session: WorkerSession, queue: str, process: int, task: bytes) -> None:
        self._session = session
        self.queue = queue
        self.id = process
        self.task = task

    @property
    def token(self) -> int:
        """Grows with every start in this queue: what a resource of your own can compare to
        refuse an older holder.
        """
        return self.id

    def finish(self, result: bytes = b"") -> None:
        """Done with it; it is gone from the queue. Raises LeaseLost if this worker no longer
        held it.
        """
        session = self._session
        check_payload("result", result, session._client.settings.max_payload)
        claim = session._store.run_once(
            lambda operation: processes.finish_tasks(
                session._keys.queue(self.queue), operation, session.id, [self.id], [result]
            )
        )
        self._check(claim.refused)

    def stop(self, side: Side = "front") -> None:
        """Give it back at no cost. Raises LeaseLost if this worker no longer held it."""
        session = self._session
        refused = session._store.run_once(
            lambda operation: processes.stop_tasks(
                session._keys.queue(self.queue), operation, session.id, [self.id], side
            )
        )
        self._check(refused)

    def fail(self) -> bool:
        """Give it back because it failed: to the back of the queue, or to the dead list if it
        failed too often.

        Returns True if it is dead now. Raises LeaseLost if this worker no longer held it.
        """
        session = self._session
        failed = session._store.run_once(
            lambda operation: processes.fail_tasks(
                session._keys.queue(self.queue), operation, session.id, [self.id]
            )
        )
        self._check(failed.refused)
        return failed.dead > 0

    def _check(self, refused: list[int]) -> None:
        if refused:
            raise LeaseLost(
                f"worker {self._session.id!r} no longer holds process {self.id} of queue "
                f"{self.queue!r}, "
                "so its task may already be running elsewhere; discard the result"
            )


def _check_lease(lease_ms: int, heartbeat_ms: int) -> None:
    if (
        type(lease_ms) is not int
        or type(heartbeat_ms) is not int
        or not (1 <= heartbeat_ms < lease_ms)
    ):
        raise InvalidArgument(
            f"lease_ms is {lease_ms!r} and heartbeat_ms is {heartbeat_ms!r}; give whole numbers, "
            "with the heartbeat shorter than the lease"
        )


def _check_limit(limit: int, at_least: int) -> None:
    if type(limit) is not int or not at_least <= limit <= MAX_HELD:
        raise InvalidArgument(
            f"limit is {limit!r}; a worker can ask for {at_least} to {MAX_HELD} tasks at once"
        )
