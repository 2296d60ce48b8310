"""Queues as a whole, and who works on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.codec.layouts import unknown_layout
from penstock.errors import QueueNotFound
from penstock.model.numbers import whole_number
from penstock.model.queues import (
    DEFAULT_MAX_FAILURES,
    Counters,
    Deleted,
    QueueState,
    Returned,
)
from penstock.store.command import Command, Operation, check_queue, refuse_log, unexpected
from penstock.store.commands.tasks import no_plain_handler
from penstock.store.script import Script, load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.model.queues import KindName, QueueKind
    from penstock.store.keys import NamespaceKeys, QueueKeys

JOIN_QUEUE = load("tasks/join_queue")
LEAVE_QUEUE = load("tasks/leave_queue")
PASS_WORK = load("tasks/pass_work")
PAUSE_QUEUE = load("queues/pause_queue")
RESUME_QUEUE = load("queues/resume_queue")
CONFIGURE_QUEUE = load("queues/configure_queue")
DELETE_QUEUE = load("tasks/delete_queue")
INSPECT_QUEUE = load("queues/inspect_queue")
REGISTER_QUEUE = load("queues/register_queue")
UNREGISTER_QUEUE = load("queues/unregister_queue")
LIST_QUEUES = load("queues/list_queues")


def join_queue(
    keys: QueueKeys, operation: Operation, worker: str, incarnation: str = ""
) -> Command[None]:
    """Let a worker start tasks. Raises WrongKind, QueueAbsent or QueueTaken."""
    is_done = _done_to_queue(keys, JOIN_QUEUE)

    def decode(reply: list[Any]) -> None:
        if reply[0] == b"jobs":
            refuse_log(keys.queue, reply[1])
            raise no_plain_handler(keys)
        is_done(reply)

    return Command(
        JOIN_QUEUE,
        (keys.memory(operation.lane), keys.meta, keys.members),
        (operation.number, worker, incarnation),
        decode,
    )


def leave_queue(
    keys: QueueKeys, operation: Operation, worker: str, is_lost: bool
) -> Command[Returned | KindName]:
    """Take a worker off the queue and give what it holds back to the front; the answer is `jobs`
    if the queue holds those, which `leave_jobs` is for.

    `is_lost` says that the worker died, which counts as a failed delivery.
    """

    def decode(reply: list[Any]) -> Returned | KindName:
        if reply[0] == b"ok":
            return Returned(int(reply[1]), int(reply[2]))
        if reply[0] == b"jobs":
            return "jobs"
        raise unexpected(LEAVE_QUEUE, reply)

    return Command(
        LEAVE_QUEUE,
        (
            keys.memory(operation.lane),
            keys.ready,
            keys.running(worker),
            keys.meta,
            keys.members,
            keys.idle,
            keys.failures,
            keys.dead,
            keys.unique,
            keys.unique_tasks,
            keys.types,
        ),
        (
            operation.number,
            worker,
            int(is_lost),
            DEFAULT_MAX_FAILURES,
            keys.work,
            keys.wake,
        ),
        decode,
    )


def pass_work(keys: QueueKeys, worker: str) -> Command[None]:
    """Stop waiting for a wake-up, and pass one on that may be on its way."""
    return Command(
        PASS_WORK, (keys.ready, keys.meta, keys.idle), (worker, keys.wake), _ok(PASS_WORK)
    )


def pause_queue(keys: QueueKeys, operation: Operation, incarnation: str = "") -> Command[None]:
    """Hand out nothing more. Raises QueueAbsent or QueueTaken."""
    return Command(
        PAUSE_QUEUE,
        (keys.memory(operation.lane), keys.meta),
        (operation.number, incarnation),
        _done_to_queue(keys, PAUSE_QUEUE),
    )


def resume_queue(keys: QueueKeys) -> Command[bool]:
    """Hand out tasks again; False if there is no such queue."""

    def decode(reply: list[Any]) -> bool:
        if reply[0] in (b"ok", b"no_queue"):
            return bool(reply[0] == b"ok")
        _check_layout(reply)
        raise unexpected(RESUME_QUEUE, reply)

    return Command(RESUME_QUEUE, (keys.ready, keys.meta, keys.idle), (keys.work, keys.wake), decode)


def configure_queue(
    keys: QueueKeys,
    operation: Operation,
    settings: Mapping[str, int | None],
    incarnation: str = "",
) -> Command[None]:
    """Change settings (None: the default). Raises QueueAbsent or QueueTaken."""
    pairs = (
        part
        for name, value in settings.items()
        for part in (name, "" if value is None else str(value))
    )
    return Command(
        CONFIGURE_QUEUE,
        (keys.memory(operation.lane), keys.meta),
        (operation.number, incarnation, *pairs),
        _done_to_queue(keys, CONFIGURE_QUEUE),
    )


def delete_queue(keys: QueueKeys, operation: Operation) -> Command[tuple[Deleted, str] | None]:
    """Delete a queue; the answer has the incarnation to unregister, empty while tasks are
    running. None if the queue holds jobs, which `delete_jobs` is for.
    """

    def decode(reply: list[Any]) -> tuple[Deleted, str] | None:
        if reply[0] == b"jobs":
            refuse_log(keys.queue, reply[1])
            return None
        if reply[0] == b"ok":
            return Deleted(int(reply[1]), int(reply[2])), reply[3].decode()
        if reply[0] == b"no_queue":
            return Deleted(0, 0), ""
        raise unexpected(DELETE_QUEUE, reply)

    return Command(
        DELETE_QUEUE,
        (
            keys.memory(operation.lane),
            keys.ready,
            keys.meta,
            keys.failures,
            keys.dead,
            keys.unique,
            keys.unique_tasks,
            keys.moving,
            keys.batches,
            keys.batch_times,
            keys.keeps,
        ),
        (operation.number, keys.delete),
        decode,
    )


def inspect_queue(keys: QueueKeys, members: Sequence[str]) -> Command[QueueState | list[str]]:
    """Read a queue at one instant. If `members` are not its members, the answer is who they are
    now.
    """

    def decode(reply: list[Any]) -> QueueState | list[str]:
        match reply[0]:
            case b"ok":
                return _queue_state(keys.queue, members, reply)
            case b"changed":
                return [worker.decode() for worker in reply[1:]]
            case b"no_queue":
                raise QueueNotFound(
                    f"there is no queue {keys.queue!r} in namespace {keys.namespace!r}; "
                    "it is created by the first task or the first worker"
                )
        raise unexpected(INSPECT_QUEUE, reply)

    return Command(
        INSPECT_QUEUE,
        (
            keys.meta,
            keys.ready,
            keys.dead,
            keys.members,
            keys.idle,
            keys.unique,
            keys.failures,
            *map(keys.running, members),
        ),
        tuple(members),
        decode,
    )


def register_queue(
    keys: NamespaceKeys, queue: str, incarnation: str, joins: bool = False
) -> Command[None]:
    """Put an attempt to create a queue on the list of queues, before it is made. With `joins`, on a
    full store too: the queue is made for a worker, which brings nothing else.
    """
    return Command(
        REGISTER_QUEUE, (keys.queues,), (queue, incarnation, int(joins)), _ok(REGISTER_QUEUE)
    )


def unregister_queue(keys: NamespaceKeys, incarnation: str) -> Command[None]:
    """Take an incarnation off the list of queues: that of a deleted queue, or one that was not
    needed.
    """
    return Command(UNREGISTER_QUEUE, (keys.queues,), (incarnation,), _ok(UNREGISTER_QUEUE))


def list_queues(
    keys: NamespaceKeys, cursor: str, limit: int = 1000
) -> Command[tuple[str, list[str]]]:
    """A page of queue names and the cursor of the next page, '0' after the last. A name may come
    more than once.
    """

    def decode(reply: list[Any]) -> tuple[str, list[str]]:
        if reply[0] == b"ok":
            return reply[1].decode(), [name.decode() for name in reply[2:]]
        raise unexpected(LIST_QUEUES, reply)

    return Command(LIST_QUEUES, (keys.queues,), (cursor, limit), decode)


def _ok(script: Script) -> Callable[[list[Any]], None]:
    def decode(reply: list[Any]) -> None:
        if reply[0] != b"ok":
            raise unexpected(script, reply)

    return decode


def _done_to_queue(keys: QueueKeys, script: Script) -> Callable[[list[Any]], None]:
    is_ok = _ok(script)

    def decode(reply: list[Any]) -> None:
        check_queue(reply)
        _check_layout(reply)
        refuse_log(keys.queue, reply[0])
        is_ok(reply)

    return decode


def _check_layout(reply: list[Any]) -> None:
    if reply[0] == b"other_layout":
        raise unknown_layout(reply[1])


def _queue_state(queue: str, members: Sequence[str], reply: list[Any]) -> QueueState:
    _, pairs, ready, dead, idle, unique, failures, *held = reply
    meta = {pairs[i].decode(): pairs[i + 1] for i in range(0, len(pairs), 2)}
    # What is no number counts as if it were not there; `penstock fsck` names it.
    found = {name: whole_number(value) for name, value in meta.items()}
    numbers = {name: number for name, number in found.items() if number is not None}
    counters = {name: numbers.get(name, 0) for name in Counters.__dataclass_fields__}
    if meta.get("kind") == b"jobs":
        counters["enqueued"] = numbers.get("sent", 0)
    return QueueState(
        name=queue,
        incarnation=meta.get("incarnation", b"").decode(),
        ready=ready,
        dead=dead,
        is_paused="paused" in meta,
        max_length=numbers.get("max_length"),
        max_failures=numbers.get("max_failures", DEFAULT_MAX_FAILURES),
        idle=idle,
        unique=unique,
        failures=failures,
        held=dict(zip(members, held, strict=True)),
        counters=Counters(**counters),
        kind=kind_of(meta),
    )


def kind_of(meta: Mapping[str, bytes]) -> QueueKind:
    """What a queue with these settings and counters holds, as scripts decide it."""
    if meta.get("kind") == b"jobs":
        return "jobs"
    if meta.get("kind") == b"logs":
        return "logs"
    return "tasks" if "enqueued" in meta else "undecided"
