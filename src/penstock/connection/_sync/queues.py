# Generated from _async/queues.py by tools/generate_sync.py. Edit that file instead.

"""Steps on a queue that are more than one request."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, TypeVar

from penstock.store.command import QueueAbsent, QueueTaken
from penstock.store.commands import queues

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.connection._sync.store import Store
    from penstock.model.queues import QueueState
    from penstock.store.keys import NamespaceKeys, QueueKeys

R = TypeVar("R")


def in_queue(
    store: Store,
    namespace: NamespaceKeys,
    name: str,
    act: Callable[[str], R],
    *,
    joins: bool = False,
) -> R:
    """Do something to a queue, and bring it into being if it does not exist.

    The list of queues lives on another server than the queue may, so this is several steps. An
    incarnation is on the list before a queue is created with it, and leaves it only after a
    reply has said that no queue will be. A crash in between leaves an entry that names no
    queue, which `penstock fsck --repair` removes.

    `joins` says that a worker is to join it, which a full store does not refuse.
    """
    incarnation = ""
    while True:
        try:
            return act(incarnation)
        except QueueAbsent:
            wanted = secrets.token_hex(8)
            step = queues.register_queue(namespace, name, wanted, joins)
        except QueueTaken:
            # Another client was faster; that queue has an entry of its own.
            wanted = ""
            step = queues.unregister_queue(namespace, incarnation)
        store.run(step)
        incarnation = wanted


def inspect_queue(store: Store, keys: QueueKeys) -> QueueState:
    """Everything that is counted about a queue, at one instant. Raises QueueNotFound."""
    answer: QueueState | list[str] = []
    while isinstance(answer, list):
        answer = store.run(queues.inspect_queue(keys, answer))
    return answer
