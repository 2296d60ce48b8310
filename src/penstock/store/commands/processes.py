"""Tasks in the hands of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.codec.elements import TAG, task_of
from penstock.model.claims import Claim
from penstock.model.processes import Failed, PastFailures
from penstock.model.queues import DEFAULT_MAX_FAILURES, MAX_HELD, Side
from penstock.store.command import Command, Operation, unexpected
from penstock.store.commands.tasks import no_plain_handler
from penstock.store.script import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.keys import QueueKeys

START_TASKS = load("tasks/start_tasks")
FINISH_TASKS = load("tasks/finish_tasks")
STOP_TASKS = load("tasks/stop_tasks")
FAIL_TASKS = load("tasks/fail_tasks")
READ_FAILURES = load("tasks/read_failures")
FIND_PROCESSES = load("tasks/find_processes")

_REFUSALS = frozenset(b"empty apart idle paused not_working too_many".split())


def start_tasks(
    keys: QueueKeys, operation: Operation, worker: str, limit: int, wait: bool = False
) -> Command[Claim[bytes]]:
    """Start up to `limit` tasks; with `wait`, wake the worker when there is work again. Raises
    WrongKind.
    """

    def decode(reply: list[Any]) -> Claim[bytes]:
        return _claim(keys, reply, 0, [])

    return Command(
        START_TASKS,
        (
            keys.memory(operation.lane),
            keys.ready,
            keys.running(worker),
            keys.meta,
            keys.members,
            keys.idle,
            keys.failures,
        ),
        (
            operation.number,
            worker,
            limit,
            int(wait),
            keys.wake,
            MAX_HELD,
            DEFAULT_MAX_FAILURES,
        ),
        decode,
    )


def finish_tasks(
    keys: QueueKeys,
    operation: Operation,
    worker: str,
    processes: Sequence[int],
    results: Sequence[bytes] = (),
    limit: int = 0,
    wait: bool = False,
) -> Command[Claim[bytes]]:
    """Finish processes and start up to `limit` more tasks. `results` is empty or has one entry
    per process. Raises WrongKind.
    """

    def decode(reply: list[Any]) -> Claim[bytes]:
        return _claim(keys, reply, 1, [int(process) for process in reply[0]])

    return Command(
        FINISH_TASKS,
        (
            keys.memory(operation.lane),
            keys.ready,
            keys.running(worker),
            keys.meta,
            keys.members,
            keys.idle,
            keys.failures,
            keys.unique,
            keys.unique_tasks,
        ),
        (
            operation.number,
            worker,
            limit,
            int(wait),
            keys.wake,
            MAX_HELD,
            DEFAULT_MAX_FAILURES,
            keys.done,
            len(processes),
            *processes,
            *results,
        ),
        decode,
    )


def stop_tasks(
    keys: QueueKeys,
    operation: Operation,
    worker: str,
    processes: Sequence[int],
    side: Side = "front",
) -> Command[list[int]]:
    """Give processes back at no cost; the answer lists those not held any more."""

    def decode(reply: list[Any]) -> list[int]:
        if reply[0] == b"ok":
            return [int(process) for process in reply[1:]]
        raise unexpected(STOP_TASKS, reply)

    return Command(
        STOP_TASKS,
        (
            keys.memory(operation.lane),
            keys.ready,
            keys.running(worker),
            keys.meta,
            keys.idle,
            keys.unique,
        ),
        (operation.number, side, keys.work, keys.wake, *sorted(set(processes), reverse=True)),
        decode,
    )


def fail_tasks(
    keys: QueueKeys, operation: Operation, worker: str, processes: Sequence[int]
) -> Command[Failed]:
    """Give processes back because their handler failed."""

    def decode(reply: list[Any]) -> Failed:
        if reply[0] == b"ok":
            return Failed(int(reply[1]), [int(process) for process in reply[2:]])
        raise unexpected(FAIL_TASKS, reply)

    return Command(
        FAIL_TASKS,
        (
            keys.memory(operation.lane),
            keys.ready,
            keys.running(worker),
            keys.meta,
            keys.idle,
            keys.failures,
            keys.dead,
            keys.unique,
            keys.unique_tasks,
        ),
        (operation.number, DEFAULT_MAX_FAILURES, keys.work, keys.wake, *sorted(set(processes))),
        decode,
    )


def read_failures(keys: QueueKeys, worker: str, processes: Sequence[int]) -> Command[PastFailures]:
    """How often tasks that a worker holds have failed before."""

    def decode(reply: list[Any]) -> PastFailures:
        if reply[0] == b"ok":
            return PastFailures(int(reply[1]), [int(count) for count in reply[2:]])
        raise unexpected(READ_FAILURES, reply)

    return Command(
        READ_FAILURES,
        (keys.running(worker), keys.failures, keys.meta),
        (DEFAULT_MAX_FAILURES, *processes),
        decode,
    )


def find_processes(keys: QueueKeys, worker: str, task: bytes) -> Command[list[int]]:
    """The processes of one worker that run a task, oldest first."""

    def decode(reply: list[Any]) -> list[int]:
        if reply[0] == b"ok":
            return sorted(int(process) for process in reply[1:])
        raise unexpected(FIND_PROCESSES, reply)

    return Command(FIND_PROCESSES, (keys.running(worker),), (task,), decode)


def _claim(keys: QueueKeys, reply: list[Any], at: int, refused: list[int]) -> Claim[bytes]:
    word = reply[at]
    if word == b"ok":
        elements: list[bytes] = reply[at + 2 :]
        tasks = [task_of(e) if e.startswith(TAG) else e for e in elements]
        return Claim("ok", tasks, int(reply[at + 1]), refused)
    if word in _REFUSALS:
        return Claim(word.decode(), refused=refused)
    if word == b"jobs":
        raise no_plain_handler(keys)
    raise unexpected(START_TASKS, reply)
