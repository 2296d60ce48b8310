"""Workers: their registration, lease and recovery."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.errors import LeaseLost, WorkerExists
from penstock.model.workers import Beat, Served, WorkerInfo, worker_name
from penstock.store.command import Command, Operation, unexpected
from penstock.store.script import load

if TYPE_CHECKING:
    from penstock.model.queues import KindName
    from penstock.store.keys import NamespaceKeys

START_WORKER = load("workers/start_worker")
KEEP_WORKER_ALIVE = load("workers/keep_worker_alive")
PAUSE_WORKER = load("workers/pause_worker")
LIST_PAUSED_WORKERS = load("workers/list_paused_workers")
START_WORK = load("workers/start_work")
STOP_WORK = load("workers/stop_work")
FAIL_WORKER = load("workers/fail_worker")
FORGET_WORKER = load("workers/forget_worker")
LIST_WORKERS = load("workers/list_workers")
LIST_WORK = load("workers/list_work")


def start_worker(
    keys: NamespaceKeys, operation: Operation, worker: str, lease_ms: int, about: str
) -> Command[None]:
    """Register a worker under an id that was never used before."""

    def decode(reply: list[Any]) -> None:
        if reply[0] == b"exists":
            raise WorkerExists(
                f"a worker with id {worker!r} is registered already; let penstock make the id"
            )
        if reply[0] != b"ok":
            raise unexpected(START_WORKER, reply)

    return Command(
        START_WORKER,
        (keys.memory(operation.lane), keys.workers, keys.condemned, keys.info),
        (operation.number, worker, lease_ms, about),
        decode,
    )


def keep_worker_alive(
    keys: NamespaceKeys, worker: str, lease_ms: int, sweep: int = 0, about: str = ""
) -> Command[Beat]:
    """Renew a lease; the answer lists up to `sweep` dead peers that are now the caller's to
    recover. `about` is what the worker says about itself, if that has changed.
    """

    def decode(reply: list[Any]) -> Beat:
        if reply[0] in (b"ok", b"paused"):
            return Beat((peer.decode() for peer in reply[1:]), reply[0] == b"paused")
        if reply[0] == b"lease_lost":
            raise lease_lost(worker)
        raise unexpected(KEEP_WORKER_ALIVE, reply)

    return Command(
        KEEP_WORKER_ALIVE,
        (keys.workers, keys.condemned, keys.paused_workers, keys.info),
        (worker, lease_ms, sweep, worker_name(worker), about),
        decode,
    )


def pause_worker(keys: NamespaceKeys, name: str, is_paused: bool) -> Command[None]:
    """Let workers of this name start nothing, or go on."""

    def decode(reply: list[Any]) -> None:
        if reply[0] != b"ok":
            raise unexpected(PAUSE_WORKER, reply)

    return Command(PAUSE_WORKER, (keys.paused_workers,), (name, int(is_paused)), decode)


def list_paused_workers(keys: NamespaceKeys) -> Command[list[str]]:
    """The names of workers that are to start nothing."""

    def decode(reply: list[Any]) -> list[str]:
        if reply[0] == b"ok":
            return sorted(name.decode() for name in reply[1:])
        raise unexpected(LIST_PAUSED_WORKERS, reply)

    return Command(LIST_PAUSED_WORKERS, (keys.paused_workers,), (), decode)


def start_work(keys: NamespaceKeys, worker: str, queue: str, kind: KindName) -> Command[None]:
    """Put a queue on the worker's list, before it joins the queue."""

    def decode(reply: list[Any]) -> None:
        if reply[0] == b"lease_lost":
            raise lease_lost(worker)
        if reply[0] != b"ok":
            raise unexpected(START_WORK, reply)

    return Command(
        START_WORK, (keys.workers, keys.work(worker)), (worker, f"{queue}\0{kind}"), decode
    )


def stop_work(
    keys: NamespaceKeys, operation: Operation, worker: str, queue: str, kind: KindName
) -> Command[None]:
    """Take a queue off the worker's list, after it has left the queue."""

    def decode(reply: list[Any]) -> None:
        if reply[0] != b"ok":
            raise unexpected(STOP_WORK, reply)

    return Command(
        STOP_WORK,
        (keys.memory(operation.lane), keys.work(worker)),
        (operation.number, f"{queue}\0{kind}"),
        decode,
    )


def fail_worker(keys: NamespaceKeys, worker: str, retry_ms: int) -> Command[list[Served] | None]:
    """End a lease for good; the answer lists the queues to leave, or is None if there is no such
    worker.
    """

    def decode(reply: list[Any]) -> list[Served] | None:
        if reply[0] == b"ok":
            return sorted(map(open_served, reply[1:]))
        if reply[0] == b"absent":
            return None
        raise unexpected(FAIL_WORKER, reply)

    return Command(
        FAIL_WORKER,
        (keys.workers, keys.condemned, keys.work(worker)),
        (worker, retry_ms),
        decode,
    )


def forget_worker(keys: NamespaceKeys, worker: str) -> Command[bool]:
    """Remove the last traces of a failed worker; False if it is still registered."""

    def decode(reply: list[Any]) -> bool:
        if reply[0] in (b"ok", b"alive"):
            return bool(reply[0] == b"ok")
        raise unexpected(FORGET_WORKER, reply)

    return Command(
        FORGET_WORKER,
        (keys.workers, keys.condemned, keys.work(worker), keys.info),
        (worker,),
        decode,
    )


def list_workers(
    keys: NamespaceKeys, offset: int = 0, limit: int = 1000
) -> Command[tuple[int, list[WorkerInfo]]]:
    """A page of workers, and how many there are in all."""

    def decode(reply: list[Any]) -> tuple[int, list[WorkerInfo]]:
        if reply[0] != b"ok":
            raise unexpected(LIST_WORKERS, reply)
        rows = [tuple(reply[at : at + 3]) for at in range(4, len(reply), 3)]
        return int(reply[1]) + int(reply[2]), [_worker_info(*row) for row in rows]

    return Command(LIST_WORKERS, (keys.workers, keys.condemned, keys.info), (offset, limit), decode)


def list_served(keys: NamespaceKeys, worker: str) -> Command[list[Served]]:
    """The queues that a worker serves, and what they held when it joined them."""

    def decode(reply: list[Any]) -> list[Served]:
        if reply[0] == b"ok":
            return sorted(map(open_served, reply[1:]))
        raise unexpected(LIST_WORK, reply)

    return Command(LIST_WORK, (keys.work(worker),), (), decode)


def list_work(keys: NamespaceKeys, worker: str) -> Command[list[str]]:
    """The names of the queues that a worker serves."""
    served = list_served(keys, worker)

    def decode(reply: list[Any]) -> list[str]:
        return sorted({queue for queue, _ in served.decode(reply)})

    return Command(served.script, served.keys, served.args, decode)


def open_served(entry: bytes) -> Served:
    """An entry of the list of a worker: the queue, a zero byte (which no name has) and the kind."""
    queue, _, kind = entry.decode().partition("\0")
    return Served(queue, kind)


def lease_lost(worker: str) -> LeaseLost:
    return LeaseLost(
        f"worker {worker!r} no longer holds its lease, so its tasks may already be running "
        "elsewhere; "
        "start the worker again under a new name"
    )


def _worker_info(name: bytes, lease_left_ms: bytes, about: bytes) -> WorkerInfo:
    left = int(lease_left_ms) if lease_left_ms else None
    return WorkerInfo(name.decode(), left, json.loads(about) if about else {})
