"""Tasks on their way in, and those that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.codec.elements import plain_element, task_of
from penstock.errors import QueueFull, WrongKind
from penstock.model.queues import Enqueued, Page
from penstock.store.command import Command, Operation, check_queue, refuse_log, unexpected
from penstock.store.script import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.store.keys import QueueKeys

ENQUEUE_TASKS = load("tasks/enqueue_tasks")
ENQUEUE_UNIQUE_TASK = load("tasks/enqueue_unique_task")
CANCEL_TASKS = load("tasks/cancel_tasks")
RETRY_DEAD_TASKS = load("tasks/retry_dead_tasks")
PAGE_TASKS = load("tasks/page_tasks")


def enqueue_tasks(
    keys: QueueKeys, operation: Operation, tasks: Sequence[bytes], incarnation: str = ""
) -> Command[int]:
    """Add up to 5,000 tasks; the answer is how many are ready now.

    Raises QueueFull, QueueAbsent or QueueTaken.
    """

    def decode(reply: list[Any]) -> int:
        word = reply[0]
        if word == b"ok":
            return int(reply[1])
        check_queue(reply)
        if word == b"full":
            raise _full(keys, len(tasks), reply)
        if word == b"jobs":
            raise _holds_jobs(keys, reply)
        raise unexpected(ENQUEUE_TASKS, reply)

    return Command(
        ENQUEUE_TASKS,
        (keys.memory(operation.lane), keys.ready, keys.meta, keys.idle),
        (operation.number, incarnation, keys.work, keys.wake, *map(plain_element, tasks)),
        decode,
    )


def enqueue_unique_task(
    keys: QueueKeys,
    operation: Operation,
    task: bytes,
    unique_key: bytes,
    holder: bytes,
    incarnation: str = "",
) -> Command[Enqueued]:
    """Add a task unless its key is taken. Raises QueueFull, QueueAbsent or QueueTaken."""

    def decode(reply: list[Any]) -> Enqueued:
        check_queue(reply)
        match reply[0]:
            case b"ok":
                return Enqueued(True, task)
            case b"exists":
                return Enqueued(False, reply[1])
            case b"full":
                raise _full(keys, 1, reply)
            case b"jobs":
                raise _holds_jobs(keys, reply)
        raise unexpected(ENQUEUE_UNIQUE_TASK, reply)

    return Command(
        ENQUEUE_UNIQUE_TASK,
        (
            keys.memory(operation.lane),
            keys.ready,
            keys.meta,
            keys.idle,
            keys.unique,
            keys.unique_tasks,
        ),
        (operation.number, incarnation, keys.work, keys.wake, unique_key, holder, task),
        decode,
    )


def cancel_tasks(keys: QueueKeys, operation: Operation, task: bytes) -> Command[int]:
    """Remove every waiting copy of a task; the answer is how many there were."""

    def decode(reply: list[Any]) -> int:
        if reply[0] == b"ok":
            return int(reply[1])
        raise unexpected(CANCEL_TASKS, reply)

    return Command(
        CANCEL_TASKS,
        (
            keys.memory(operation.lane),
            keys.ready,
            keys.meta,
            keys.failures,
            keys.unique,
            keys.unique_tasks,
        ),
        (operation.number, task, plain_element(task), keys.cancel),
        decode,
    )


def retry_dead_tasks(keys: QueueKeys, operation: Operation, limit: int) -> Command[tuple[int, int]]:
    """Put up to 1,000 dead tasks back; the answer is how many went, and how many are left."""

    def decode(reply: list[Any]) -> tuple[int, int]:
        if reply[0] == b"ok":
            return int(reply[1]), int(reply[2])
        raise unexpected(RETRY_DEAD_TASKS, reply)

    return Command(
        RETRY_DEAD_TASKS,
        (keys.memory(operation.lane), keys.ready, keys.dead, keys.idle),
        (operation.number, limit, keys.work, keys.wake),
        decode,
    )


def page_tasks(tasks_key: str, offset: int, limit: int, are_elements: bool = True) -> Command[Page]:
    """Read tasks of `keys.ready` or `keys.dead`, oldest first. What is dead is no element any more
    but the task as it was put in, whatever it begins with.
    """

    def decode(reply: list[Any]) -> Page:
        if reply[0] == b"ok":
            found: list[bytes] = reply[2:]
            tasks = [task_of(element) for element in found] if are_elements else found
            return Page(tasks, int(reply[1]))
        raise unexpected(PAGE_TASKS, reply)

    return Command(PAGE_TASKS, (tasks_key,), (offset, limit), decode)


def no_plain_handler(keys: QueueKeys) -> WrongKind:
    return WrongKind(
        f"queue {keys.queue!r} holds jobs, so a handler of plain tasks would never be called; "
        "serve it with functions marked @penstock.job, give the handler another queue, or "
        f"delete this one first (`penstock queue delete {keys.queue}`)"
    )


def _holds_jobs(keys: QueueKeys, reply: list[Any]) -> WrongKind:
    refuse_log(keys.queue, reply[1])
    return WrongKind(
        f"queue {keys.queue!r} holds jobs, so it takes no plain tasks; "
        "send a job, or choose another queue"
    )


def _full(keys: QueueKeys, count: int, reply: list[Any]) -> QueueFull:
    tasks = "1 more task" if count == 1 else f"{count} more tasks"
    return QueueFull(
        f"queue {keys.queue!r} holds {reply[1]} of at most {reply[2]} tasks and has no room for "
        f"{tasks}; "
        "try again when workers have caught up, or raise its maximum length"
    )
