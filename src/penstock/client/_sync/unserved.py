# Generated from _async/unserved.py by tools/generate_sync.py. Edit that file instead.

"""Looks whether a queue of the private server is served, when something was sent to it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.client.unserved import is_first, tell_if_unserved
from penstock.connection.queues import inspect_queue
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.connection.store import Store
    from penstock.store.keys import NamespaceKeys, QueueKeys


def look_if_served(store: Store, namespace: NamespaceKeys, keys: QueueKeys) -> None:
    """Ask once in the life of this process; elsewhere than on the private server, never."""
    if store.server is None or not is_first(keys.meta):
        return
    with suppress(PenstockError):  # what was sent is sent, whatever becomes of this
        tell_if_unserved(inspect_queue(store, keys), namespace.namespace)
