"""A queue, as its producers and operators see it."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, TypeVar, Unpack

from penstock.client._async.deletion import delete_jobs
from penstock.client._async.unserved import look_if_served
from penstock.client.batches import Batches, check_items
from penstock.codec.events import decode_event
from penstock.connection.queues import ain_queue, ainspect_queue
from penstock.connection.subscription import AsyncSubscription, alisten
from penstock.errors import InvalidArgument, QueueNotFound
from penstock.model.events import EVENT_KINDS, Event, EventKind
from penstock.model.queues import (
    Deleted,
    Enqueued,
    Page,
    QueueSettings,
    QueueState,
    check_bytes,
    check_payload,
    check_settings,
)
from penstock.store.command import QueueAbsent
from penstock.store.commands import processes, queues, tasks

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence

    from penstock.connection.store import AsyncStore
    from penstock.connection.wire import Meanwhile
    from penstock.store.command import Command, Operation
    from penstock.store.keys import NamespaceKeys

R = TypeVar("R")

_MAX_KEY_BYTES = 1024
# Larger ones gain nothing, and cost Redis 6.2 several times more per task.
_BATCH_TASKS = 1000


class AsyncQueue:
    """Tasks, first in, first out. A task is any bytes; what is put in is what comes out."""

    def __init__(
        self, store: AsyncStore, namespace: NamespaceKeys, name: str, max_payload: int
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._keys = namespace.queue(name)
        self._max_payload = max_payload
        self.name = name

    async def enqueue(self, task: bytes) -> None:
        """Add a task to the back.

        Raises PayloadTooLarge before anything is sent, and QueueFull or StoreFull if there is no
        room.
        """
        if type(task) is not bytes or len(task) > self._max_payload:
            self._check(task)
        try:
            await self._store.run_once(lambda operation: self._enqueue_command(operation, task))
            if self._store.server is not None:
                await self._look_if_served()
            return
        except QueueAbsent:
            pass  # what goes wrong from here on has nothing to do with it
        await self._enqueue((task,))

    async def enqueue_many(self, items: Iterable[bytes]) -> int:
        """Add tasks in their order; returns how many.

        They go in batches of up to 1,000 tasks and about 1 MiB; `items` is read one batch ahead.
        Each batch is added whole or not at all; if one is refused, the ones before it stay, and
        the error says how many tasks those were (`error.accepted`).
        """
        check_items(items, "the bytes of each task")
        accepted = 0
        batches = Batches(items, self._check, len, _BATCH_TASKS, tuple)
        try:
            while batch := batches.take():
                await self._enqueue(batch, batches.prepare)
                accepted += len(batch)
        except Exception as error:
            error.accepted = accepted  # type: ignore[attr-defined]
            raise
        return accepted

    async def enqueue_unique(self, task: bytes, key: str | None = None) -> Enqueued:
        """Add a task unless one with the same key is waiting or running; the key is the task itself
        if none is given.

        The key is free again when its task is finished, cancelled, dead or deleted.
        """
        self._check(task)
        unique_key = _unique_key(task, key)
        holder = secrets.token_bytes(8)

        enqueued = await self._in_queue(
            lambda incarnation: self._store.run_once(
                lambda operation: tasks.enqueue_unique_task(
                    self._keys, operation, task, unique_key, holder, incarnation
                )
            )
        )
        await self._look_if_served()
        return enqueued

    async def count(self) -> int:
        """How many tasks wait."""
        page = await self._store.run(tasks.page_tasks(self._keys.ready, 0, 1))
        return page.total

    async def peek(self) -> bytes | None:
        """The task that is next, without taking it; None if none waits."""
        page = await self._store.run(tasks.page_tasks(self._keys.ready, 0, 1))
        return page.tasks[0] if page.tasks else None

    async def page(self, offset: int = 0, limit: int = 100) -> Page:
        """Waiting tasks, oldest first, without taking them."""
        _check_page(offset, limit)
        return await self._store.run(tasks.page_tasks(self._keys.ready, offset, limit))

    async def dead(self, offset: int = 0, limit: int = 100) -> Page:
        """Tasks that failed too often, oldest first."""
        _check_page(offset, limit)
        return await self._store.run(
            tasks.page_tasks(self._keys.dead, offset, limit, are_elements=False)
        )

    async def retry_dead(self) -> int:
        """Put all dead tasks back to the end of the queue; returns how many."""
        retried = 0
        while True:
            moved, left = await self._store.run_once(
                lambda operation: tasks.retry_dead_tasks(self._keys, operation, 1000)
            )
            retried += moved
            if not moved or not left:
                return retried

    async def cancel(self, task: bytes) -> int:
        """Remove every waiting copy of a task and tell the workers that run one; returns how
        many were removed.
        """
        check_bytes("task", task)
        return await self._store.run_once(
            lambda operation: tasks.cancel_tasks(self._keys, operation, task)
        )

    async def find(self, task: bytes) -> list[tuple[str, int]]:
        """The processes that run a task, as (worker, process id)."""
        check_bytes("task", task)
        try:
            state = await self.inspect()
        except QueueNotFound:
            return []
        found = []
        for worker, held in state.held.items():
            if held:
                command = processes.find_processes(self._keys, worker, task)
                found += [(worker, process) for process in await self._store.run(command)]
        return found

    async def pause(self) -> None:
        """Hand out nothing more. What runs goes on, and tasks can still be added."""
        await self._in_queue(
            lambda incarnation: self._store.run_once(
                lambda operation: queues.pause_queue(self._keys, operation, incarnation)
            )
        )

    async def resume(self) -> None:
        """Hand out tasks again."""
        await self._store.run(queues.resume_queue(self._keys))

    async def configure(self, **settings: Unpack[QueueSettings]) -> None:
        """Change settings; those not given stay as they are.

        `max_length`: how many tasks may wait (None: any number). `max_failures`: after how many
        failed deliveries a task is dead (None: 5).
        """
        given = check_settings(settings)
        await self._in_queue(
            lambda incarnation: self._store.run_once(
                lambda operation: queues.configure_queue(self._keys, operation, given, incarnation)
            )
        )

    async def delete(self) -> Deleted:
        """Delete all waiting and dead tasks, and the queue itself unless tasks are running."""
        done = await self._store.run_once(
            lambda operation: queues.delete_queue(self._keys, operation)
        )
        if done is None:
            return await delete_jobs(self._store, self._namespace, self._keys)
        deleted, incarnation = done
        if incarnation:
            await self._store.run(queues.unregister_queue(self._namespace, incarnation))
        return deleted

    async def inspect(self) -> QueueState:
        """Everything that is counted about the queue, at one instant. Raises QueueNotFound."""
        return await ainspect_queue(self._store, self._keys)

    async def events(
        self, *kinds: EventKind, timeout_s: float | None = None
    ) -> AsyncGenerator[Event, None]:
        """Listen to the queue from now on; all kinds of events if none is named.

        Live only: what happened before is not told. Ends when nothing comes for `timeout_s`.
        """
        wanted = {self._keys.channel(kind): kind for kind in kinds or EVENT_KINDS}

        def read(channel: str, message: bytes) -> Event:
            return decode_event(wanted[channel], self.name, message)

        subscription = AsyncSubscription(self._store, self._keys.meta, list(wanted))
        return await alisten(subscription, read, timeout_s)

    def _enqueue_command(self, operation: Operation, task: bytes) -> Command[int]:
        return tasks.enqueue_tasks(self._keys, operation, (task,))

    async def _enqueue(self, batch: Sequence[bytes], meanwhile: Meanwhile = None) -> None:
        await self._in_queue(
            lambda incarnation: self._store.run_once(
                lambda operation: tasks.enqueue_tasks(self._keys, operation, batch, incarnation),
                meanwhile,
            )
        )
        await self._look_if_served()

    async def _look_if_served(self) -> None:
        await look_if_served(self._store, self._namespace, self._keys)

    async def _in_queue(self, act: Callable[[str], Awaitable[R]], *, joins: bool = False) -> R:
        """Do something to the queue, and bring it into being if it does not exist."""
        return await ain_queue(self._store, self._namespace, self.name, act, joins=joins)

    def _check(self, task: bytes) -> bytes:
        check_payload("task", task, self._max_payload)
        return task


def _unique_key(task: bytes, key: str | None) -> bytes:
    """Given and derived keys begin differently, so that they never meet."""
    if key is None:
        return b"#" + hashlib.sha256(task).hexdigest().encode()
    if not isinstance(key, str):
        raise InvalidArgument(f"a unique key is text, not {type(key).__name__}; pass a str")
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(
            f"unique key {key!r} is not valid Unicode text (it holds a lone surrogate)"
        ) from None
    if not 0 < len(encoded) <= _MAX_KEY_BYTES:
        raise InvalidArgument(
            f"a unique key has 1 to {_MAX_KEY_BYTES} bytes; this one has {len(encoded)}"
        )
    return b"=" + encoded


def _check_page(offset: int, limit: int) -> None:
    if type(offset) is not int or type(limit) is not int or offset < 0 or not 1 <= limit <= 1000:
        raise InvalidArgument(
            f"a page starts at 0 or later and has 1 to 1000 tasks; offset is {offset!r}, limit is "
            f"{limit!r}"
        )
